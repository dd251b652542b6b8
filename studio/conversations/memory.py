"""The pages of memory: what agents know about the person, why and since when; approve, edit, roll back, delete."""

from itertools import pairwise
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.diff import side_by_side
from agents.exceptions import MusterError
from knowledge.memory import review
from knowledge.memory.filters import MemoryFilter
from knowledge.models import Memory, MemoryVersion
from runs.loop.prompt import CHOSEN
from runs.models import Run

from ..base import add_refusal_message, keyset, parse_small_number, render_shell_page, require_login
from ..bulk_decisions import decide_several

CHOICES = ("search", "status", "scope", "untrusted")
VERSIONS = 50
SOURCE = "REMOTE_ADDR"


@require_login
def memory_list(request: HttpRequest) -> HttpResponse:
    """Newest first. POST remembers something, or decides about several suggestions."""
    if request.method == "POST":
        if "text" in request.POST:
            return create_posted_memory(request)
        return decide_several(request, lambda id, version: decide_one(request, load_shown_memory(request, id), version))
    chosen = {name: request.GET.get(name, "")[:200].replace("\0", "") for name in CHOICES}
    filters = {name: value for name, value in chosen.items() if value}
    rows = Memory.objects.visible_to(request.user).select_related("agent", "team", "replaces", "owner")
    filtered = MemoryFilter(filters, rows)
    memories, older = keyset(request, filtered.qs if filtered.form.is_valid() else rows.none())
    mark_runs(request, memories)
    return render_shell_page(
        request,
        "memories.html",
        _("Memory"),
        memories=memories,
        older=older,
        chosen=chosen,
        is_filtered=bool(filters),
        has_waiting=mark_decidable(request, memories),
        scopes=Memory.Scope.choices,
        kinds=Memory.Kind.choices,
    )


def mark_runs(request: HttpRequest, rows: Any) -> None:
    """Whether the run that wrote it can be opened: history is pruned, and others' runs stay theirs."""
    run_ids = {row.run_id for row in rows if row.run_id}
    visible_ids: set[UUID] = set()
    if run_ids:
        visible_runs = Run.objects.visible_to(request.user).filter(pk__in=run_ids)
        visible_ids = set(visible_runs.values_list("pk", flat=True))
    for row in rows:
        row.has_run = row.run_id in visible_ids


def mark_decidable(request: HttpRequest, rows: Any) -> bool:
    """Whether any of them waits for this person."""
    for row in rows:
        row.may_decide = row.is_suggested and row.owner_id == request.user.pk
    return any(row.may_decide for row in rows)


def create_posted_memory(request: HttpRequest) -> HttpResponse:
    fields = {name: request.POST.get(name, "") for name in ("text", "kind", "subject")}
    if fields["kind"] not in Memory.Kind.values:
        fields["kind"] = Memory.Kind.FACT
    place = review.get_writable_place(request.user, Memory.Scope.PERSON)
    try:
        _row, is_new = review.create_person_memory(request.user, place, fields, source=find_source(request))
    except MusterError as error:
        add_refusal_message(request, error)
    else:
        messages.success(request, _("Remembered.") if is_new else _("This was remembered already."))
    return redirect("page:memories")


