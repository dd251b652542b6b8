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

from ..authoring.agents import find_teams
from ..base import add_refusal_message, by_name, keyset, parse_small_number, render_shell_page, require_login
from ..owner_urls import address, find_by_name, mark_namesake

WRITES = "collections:write"
RESULTS = 10
# The fields of the form of a question.
QUESTION = ("question", "document", "place")
# Pieces before and after the place that is opened.
AROUND = 3
SOURCE = "REMOTE_ADDR"


@require_login(writes=WRITES)
def collection_list(request: HttpRequest) -> HttpResponse:
    """By name. POST creates one."""
    if request.method == "POST":
        return create_posted_collection(request)
    rows = Collection.objects.visible_to(request.user).select_related("owner", "team")
    collections, paging = by_name(request, rows)
    return render_shell_page(request, "collections.html", _("Collections"), collections=collections, **paging)


def create_posted_collection(request: HttpRequest) -> HttpResponse:
    body = {name: request.POST.get(name, "").strip() for name in ("name", "description")}
    serializer = CollectionSerializer(data=body, context={"request": request})
    try:
        require_valid(serializer)
        with refusals("collection", request.user):
            row = serializer.save()
            catalog.save_collection_tools(row)
    except MusterError as error:
        add_refusal_message(request, error)
        return redirect("page:collections")
    record_collection_event(request, "created", row)
    return redirect(address("page:collection", row))


def require_valid(serializer: Any) -> None:
    """Raises Invalid with the first problem."""
    if not serializer.is_valid():
        first_errors = next(iter(serializer.errors.values()))
        raise Invalid(str(first_errors[0]))


@require_login(writes=WRITES)
def collection_page(request: HttpRequest, name: str) -> HttpResponse:
    """Its documents, newest first, and what a search finds. POST adds a document.

    `?part=documents` returns only their table, which changes while they are read.
    """
    row = find_by_name(request, Collection.objects.all(), name)
    if request.method == "POST":
        return add_posted_documents(request, row)
    documents, older = keyset(request, Document.objects.filter(collection=row).current().select_related("file"))
    is_busy = any(document.status in ("waiting", "indexing") for document in documents)
    table = {"collection": row, "documents": documents, "may_edit": row.may_edit(request.user), "is_busy": is_busy}
    if request.GET.get("part") == "documents":
        return render_shell_page(request, "collection_documents.html", row.name, **table)
    question = request.GET.get("query", "")[:500].replace("\0", "").strip()
    results = Results()
    if question:
        row.require_use(request.user)
        results = search_all(row, question, Asker(request.user.pk), limit=RESULTS)
    return render_shell_page(
        request,
        "collection.html",
        row.name,
        **table,
        older=older,
        question=question,
        found=results.hits,
        not_searched=results.absent,
        teams=find_teams(request.user, row) if row.owner_id == request.user.pk else [],
        **folder_context(request, row),
        **account_context(request, row),
        **evaluation_context(row),
    )


def add_posted_documents(request: HttpRequest, row: Collection) -> HttpResponse:
    row.require_edit(request.user)
    try:
        for document, is_new in add_documents(request, row):
            if is_new:
                record_collection_event(request, "added", document, collection=row.name, kind=document.source)
            else:
                messages.info(request, _("“%(name)s” is here with this content already.") % {"name": document.name})
    except MusterError as error:
        add_refusal_message(request, error)
    return redirect(address("page:collection", row))


def add_documents(request: HttpRequest, row: Collection) -> Any:
    """Each document of the form: files, or an address. Raises Invalid, Conflict, TooLarge."""
    is_untrusted = request.POST.get("own") != "yes"
    url = request.POST.get("url", "").strip()
    if url:
        require_valid(NewDocumentSerializer(data={"url": url}))
        yield storage.add_url(row, url, name=url[:200])
        return
    uploads = request.FILES.getlist("file")
    if not uploads:
        raise Invalid(_("Choose a file, or write an address."))
    for upload in uploads:
        name = files.clean_name(upload.name or "")
        yield storage.add_content(
            row, request.user.pk, name, upload, declared=upload.content_type or "",
            untrusted=is_untrusted, source=Document.Source.UPLOAD,
        )  # fmt: skip


