"""The pages of records: search, read, edit, comment, approve, reject. Only the owner sees them."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.exceptions import MusterError
from devices.models import Device, Record
from devices.records import review
from devices.records.filters import RecordFilter
from devices.records.shapes import COMMENT, SHAPES, Shape
from runs.models import Run

from ..base import add_refusal_message, keyset, parse_small_number, render_shell_page, require_login
from ..bulk_decisions import decide_several
from ..labels import render_label
from .record_fields import as_shown, label, make_fields, read_typed

REVIEWS = {"waiting": "To decide", **{value: value.capitalize() for value in Record.Review.values}}
TEXTS = ("search", "kind", "assignee", "review")
COMMENTS, CHANGES = 200, 100
SOURCE = "REMOTE_ADDR"


@require_login
def record_list(request: HttpRequest) -> HttpResponse:
    """Newest first; searched by words, filtered by kind, decision and assignee. POST decides about several."""
    if request.method == "POST":
        return decide_several(request, lambda id, version: decide_one(request, load_shown_record(request, id), version))
    chosen = {name: request.GET.get(name, "")[:200].replace("\0", "") for name in TEXTS}
    rows = narrow_rows(Record.objects.visible_to(request.user), chosen)
    records, older = keyset(request, rows)
    for record in records:
        record.stage = record.data.get("state") or record.data.get("status") or "–"
        record.who = ", ".join(record.data.get("assignees") or []) or "–"
    has_waiting = any(record.is_waiting for record in records)
    return render_shell_page(
        request,
        "records.html",
        _("Records"),
        records=records,
        older=older,
        chosen=chosen,
        kinds=[*SHAPES, COMMENT],
        reviews=REVIEWS.items(),
        is_filtered=any(chosen.values()),
        has_waiting=has_waiting,
        keeps_on_device=keeps_on_device(request.user),
    )


def narrow_rows(rows: Any, chosen: dict[str, str]) -> Any:
    filters = {name: value for name, value in chosen.items() if value}
    if filters.get("review") == "waiting":
        filters["review"] = ""
        filters["waiting"] = "true"
    elif not filters.get("kind") and not filters.get("search"):
        # They stand on the page of their record.
        rows = rows.exclude(kind=COMMENT)
    filtered = RecordFilter(filters, rows)
    return filtered.qs if filtered.form.is_valid() else rows.none()


def keeps_on_device(user: Any) -> Device | None:
    """A device of this person where new records are kept."""
    devices = Device.objects.visible_to(user).live()
    return next((device for device in devices if "create_task" in device.tools), None)


@require_login
def new_record(request: HttpRequest, kind: str) -> HttpResponse:
    """The form of a new record of this kind. POST creates it."""
    shape = SHAPES.get(kind)
    if shape is None:
        raise Http404("There is no such kind of record.")
    fields = make_fields(shape, {}, request.user)
    if request.method != "POST":
        return new_record_form(request, kind, fields)
    values = read_typed(request.POST, fields)
    try:
        record = review.create_own_record(request.user, kind, values, source=request.META.get(SOURCE, ""))
    except MusterError as error:
        add_refusal_message(request, error)
        filled_fields = make_fields(shape, values, request.user)
        form = new_record_form(request, kind, filled_fields)
        form.status_code = error.status
        return form
    return redirect("page:record", pk=record.pk)


def new_record_form(request: HttpRequest, kind: str, fields: list[Any]) -> HttpResponse:
    title = _("New: %(kind)s") % {"kind": render_label(kind)}
    return render_shell_page(request, "record_new.html", title, fields=fields, kinds=list(SHAPES), kind=kind)


@require_login
def record_page(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Everything about one record. POST saves its fields."""
    record = load_shown_record(request, pk)
    if record.about_id:
        return redirect(f"{reverse('page:record', args=[record.about_id])}#comment-{record.pk}")
    shape = SHAPES[record.kind]
    if request.method != "POST":
        return render_record(request, record, shape, record.data)
    values = read_typed(request.POST, make_fields(shape, {}, request.user))
    changed = {name: value for name, value in values.items() if value != record.data.get(name)}
    try:
        save_record(request, record, changed)
    except MusterError as error:
        add_refusal_message(request, error)
        answer = render_record(request, load_shown_record(request, pk), shape, values)
        answer.status_code = error.status
        return answer
    return redirect("page:record", pk=pk)


