"""The rows of one person as the storage of the client's tools, for an agent's call or for the person.

Every write is one entry in the record's history. What an agent creates is a suggestion. After the
run read untrusted text, a change that it makes to an approved record waits for the owner.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents.exceptions import PreconditionFailed
from devices.client.records import CHANGE, build_untrusted_mark, refuse_missing, refuse_rejected
from devices.client.records import Record as RecordDict
from devices.models import Record, RecordChange

from .shapes import COMMENT

JSON = Any
Action = RecordChange.Action
# Characters of a text in the history.
KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes: a person, or an agent in a tool call. `is_untrusted`: it wrote what strangers may
    have said.
    """

    name: str
    run_id: str | None = None
    call_id: str | None = None
    is_untrusted: bool = False

    @property
    def is_agent(self) -> bool:
        return self.call_id is not None


class PersonsRecords:
    """One user's records, as devices.client.records.Records. A repeated call finds what it wrote
    the first time.

    `expected` is the version that the person has seen, `action` what the history calls a change,
    and `written` the row of the last write.
    """

    def __init__(self, owner_id: int, by: Author, *, expected: int | None = None) -> None:
        self.owner_id = owner_id
        self.by = by
        self.author = by.name
        self.mark = build_untrusted_mark(by.is_untrusted)
        self.expected = expected
        self.action: str = Action.CHANGED
        self.written: Record | None = None

    def add(self, kind: str, values: dict[str, JSON]) -> RecordDict:
        row = self.written_before()
        if row is None:
            row = self.create(kind, {**values, **self.mark})
        self.written = row
        return serialize_record(row)

    def change(self, kind: str, id: str, values: dict[str, JSON]) -> RecordDict:
        """Raises PreconditionFailed if the person has seen an older version."""
        row = self.find(kind, id, for_change=True)
        if not self.written_before():
            self.write(row, {**values, **self.mark})
        self.written = row
        return serialize_record(row)

    def get(self, kind: str, id: str) -> RecordDict:
        return serialize_record(self.find(kind, id))

    def all(
        self, kind: str, *, limit: int, search: str | None = None, assignee: str | None = None, **equal: JSON
    ) -> list[RecordDict]:
        fields = {f"data__{name}": value for name, value in equal.items()}
        rows = Record.objects.filter(owner_id=self.owner_id, kind=kind, **fields)
        rows = rows.exclude(review=Record.Review.REJECTED)
        if search:
            rows = rows.containing(search)
        if assignee:
            rows = rows.assigned_to(assignee)
        return [serialize_record(row) for row in rows[:limit]]

    def find(self, kind: str, id: str, *, for_change: bool = False) -> Record:
        rows = Record.objects.filter(owner_id=self.owner_id, kind=kind)
        try:
            row = (rows.select_for_update() if for_change else rows).get(pk=UUID(id))
        except (Record.DoesNotExist, ValueError):
            raise refuse_missing(kind, id)
        if for_change:
            check_version(row, self.expected)
        return row

    # -- writing -----------------------------------------------------------------------------------------------------

    def written_before(self) -> Record | None:
        """The record of an earlier attempt of this call."""
        if self.by.call_id is None:
            return None
        done = RecordChange.objects.filter(call_id=self.by.call_id).select_related("record").first()
        return done.record if done else None

    def create(self, kind: str, values: dict[str, JSON]) -> Record:
        row = Record(owner_id=self.owner_id, kind=kind, data=values, is_ai_suggested=self.by.is_agent)
        row.review = Record.Review.APPROVED
        if self.by.is_agent:
            row.review = Record.Review.SUGGESTED
        if kind == COMMENT:
            row.about_id = UUID(values.get("task_id") or values["record_id"])
        row.index()
        row.save()
        fields = {name: [None, value] for name, value in values.items() if value}
        store_record_change(row, Action.CREATED, self.by, fields)
        return row

    def write(self, row: Record, values: dict[str, JSON]) -> None:
        if self.by.is_agent and row.review == Record.Review.REJECTED:
            raise refuse_rejected(serialize_record(row))
        if self.by.is_agent and self.by.is_untrusted and row.review == Record.Review.APPROVED:
            # What the person approved stays as it is until the person approves the change.
            earlier = row.suggested or {}
            fields = differences({**row.data, **earlier}, values)
            row.suggested = {**earlier, **values}
            save_record(row, Action.SUGGESTED, self.by, fields)
            return
        fields = differences(row.data, values)
        row.data = {**row.data, **values}
        save_record(row, self.action, self.by, fields)


def check_version(row: Record, expected: int | None) -> None:
    if expected is not None and row.version != expected:
        raise PreconditionFailed(
            f"This record was changed in the meantime: you have seen version {expected}, and it is version "
            f"{row.version} now.",
            hint="Read it again, and repeat your change if it still applies.",
        )


def differences(old: dict[str, JSON], new: dict[str, JSON]) -> dict[str, list[JSON]]:
    """{name: [before, after]} of the values that differ."""
    changed = {}
    for name, after in new.items():
        before = old.get(name)
        if before != after:
            changed[name] = [before, after]
    return changed


def save_record(row: Record, action: str, by: Author, fields: dict[str, list[JSON]], *, note_text: str = "") -> None:
    """Store a changed row as its next version, with the entry in its history."""
    row.version += 1
    row.index()
    row.save()
    store_record_change(row, action, by, fields, note_text)


def store_record_change(row: Record, action: str, by: Author, fields: dict[str, list[JSON]], text: str = "") -> None:
    short_fields = {}
    for name, (before, after) in fields.items():
        short_fields[name] = [shorten_value(before), shorten_value(after)]
    RecordChange.objects.create(
        record=row,
        action=action,
        version=row.version,
        author=by.name[:150],
        is_agent=by.is_agent,
        run_id=by.run_id,
        call_id=by.call_id,
        note=text,
        fields=short_fields,
    )


def shorten_value(value: JSON) -> JSON:
    """What the history keeps of a value: an agent that rewrites a long note must not fill the disk."""
    if not isinstance(value, str) or len(value) <= KEPT:
        return value
    left_out = len(value) - KEPT
    return f"{value[:KEPT]}\n[cut: {left_out} more characters]"


def serialize_record(row: Record) -> RecordDict:
    """A record as the tools show it."""
    record: RecordDict = {"id": str(row.pk), "kind": row.kind, **row.data}
    if row.suggested is not None:
        record[CHANGE] = row.suggested
    if row.review == Record.Review.REJECTED:
        record["isRejected"] = 1
        record["reason"] = row.reason
    record["isAiSuggested"] = int(row.is_ai_suggested)
    record["isApproved"] = int(row.review == Record.Review.APPROVED)
    record["created_at"] = row.created_at.isoformat().replace("+00:00", "Z")
    record["updated_at"] = row.updated_at.isoformat().replace("+00:00", "Z")
    return record