@require_POST
@require_login(writes=WRITES)
def handle_document_action(request: HttpRequest, name: str, pk: UUID, verb: str) -> HttpResponse:
    """Read a document again, remove it from the next version on, or erase it from all versions."""
    row = editable(request, name)
    document = find_document(row, pk)
    perform, event = ACTIONS[verb]
    try:
        perform(document)
    except MusterError as error:
        add_refusal_message(request, error)
    else:
        record_collection_event(request, event, document, collection=row.name)
    return redirect(address("page:collection", row))


# What each button does, and the event in the audit log.
ACTIONS: dict[str, tuple[Any, str]] = {
    "reindex": (storage.index_again, "reindexed"),
    "remove": (storage.remove_document, "removed"),
    "erase": (storage.erase_document, "erased"),
}


@require_POST
@require_login(writes=WRITES)
def delete_shown_collection(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    catalog.delete_collection(row, request.user, audit=lambda verb, gone: record_collection_event(request, verb, gone))
    messages.success(request, _("The collection and its documents are deleted."))
    return redirect("page:collections")


@require_safe
@require_login
def document_page(request: HttpRequest, name: str, pk: UUID) -> HttpResponse:
    """The text of a document around a place (`?at=`, from 0), for people who may use its collection.

    The id decides, because a collection may get another name.
    """
    usable = Collection.objects.usable_by(request.user).values("pk")
    documents = Document.objects.select_related("collection__team", "collection__owner").filter(collection__in=usable)
    document = documents.filter(pk=pk).first()
    if document is None:
        # Raises NotFound if the person may not use the collection either.
        row = Collection.objects.for_use(request.user, name, request.GET.get("owner"))
        raise Http404(f"There is no such document in the collection “{row.name}”.")
    at = parse_small_number(request.GET.get("at", ""))
    # Pieces on one page: those around the place, and the place itself.
    page_size = 2 * AROUND + 1
    first = max(0, at - AROUND)
    pieces = document.chunks.defer("words").filter(position__gte=first)
    has_later = at + AROUND + 1 < document.chunk_count
    return render_shell_page(
        request,
        "document.html",
        document.name,
        collection=mark_namesake(request.user, document.collection),
        document=document,
        pieces=list(pieces[:page_size]),
        at=at,
        is_chosen="at" in request.GET,
        earlier=max(0, at - page_size) if at > AROUND else None,
        later=at + page_size if has_later else None,
    )


def editable(request: HttpRequest, name: str) -> Collection:
    row: Collection = find_by_name(request, Collection.objects.all(), name)
    row.require_edit(request.user)
    return row


def find_document(row: Collection, pk: UUID) -> Document:
    try:
        return Document.objects.select_related("file", "collection").get(collection=row, pk=pk)
    except Document.DoesNotExist:
        raise Http404("There is no such document in this collection.")


def record_collection_event(request: HttpRequest, verb: str, row: Any, **details: Any) -> None:
    action = f"{row._meta.model_name}.{verb}"
    AuditEvent.record(action, row, actor=request.user, source=request.META.get(SOURCE, ""), **details)


# -- the evaluation set ------------------------------------------------------------------------------------------------


def evaluation_context(row: Collection) -> dict[str, Any]:
    """Each question with its rank in the last evaluation: a number, None for not found, or "" for not asked yet."""
    last = row.evaluations.first()
    ranks = {}
    if last:
        ranks = {evaluation.build_key(entry): entry["rank"] for entry in last.ranks}
    questions = list(row.questions.all()[: evaluation.QUESTIONS])
    for question in questions:
        key = (question.question, question.document, question.place)
        question.rank = ranks.get(key, "")
    return {"questions": questions, "evaluation": last}


@require_POST
@require_login(writes=WRITES)
def add_question(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    fields = {field: request.POST.get(field, "").strip() for field in QUESTION}
    serializer = NewEvaluationQuestionSerializer(data=fields)
    try:
        require_valid(serializer)
        question = evaluation.add_question(row, **serializer.validated_data)
        record_collection_event(request, "added", question, collection=row.name)
    except MusterError as error:
        add_refusal_message(request, error)
    return redirect(address("page:collection", row))


@require_POST
@require_login(writes=WRITES)
def remove_question(request: HttpRequest, name: str, pk: UUID) -> HttpResponse:
    row = editable(request, name)
    question = row.questions.filter(pk=pk).first()
    if question is None:
        raise Http404("There is no such question in this collection.")
    record_collection_event(request, "removed", question, collection=row.name)
    question.delete()
    return redirect(address("page:collection", row))


@require_POST
@require_login(writes=WRITES)
def evaluate(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    try:
        result = evaluation.evaluate(row)
    except MusterError as error:
        add_refusal_message(request, error)
    else:
        record_collection_event(request, "made", result, collection=row.name, version=result.version)
        if not result.warning:
            messages.success(request, _("The questions were searched."))
    return redirect(address("page:collection", row))


# -- folders of the person's own devices -------------------------------------------------------------------------------


def folder_context(request: HttpRequest, row: Collection) -> dict[str, Any]:
    """The person's folders in this collection, each with its device or None, and what they could add."""
    devices = {device.pk: device for device in Device.objects.visible_to(request.user).live()}
    folders = []
    for folder in CollectionFolder.objects.visible_to(request.user).filter(collection=row):
        folders.append({"row": folder, "device": devices.get(folder.device_id)})
    shared_folders = []
    for device in devices.values():
        for name in device.folders:
            shared_folders.append({"value": f"{device.pk}/{name}", "device": device.name, "name": name})
    return {"folders": folders, "shared_folders": shared_folders}


@require_POST
@require_login(writes=WRITES)
def add_folder(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    device, _slash, top = request.POST.get("folder", "").partition("/")
    below = request.POST.get("path", "").strip()
    path = f"{top}/{below}".replace("\0", "").rstrip("/")
    try:
        folder, is_new = device_folders.add_device_folder(row, request.user, read_device_id(device), path)
    except MusterError as error:
        add_refusal_message(request, error)
    else:
        if is_new:
            record_collection_event(request, "added", folder, collection=row.name)
    return redirect(address("page:collection", row))


@require_POST
@require_login(writes=WRITES)
def remove_folder(request: HttpRequest, name: str, pk: UUID) -> HttpResponse:
    """Also where the person may not change the collection."""
    row = find_by_name(request, Collection.objects.all(), name)
    folder = CollectionFolder.objects.visible_to(request.user).filter(collection=row, pk=pk).first()
    if folder is None:
        raise Http404("You have no such folder in this collection.")
    record_collection_event(request, "removed", folder, collection=row.name)
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
    mail_accounts = []
    for account in CollectionAccount.objects.visible_to(request.user).filter(collection=row):
        failed_count = account.items.exclude(error="").count()
        # The name is empty once the connection is gone or switched off.
        name = names.get(account.connection_id, "")
        mail_accounts.append({"row": account, "account": name, "failed": failed_count})
    return {"mail_accounts": mail_accounts, "connections": connections}


@require_POST
@require_login(writes=WRITES)
def add_account(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    query = request.POST.get("query", "").replace("\0", "").strip()[:500]
    try:
        if not query:
            raise Invalid(_("Write what to search for."))
        account, is_new = accounts.add_collection_account(row, request.user, request.POST.get("account", ""), query)
    except MusterError as error:
        add_refusal_message(request, error)
    else:
        if is_new:
            record_collection_event(request, "added", account, collection=row.name)
    return redirect(address("page:collection", row))


@require_POST
@require_login(writes=WRITES)
def remove_account(request: HttpRequest, name: str, pk: UUID) -> HttpResponse:
    """Also where the person may not change the collection."""
    row = find_by_name(request, Collection.objects.all(), name)
    account = CollectionAccount.objects.visible_to(request.user).filter(collection=row, pk=pk).first()
    if account is None:
        raise Http404("You have no such account in this collection.")
    record_collection_event(request, "removed", account, collection=row.name)
    accounts.remove_collection_account(account)
    return redirect(address("page:collection", row))