def save_record(request: HttpRequest, record: Record, changed: dict[str, Any]) -> None:
    expected = parse_small_number(request.POST.get("version", ""))
    source = request.META.get(SOURCE, "")
    if changed:
        record = review.edit_record(record, changed, by=request.user, expected=expected, source=source)
        # One's own change is no reason to refuse the approval that follows.
        expected = record.version
    if request.POST.get("then") == "approve":
        review.approve_record(record, by=request.user, expected=expected, source=source)
        messages.success(request, _("Saved and approved.") if changed else _("Approved."))
    else:
        messages.success(request, _("Saved.") if changed else _("Nothing was changed."))


def render_record(request: HttpRequest, record: Record, shape: Shape, values: dict[str, Any]) -> HttpResponse:
    changes = list(record.changes.all()[:CHANGES])
    run_ids = {change.run_id for change in changes if change.run_id}
    visible_runs = Run.objects.visible_to(request.user).filter(pk__in=run_ids)
    visible_ids = set(visible_runs.values_list("pk", flat=True))
    for change in changes:
        change.has_run = change.run_id in visible_ids
        change.lines = list_changed_fields(change.fields)
    # {name: [as it is, as it is suggested]}, the shape of a change.
    suggested = {name: [record.data.get(name), value] for name, value in (record.suggested or {}).items()}
    return render_shell_page(
        request,
        "record.html",
        str(record),
        record=record,
        fields=make_fields(shape, values, request.user),
        changes=changes,
        created=changes[-1] if changes else None,
        suggested=list_changed_fields(suggested),
        comments=record.comments.order_by("id")[:COMMENTS],
        source=record.data.get("source", ""),
    )


def list_changed_fields(fields: dict[str, Any]) -> list[dict[str, str]]:
    """Changed fields as they are shown; the mark has a note of its own."""
    shown_lines = []
    for name, (before, after) in fields.items():
        if name != "untrusted":
            line = {"name": label(name), "before": as_shown(name, before), "after": as_shown(name, after)}
            shown_lines.append(line)
    return shown_lines


@require_POST
@require_login
def decide_shown_record(request: HttpRequest, pk: UUID) -> HttpResponse:
    record = load_shown_record(request, pk)
    try:
        record = decide_one(request, record, request.POST.get("version", ""))
    except MusterError as error:
        add_refusal_message(request, error)
    else:
        messages.success(request, _("Approved.") if request.POST.get("decision") == "approve" else _("Rejected."))
    return redirect("page:record", pk=record.about_id or record.pk)


def decide_one(request: HttpRequest, record: Record, version: str) -> Record:
    """Approve or reject exactly the version that the person has seen."""
    expected = parse_small_number(version)
    source = request.META.get(SOURCE, "")
    if request.POST.get("decision") == "approve":
        return review.approve_record(record, by=request.user, expected=expected, source=source)
    reason = request.POST.get("reason", "").strip()
    return review.reject_record(record, reason, by=request.user, expected=expected, source=source)


@require_POST
@require_login
def comment(request: HttpRequest, pk: UUID) -> HttpResponse:
    try:
        text = request.POST.get("text", "").replace("\r\n", "\n")
        review.comment(load_shown_record(request, pk), text, by=request.user, source=request.META.get(SOURCE, ""))
    except MusterError as error:
        add_refusal_message(request, error)
    return redirect("page:record", pk=pk)


@require_POST
@require_login
def delete_shown_record(request: HttpRequest, pk: UUID) -> HttpResponse:
    record = load_shown_record(request, pk)
    try:
        review.remove_record(record, by=request.user, source=request.META.get(SOURCE, ""))
    except MusterError as error:
        add_refusal_message(request, error)
        return redirect("page:record", pk=pk)
    messages.success(request, _("“%(record)s” is deleted.") % {"record": record})
    # A comment stood on the page of its record.
    if record.about_id:
        return redirect("page:record", pk=record.about_id)
    return redirect("page:records")


def load_shown_record(request: HttpRequest, pk: Any) -> Record:
    try:
        return Record.objects.visible_to(request.user).get(pk=UUID(str(pk)))
    except (Record.DoesNotExist, ValueError):
        raise Http404("You have no such record.")
