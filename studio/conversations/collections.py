"""The pages of collections: documents, search, the text at a place, the evaluation set, and the folders of devices and
the accounts that a person has put into a collection.
"""

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
from connectors.models import ACCOUNTS, Connection
from devices.models import Device
from knowledge.collections import catalog, device_folders, evaluation, storage
from knowledge.collections.device_folders import Asker
from knowledge.collections.folders import Results, search_all
from knowledge.collections.serializers import (
    CollectionSerializer,
    NewDocumentSerializer,
    NewEvaluationQuestionSerializer,
)
from knowledge.indexing import accounts
from knowledge.models import Collection, CollectionAccount, CollectionFolder, Document

from ..base import by_name, keyset, page, read_number, signed_in, tell
from ..namesakes import address, find_by_name, mark_namesake

WRITES = "collections:write"
RESULTS = 10
QUESTION = ("question", "document", "place")  # the fields of its form
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
    """Its documents, newest first, and what a search finds. POST adds a document.

    `?part=documents` returns only their table, which changes while they are read.
    """
    row = find_by_name(request, Collection.objects.all(), name)
    if request.method == "POST":
        return add(request, row)
    documents, older = keyset(request, Document.objects.filter(collection=row).current().select_related("file"))
    shown = {
        "collection": row, "documents": documents, "may_edit": row.may_edit(request.user),
        "is_busy": any(one.status in ("waiting", "indexing") for one in documents),
    }  # fmt: skip
    if request.GET.get("part") == "documents":
        return page(request, "collection_documents.html", row.name, **shown)
    question = request.GET.get("query", "")[:500].replace("\0", "").strip()
    if question:
        row.require_use(request.user)
    asker = Asker(request.user.pk)
    answer = search_all(row, question, asker, limit=RESULTS) if question else Results()
    return page(
        request, "collection.html", row.name, **shown, older=older, question=question, found=answer.hits,
        not_searched=answer.absent, **folder_context(request, row), **account_context(request, row),
        **evaluation_context(row),
    )  # fmt: skip


def add(request: HttpRequest, row: Collection) -> HttpResponse:
    row.require_edit(request.user)
    try:
        for document, is_new in add_documents(request, row):
            if is_new:
                note(request, "added", document, collection=row.name, kind=document.source)
            else:
                messages.info(request, _("“%(name)s” is here with this content already.") % {"name": document.name})
    except MusterError as error:
        tell(request, error)
    return redirect(address("page:collection", row))


def add_documents(request: HttpRequest, row: Collection) -> Any:
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
    row = editable(request, name)
    document = find_document(row, pk)
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
    row = editable(request, name)
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
    at = read_number(request.GET.get("at", ""))
    pieces = list(document.chunks.defer("words").filter(position__gte=max(0, at - AROUND))[: 2 * AROUND + 1])
    return page(
        request, "document.html", document.name, collection=mark_namesake(request.user, document.collection),
        document=document, pieces=pieces, at=at, is_chosen="at" in request.GET,
        earlier=max(0, at - 2 * AROUND - 1) if at > AROUND else None,
        later=at + 2 * AROUND + 1 if at + AROUND + 1 < document.chunk_count else None,
    )  # fmt: skip


def editable(request: HttpRequest, name: str) -> Collection:
    row: Collection = find_by_name(request, Collection.objects.all(), name)
    row.require_edit(request.user)
    return row


def find_document(row: Collection, pk: UUID) -> Document:
    try:
        return Document.objects.select_related("file", "collection").get(collection=row, pk=pk)
    except Document.DoesNotExist:
        raise Http404("There is no such document in this collection.")


def note(request: HttpRequest, verb: str, row: Any, **details: Any) -> None:
    action = f"{row._meta.model_name}.{verb}"
    AuditEvent.record(action, row, actor=request.user, source=request.META.get(SOURCE, ""), **details)


# -- the evaluation set ------------------------------------------------------------------------------------------------


def evaluation_context(row: Collection) -> dict[str, Any]:
    """Each question with its rank in the last evaluation: a number, None for not found, or "" for not asked yet."""
    last = row.evaluations.first()
    ranks = {evaluation.key(entry): entry["rank"] for entry in last.ranks} if last else {}
    questions = list(row.questions.all()[: evaluation.QUESTIONS])
    for question in questions:
        question.rank = ranks.get((question.question, question.document, question.place), "")
    return {"questions": questions, "evaluation": last}