@require_login
def memory_page(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One memory with its history. POST saves its text."""
    row = load_shown_memory(request, pk)
    if request.method != "POST":
        return render_memory(request, row)
    content = {name: request.POST.get(name, "") for name in ("text", "subject")}
    if request.POST.get("kind") in Memory.Kind.values:
        content["kind"] = request.POST["kind"]
    try:
        row = review.edit_memory(row, content, **audit_source(request, request.POST.get("version", "")))
        if request.POST.get("then") == "approve":
            row = review.approve_memory(row, **audit_source(request, str(row.version)))
    except MusterError as error:
        add_refusal_message(request, error)
        answer = render_memory(request, load_shown_memory(request, pk), content)
        answer.status_code = error.status
        return answer
    messages.success(request, _("Saved."))
    return redirect("page:memory", pk=row.pk)


def render_memory(request: HttpRequest, row: Memory, fields: dict[str, str] | None = None) -> HttpResponse:
    """The page of a memory; `fields` are what the person typed, when it was refused."""
    versions = list(row.versions.all()[:VERSIONS])
    mark_runs(request, versions)
    # The newest first, each with what it changed.
    for newer, older in pairwise(versions):
        newer.lines = [line for line in side_by_side(older.text, newer.text) if line.kind != "same"]
    is_owner = row.owner_id == request.user.pk
    return render_shell_page(
        request,
        "memory.html",
        _("Memory"),
        memory=row,
        versions=versions,
        given=fields or row.content(),
        may_edit=row.may_edit(request.user),
        kinds=Memory.Kind.choices,
        suggestions=row.suggestions.all()[:VERSIONS] if is_owner else (),
    )


def describe_run_memory(request: HttpRequest, run: Run) -> dict[str, Any] | None:
    """What the run's prompt contained of the memory, and why; texts only as far as this person may still see them."""
    if CHOSEN not in run.policy:
        return None
    event = run.events.filter(type="memory.recalled").first()
    if event is None:
        return {"memories": [], "left_out": 0}
    recalled = event.data["memories"]
    visible_rows = Memory.objects.visible_to(request.user).filter(pk__in=[memory["id"] for memory in recalled])
    versions = MemoryVersion.objects.filter(memory__in=visible_rows)
    texts = {}
    for id, number, text in versions.values_list("memory_id", "number", "text"):
        texts[str(id), number] = text
    memories = []
    for memory in recalled:
        text = texts.get((memory["id"], memory["version"]), "")
        memories.append({**memory, "text": text})
    return {"memories": memories, "left_out": event.data["left_out"]}


@require_POST
@require_login
def decide_shown_memory(request: HttpRequest, pk: UUID) -> HttpResponse:
    row = load_shown_memory(request, pk)
    try:
        approved = decide_one(request, row, request.POST.get("version", ""))
    except MusterError as error:
        add_refusal_message(request, error)
        return redirect("page:memory", pk=pk)
    if approved is None:
        messages.success(request, _("Rejected."))
        return redirect("page:memories")
    messages.success(request, _("Approved."))
    return redirect("page:memory", pk=approved.pk)


def decide_one(request: HttpRequest, row: Memory, version: str) -> Memory | None:
    """Approve or reject exactly the version that the person has seen; the approved row, None if rejected."""
    source = audit_source(request, version)
    if request.POST.get("decision") == "approve":
        return review.approve_memory(row, **source)
    review.reject_memory(row, **source)
    return None


@require_POST
@require_login
def roll_back_shown_memory(request: HttpRequest, pk: UUID) -> HttpResponse:
    number = parse_small_number(request.POST.get("to", ""))
    try:
        review.roll_back_memory(
            load_shown_memory(request, pk), number, **audit_source(request, request.POST.get("version", ""))
        )
    except MusterError as error:
        add_refusal_message(request, error)
    else:
        messages.success(request, _("Version %(number)s is back.") % {"number": number})
    return redirect("page:memory", pk=pk)


@require_POST
@require_login
def delete_shown_memory(request: HttpRequest, pk: UUID) -> HttpResponse:
    review.remove_memory(load_shown_memory(request, pk), user=request.user, source=find_source(request))
    messages.success(request, _("The memory and its versions are deleted."))
    return redirect("page:memories")


def load_shown_memory(request: HttpRequest, pk: Any) -> Memory:
    rows: QuerySet = Memory.objects.visible_to(request.user).select_related("agent", "team", "owner", "replaces")
    try:
        return rows.get(pk=UUID(str(pk)))
    except (Memory.DoesNotExist, ValueError):
        raise Http404("You have no such memory.")


def audit_source(request: HttpRequest, version: str) -> dict[str, Any]:
    return {"user": request.user, "expected": parse_small_number(version), "source": find_source(request)}


def find_source(request: HttpRequest) -> str:
    return request.META.get(SOURCE, "")
