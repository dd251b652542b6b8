"""What the owner does with a record: create, edit, comment, approve, reject, delete.

The fields follow the rules of the client's tools, because the same functions write them.
"""

from typing import Any

from django.db import transaction

from agents.exceptions import Conflict, Invalid, NotFound
from agents.models import AuditEvent
from agents.unknown import extra, refuse_unknown_fields
from devices.client import schema
from devices.client.exceptions import ToolRefused
from devices.client.records import check_text
from devices.client.tools import Tool
from devices.models import Record, RecordChange

from .shapes import COMMENT, SHAPES
from .storage import Author, PersonsRecords, check_version, differences, save_record

JSON = Any
Action, Review = RecordChange.Action, Record.Review
MAX_REASON = 500


@transaction.atomic
def create_own_record(user: Any, kind: str, values: dict[str, JSON], *, source: str = "") -> Record:
    """A record of the person's own, approved at once. Raises Invalid."""
    records = PersonsRecords(user.pk, Author(user.get_username()))
    row = call_record_tool(SHAPES[kind].create, records, values)
    AuditEvent.record("record.created", row, actor=user, source=source)
    return row


@transaction.atomic
def edit_record(
    row: Record, values: dict[str, JSON], *, by: Any, expected: int | None = None, source: str = ""
) -> Record:
    """Change fields of a record or of a suggestion. Raises Invalid, PreconditionFailed.

    An edit of a suggestion does not approve it.
    """
    records = PersonsRecords(row.owner_id, Author(by.get_username()), expected=expected)
    row = update(row, values, records)
    AuditEvent.record("record.changed", row, actor=by, source=source, fields=sorted(values))
    return row


@transaction.atomic
def comment(row: Record, text: str, *, by: Any, source: str = "") -> Record:
    text = text.strip()
    if not text:
        raise Invalid("A comment must not be empty.", code="invalid")
    # The tool for agents comments on tasks alone, and calls the field so.
    about = "record_id"
    if row.kind == "task":
        about = "task_id"
    name = by.get_username()
    records = PersonsRecords(row.owner_id, Author(name))
    try:
        records.add(COMMENT, {about: str(row.pk), "text": check_text(text), "author": name})
    except ToolRefused as refusal:
        raise Invalid(str(refusal), code=refusal.code)
    AuditEvent.record("record.commented", row, actor=by, source=source)
    return records.written


@transaction.atomic
def approve_record(row: Record, *, by: Any, expected: int | None = None, source: str = "") -> Record:
    """Approve a suggestion, or carry out a suggested change: once. A rejected suggestion can be
    approved later.

    Raises Conflict if there is nothing to decide, and PreconditionFailed if the person has seen an
    older version.
    """
    row = lock_record(row, expected)
    if row.suggested is not None:
        row = carry_out(row, by)
    elif row.review != Review.APPROVED:
        row.review, row.reason = Review.APPROVED, ""
        save_record(row, Action.APPROVED, Author(by.get_username()), {})
        approve_comments(row, by)
    else:
        raise Conflict(
            f"This {row.kind} has already been approved.", code="nothing_to_decide", hint="GET it to see its state."
        )
    AuditEvent.record("record.approved", row, actor=by, source=source, version=row.version)
    return row


def carry_out(row: Record, by: Any) -> Record:
    """The suggested change by the same rules as any other; it keeps its mark."""
    values = dict(row.suggested)
    is_untrusted = bool(values.pop("untrusted", False))
    author = Author(by.get_username(), is_untrusted=is_untrusted)
    row.suggested = None
    row.save(update_fields=["suggested"])
    records = PersonsRecords(row.owner_id, author)
    return update(row, values, records, action=Action.APPROVED)


def approve_comments(row: Record, by: Any) -> None:
    """Comments stand on the page of their record: they have been seen with it."""
    author = Author(by.get_username())
    for comment in row.comments.filter(review=Review.SUGGESTED):
        comment.review = Review.APPROVED
        save_record(comment, Action.APPROVED, author, {})


@transaction.atomic
def reject_record(row: Record, reason: str = "", *, by: Any, expected: int | None = None, source: str = "") -> Record:
    """Keep a suggestion as rejected, or refuse a suggested change: the record stays as it is.

    Raises Conflict, PreconditionFailed.
    """
    if len(reason) > MAX_REASON:
        raise Invalid(f"A reason can have at most {MAX_REASON} characters.", code="too_long")
    row = lock_record(row, expected)
    fields: dict[str, list[JSON]] = {}
    if row.suggested is not None:
        fields = differences(row.data, row.suggested)
        row.suggested = None
    elif row.review == Review.SUGGESTED:
        row.review, row.reason = Review.REJECTED, reason
    else:
        hint = "Delete it if you do not want it." if row.review == Review.APPROVED else "GET it to see why."
        raise Conflict(f"This {row.kind} has already been {row.review}.", code="nothing_to_decide", hint=hint)
    save_record(row, Action.REJECTED, Author(by.get_username()), fields, note_text=reason)
    AuditEvent.record("record.rejected", row, actor=by, source=source, version=row.version)
    return row


@transaction.atomic
def remove_record(row: Record, *, by: Any, expected: int | None = None, source: str = "") -> None:
    """Delete a record with its comments and its history. Raises Conflict for a project in use."""
    row = lock_record(row, expected)
    if row.kind == "project":
        used = Record.objects.filter(owner_id=row.owner_id, data__project_id=str(row.pk)).count()
        if used:
            raise Conflict(
                f"Records belong to this project: {used}.",
                code="in_use",
                hint="Move or delete them first, or set the project's status to archived.",
            )
    AuditEvent.record("record.deleted", row, actor=by, source=source)
    row.delete()


# -- how a row is written ----------------------------------------------------------------------------------------------


def update(row: Record, values: dict[str, JSON], records: PersonsRecords, action: str = Action.CHANGED) -> Record:
    shape = SHAPES.get(row.kind)
    if shape is None:
        raise Invalid("A comment cannot be changed.", code="not_editable", hint="Delete it and write another.")
    records.action = action
    return call_record_tool(shape.update, records, values, **{shape.id_argument: str(row.pk)})


def call_record_tool(tool: Tool, records: PersonsRecords, values: dict[str, JSON], **ids: str) -> Record:
    """Run a writing tool with the person's own values. Raises Invalid, one detail for each problem."""
    fields = tool.input_schema["properties"].keys() - ids.keys()
    refuse_unknown_fields(extra(values, fields), "The record has a field that does not exist.")
    faults = schema.faults(tool.input_schema, {**values, **ids})
    if faults:
        details = [{"field": name, "code": "invalid", "message": message} for name, message in faults]
        raise Invalid("The values are not valid.", hint="See details.", details=details)
    try:
        tool.function(records, **values, **ids)
    except ToolRefused as refusal:
        code = refusal.code
        # A word for models; here the values are the person's.
        if code == "invalid_arguments":
            code = "invalid"
        raise Invalid(str(refusal), code=code)
    return records.written


def lock_record(row: Record, expected: int | None) -> Record:
    current = Record.objects.select_for_update().filter(pk=row.pk).first()
    if current is None:
        raise NotFound("This record was deleted in the meantime.")
    check_version(current, expected)
    return current
