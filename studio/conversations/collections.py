"""The pages of collections: documents with their state, adding and removing them, search, and the text at a place."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from agents import storage as files
from agents.exceptions import Invalid, MusterError
from agents.http.viewsets import refusals
from agents.models import AuditEvent
from knowledge.collections import catalog, storage
from knowledge.collections.device_folders import Asker
from knowledge.collections.folders import Results, search_all
from knowledge.collections.serializers import CollectionSerializer, NewDocumentSerializer
from knowledge.models import Collection, Document

from ..base import by_name, keyset, page, signed_in, tell
from ..namesakes import address, marked, opened
from . import accounts, evaluations, folders

WRITES = "collections:write"
RESULTS = 10
AROUND = 3  # pieces before and after the place that is opened
SOURCE = "REMOTE_ADDR"


@signed_in(writes=WRITES)
def collection_list(request: HttpRequest) -> HttpResponse:
    """By name. POST creates one."""
    if request.method == "POST":
        return create(request)
    rows = Collection.objects.visible_to(request.user).select_related("owner", "team")
    collections, paging = by_name(request, rows)
    return page(request, "collections.html", _("Collections"), collections=collections, **paging)


def create(request: HttpRequest) -> HttpResponse:
    body = {"name": request.POST.get("name", "").strip(), "description": request.POST.get("description", "").strip()}
    serializer = CollectionSerializer(data=body, context={"request": request})
    try:
        if not serializer.is_valid():
            raise Invalid(next(str(errors[0]) for errors in serializer.errors.values()))
        with refusals("collection", request.user):
            row = serializer.save()
            catalog.list_tools(row)
    except MusterError as error:
        tell(request, error)
        return redirect("page:collections")
    note(request, "created", row)
    return redirect(address("page:collection", row))


@signed_in(writes=WRITES)
def collection_page(request: HttpRequest, name: str) -> HttpResponse:
    """Its documents, newest first, and what a search finds. POST adds a document."""
    row = opened(request, Collection.objects.all(), name)
    if request.method == "POST":
        return add(request, row)
    documents, older = keyset(request, Document.objects.filter(collection=row).current().select_related("file"))
    question = request.GET.get("query", "")[:500].replace("\0", "").strip()
    if question:
        row.require_use(request.user)
    asker = Asker(request.user.pk)
    answer = search_all(row, question, asker, limit=RESULTS) if question else Results()
    return page(
        request, "collection.html", row.name, collection=row, documents=documents, older=older, question=question,
        found=answer.hits, not_searched=answer.absent, may_edit=row.may_edit(request.user),
        **folders.context_of(request, row), **accounts.context_of(request, row), **evaluations.context_of(row),
        is_busy=any(one.status in ("waiting", "indexing") for one in documents),
    )  # fmt: skip


def add(request: HttpRequest, row: Collection) -> HttpResponse:
    row.require_edit(request.user)
    try:
        for document, is_new in added(request, row):
            if is_new:
                note(request, "added", document, collection=str(row), kind=document.source)
            else:
                messages.info(request, _("“%(name)s” is here with this content already.") % {"name": document.name})
    except MusterError as error:
        tell(request, error)
    return redirect(address("page:collection", row))


def added(request: HttpRequest, row: Collection) -> Any:
    """Each document of the form: files, or an address. Raises Invalid, Conflict, TooLarge."""
    is_untrusted = request.POST.get("own") != "yes"
    if url := request.POST.get("url", "").strip():
        serializer = NewDocumentSerializer(data={"url": url})
        if not serializer.is_valid():
            raise Invalid(next(str(errors[0]) for errors in serializer.errors.values()))
        yield storage.add_url(row, url, name=url[:200])
        return
    sent = request.FILES.getlist("file")
    if not sent:
        raise Invalid(_("Choose a file, or write an address."))
    for upload in sent:
        yield storage.add_content(
            row, request.user.pk, files.clean_name(upload.name or ""), upload, declared=upload.content_type or "",
            untrusted=is_untrusted, source=Document.Source.UPLOAD,
        )  # fmt: skip


@require_POST
@signed_in(writes=WRITES)
def act(request: HttpRequest, name: str, pk: UUID, verb: str) -> HttpResponse:
    """Read a document again, remove it from the next version on, or erase it from all versions."""
    row = opened(request, Collection.objects.all(), name)
    row.require_edit(request.user)
    document = found_in(row, pk)
    try:
        {"reindex": storage.index_again, "remove": storage.remove, "erase": storage.erase}[verb](document)
    except MusterError as error:
        tell(request, error)
    else:
        done = {"reindex": "reindexed", "remove": "removed", "erase": "erased"}[verb]
        note(request, done, document, collection=row.name)
    return redirect(address("page:collection", row))


@require_POST
@signed_in(writes=WRITES)
def delete(request: HttpRequest, name: str) -> HttpResponse:
    row = opened(request, Collection.objects.all(), name)
    row.require_edit(request.user)
    catalog.remove(row, request.user, audit=lambda verb, gone: note(request, verb, gone))
    messages.success(request, _("The collection and its documents are deleted."))
    return redirect("page:collections")


@require_safe
@signed_in
def document_page(request: HttpRequest, name: str, pk: UUID) -> HttpResponse:
    """The text of a document around a place (`?at=`, from 0), for people who may use its collection.

    The id decides, because a collection may get another name.
    """
    usable = Collection.objects.usable_by(request.user).values("pk")
    document = (
        Document.objects.select_related("collection__team", "collection__owner")
        .filter(collection__in=usable, pk=pk)
        .first()
    )
    if document is None:
        row = Collection.objects.for_use(request.user, name, request.GET.get("owner"))
        raise Http404(f"There is no such document in the collection “{row.name}”.")
    at = number_in(request.GET.get("at", ""))
    pieces = list(document.chunks.defer("words").filter(position__gte=max(0, at - AROUND))[: 2 * AROUND + 1])
    return page(
        request, "document.html", document.name, collection=marked(request.user, document.collection),
        document=document, pieces=pieces, at=at, is_chosen="at" in request.GET,
        earlier=max(0, at - 2 * AROUND - 1) if at > AROUND else None,
        later=at + 2 * AROUND + 1 if at + AROUND + 1 < document.chunk_count else None,
    )  # fmt: skip


def found_in(row: Collection, pk: UUID) -> Document:
    try:
        return Document.objects.select_related("file", "collection").get(collection=row, pk=pk)
    except Document.DoesNotExist:
        raise Http404("There is no such document in this collection.")


def note(request: HttpRequest, verb: str, row: Any, **details: Any) -> None:
    action = f"{row._meta.model_name}.{verb}"
    AuditEvent.record(action, row, actor=request.user, source=request.META.get(SOURCE, ""), **details)


def number_in(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
