"""The page of a person's files: upload, where each is used, download, delete, and how much room is left."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.cache import cache
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents import storage
from agents.exceptions import MusterError
from agents.http.filters import filter_by_words
from agents.http.room import Holder, count_stored
from agents.http.viewsets import refusals
from agents.models import AuditEvent, StoredFile
from knowledge.models import Collection, Document
from runs.models import Artifact, Attachment

from ..base import add_refusal_message, keyset, render_shell_page, require_login

CHOICES = ("search", "source")
SOURCE = "REMOTE_ADDR"
HELD_S = 10  # seconds that a sum is shown


@require_login
def file_list(request: HttpRequest) -> HttpResponse:
    """Newest first. POST stores a file."""
    if request.method == "POST":
        return upload(request)
    chosen = {name: request.GET.get(name, "")[:200].replace("\0", "") for name in CHOICES}
    rows = StoredFile.objects.visible_to(request.user)
    rows = filter_by_words(rows, chosen["search"], "name")
    if chosen["source"]:
        rows = rows.filter(source=chosen["source"])
    files, older = keyset(request, rows)
    mark_uses(files)
    return render_shell_page(
        request,
        "files.html",
        _("Files"),
        files=files,
        older=older,
        chosen=chosen,
        is_filtered=any(chosen.values()),
        sources=StoredFile.Source.choices,
        used=storage.usage(request.user.pk),
        held=measure_held(request.user),
        most_held=settings.RUN_BYTES_PER_PERSON,
        most=settings.FILE_BYTES_PER_PERSON,
        most_files=storage.FILES_PER_PERSON,
        most_of_one=settings.FILE_BYTES,
        keep=settings.KEEP_DAYS,
        is_scanned=bool(settings.FILE_SCANNER),
    )


def measure_held(person: Any) -> int:
    """The bytes of the person's runs and conversations: summing them takes a while for somebody with many."""
    key = f"held:{person.pk}"
    held = cache.get(key)
    if held is None:
        held = count_stored(Holder(person.pk))
        cache.set(key, held, HELD_S)
    return int(held)


def mark_uses(files: list[Any]) -> None:
    """The sessions and collections that contain a file, and the run that made it. Three queries."""
    attachments = Attachment.objects.filter(file__in=files)
    sessions: dict[Any, set[Any]] = {}
    for file_id, session_id in attachments.values_list("file_id", "message__session_id"):
        sessions.setdefault(file_id, set()).add(session_id)
    collections: dict[Any, dict[Any, Collection]] = {}
    for document in Document.objects.filter(file__in=files).current().select_related("collection"):
        collections.setdefault(document.file_id, {})[document.collection_id] = document.collection
    runs = dict(Artifact.objects.filter(file__in=files).values_list("file_id", "run_id"))
    for file in files:
        file.sessions = sorted(sessions.get(file.pk, ()))
        file.collections = list(collections.get(file.pk, {}).values())
        file.run_id = runs.get(file.pk)


def upload(request: HttpRequest) -> HttpResponse:
    sent = request.FILES.get("file")
    if sent is None:
        messages.error(request, _("Choose a file."))
        return redirect("page:files")
    is_untrusted = request.POST.get("own") != "yes"
    declared = sent.content_type or ""
    try:
        row = storage.save_file(request.user.pk, sent.name or "", sent, declared=declared, untrusted=is_untrusted)
    except MusterError as error:
        add_refusal_message(request, error)
    else:
        AuditEvent.record("storedfile.created", row, actor=request.user, source=request.META.get(SOURCE, ""))
        messages.success(request, _("“%(name)s” is stored.") % {"name": row.name})
    return redirect("page:files")


@require_POST
@require_login
def delete_own_file(request: HttpRequest, pk: UUID) -> HttpResponse:
    rows = StoredFile.objects.visible_to(request.user).filter(pk=pk)
    row = rows.first()
    if row is None:
        raise Http404("You have no such file.")
    with refusals("file", request.user):
        AuditEvent.record("storedfile.deleted", row, actor=request.user, source=request.META.get(SOURCE, ""))
        storage.delete_files(rows)
    messages.success(request, _("“%(name)s” is deleted.") % {"name": row.name})
    return redirect("page:files")