@require_POST
@signed_in(writes=WRITES)
def add_question(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    serializer = NewEvaluationQuestionSerializer(
        data={field: request.POST.get(field, "").strip() for field in QUESTION}
    )
    try:
        if not serializer.is_valid():
            raise Invalid(next(str(errors[0]) for errors in serializer.errors.values()))
        note(request, "added", evaluation.add_question(row, **serializer.validated_data), collection=row.name)
    except MusterError as error:
        tell(request, error)
    return redirect(address("page:collection", row))


@require_POST
@signed_in(writes=WRITES)
def remove_question(request: HttpRequest, name: str, pk: UUID) -> HttpResponse:
    row = editable(request, name)
    question = row.questions.filter(pk=pk).first()
    if question is None:
        raise Http404("There is no such question in this collection.")
    note(request, "removed", question, collection=row.name)
    question.delete()
    return redirect(address("page:collection", row))


@require_POST
@signed_in(writes=WRITES)
def evaluate(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    try:
        result = evaluation.evaluate(row)
    except MusterError as error:
        tell(request, error)
    else:
        note(request, "made", result, collection=row.name, version=result.version)
        if not result.warning:
            messages.success(request, _("The questions were searched."))
    return redirect(address("page:collection", row))


# -- folders of the person's own devices -------------------------------------------------------------------------------


def folder_context(request: HttpRequest, row: Collection) -> dict[str, Any]:
    """The person's folders in this collection, each with its device or None, and what they could add."""
    devices = {device.pk: device for device in Device.objects.visible_to(request.user).live()}
    mine = list(CollectionFolder.objects.visible_to(request.user).filter(collection=row))
    return {
        "folders": [{"row": one, "device": devices.get(one.device_id)} for one in mine],
        "shared_folders": [
            {"value": f"{device.pk}/{name}", "device": device.name, "name": name}
            for device in devices.values()
            for name in device.folders
        ],
    }


@require_POST
@signed_in(writes=WRITES)
def add_folder(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    device, _slash, top = request.POST.get("folder", "").partition("/")
    path = f"{top}/{request.POST.get('path', '').strip()}".replace("\0", "").rstrip("/")
    try:
        folder, is_new = device_folders.add(row, request.user, read_device_id(device), path)
    except MusterError as error:
        tell(request, error)
    else:
        if is_new:
            note(request, "added", folder, collection=row.name)
    return redirect(address("page:collection", row))


@require_POST
@signed_in(writes=WRITES)
def remove_folder(request: HttpRequest, name: str, pk: UUID) -> HttpResponse:
    """Also where the person may not change the collection."""
    row = find_by_name(request, Collection.objects.all(), name)
    folder = CollectionFolder.objects.visible_to(request.user).filter(collection=row, pk=pk).first()
    if folder is None:
        raise Http404("You have no such folder in this collection.")
    note(request, "removed", folder, collection=row.name)
    folder.delete()
    return redirect(address("page:collection", row))


def read_device_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(_("Choose a folder."), code="unknown_device")


# -- the person's mail and chat accounts -------------------------------------------------------------------------------


def account_context(request: HttpRequest, row: Collection) -> dict[str, Any]:
    """The person's accounts in this collection, and those that they could add."""
    connections = list(Connection.objects.filter(owner=request.user, provider__in=ACCOUNTS, enabled=True))
    names = {connection.pk: connection.name for connection in connections}
    mine = CollectionAccount.objects.visible_to(request.user).filter(collection=row)
    read = [
        {
            "row": account,
            "account": names.get(account.connection_id, ""),
            "failed": account.items.exclude(error="").count(),
        }
        for account in mine
    ]
    return {"mail_accounts": read, "connections": connections}


@require_POST
@signed_in(writes=WRITES)
def add_account(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    query = request.POST.get("query", "").replace("\0", "").strip()[:500]
    try:
        if not query:
            raise Invalid(_("Write what to search for."))
        account, is_new = accounts.add(row, request.user, request.POST.get("account", ""), query)
    except MusterError as error:
        tell(request, error)
    else:
        if is_new:
            note(request, "added", account, collection=row.name)
    return redirect(address("page:collection", row))


@require_POST
@signed_in(writes=WRITES)
def remove_account(request: HttpRequest, name: str, pk: UUID) -> HttpResponse:
    """Also where the person may not change the collection."""
    row = find_by_name(request, Collection.objects.all(), name)
    account = CollectionAccount.objects.visible_to(request.user).filter(collection=row, pk=pk).first()
    if account is None:
        raise Http404("You have no such account in this collection.")
    note(request, "removed", account, collection=row.name)
    accounts.remove(account)
    return redirect(address("page:collection", row))
