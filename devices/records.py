"""The device's task, note, project and timeline tools on the server, for users without a device.

The functions of the client run here on this database instead of the local file.
"""

from typing import Any
from uuid import UUID

from django.db import transaction

from agents.tools import ToolCall, ToolContext, ToolFailed, ToolResult
from devices.client import schema
from devices.client.exceptions import ToolRefused
from devices.client.records import Record as RecordDict
from devices.client.records import mark_of, missing
from devices.client.tools import Tool
from devices.models import Record

JSON = Any


def run_tool(tool: Tool, call: ToolCall, context: ToolContext) -> ToolResult:
    """One call of a records tool for the user of the context. Raises ToolFailed."""
    if problems := schema.problems(tool.input_schema, call.arguments):
        raise ToolFailed("; ".join(problems), code="invalid_arguments")
    try:
        with transaction.atomic():
            records = PersonsRecords(context.user_id, call.id, is_untrusted=context.is_untrusted)
            return ToolResult(ok=True, value=tool.function(records, **call.arguments))
    except ToolRefused as refusal:
        raise ToolFailed(str(refusal), code=refusal.code)


class PersonsRecords:
    """One user's records, as devices.client.records.Records. A repeated call finds what it created
    the first time.
    """

    def __init__(self, owner_id: int, call_id: str, *, is_untrusted: bool = False) -> None:
        self.owner_id = owner_id
        self.call_id = call_id
        self.mark = mark_of(is_untrusted)

    def add(self, kind: str, values: dict[str, JSON]) -> RecordDict:
        values = {**values, **self.mark}
        made = Record.objects.filter(owner_id=self.owner_id, made_by=self.call_id).first()
        return shown(
            made or Record.objects.create(owner_id=self.owner_id, kind=kind, data=values, made_by=self.call_id)
        )

    def change(self, kind: str, id: str, values: dict[str, JSON]) -> RecordDict:
        row = self.find(kind, id)
        row.data = {**row.data, **values, **self.mark}
        row.save(update_fields=["data", "updated_at"])
        return shown(row)

    def get(self, kind: str, id: str) -> RecordDict:
        return shown(self.find(kind, id))

    def all(self, kind: str, *, limit: int, **equal: JSON) -> list[RecordDict]:
        narrowed = {f"data__{name}": value for name, value in equal.items()}
        rows = Record.objects.filter(owner_id=self.owner_id, kind=kind, **narrowed)
        return [shown(row) for row in rows[:limit]]

    def find(self, kind: str, id: str) -> Record:
        try:
            return Record.objects.get(owner_id=self.owner_id, kind=kind, pk=UUID(id))
        except (Record.DoesNotExist, ValueError):
            raise missing(kind, id)


def shown(row: Record) -> RecordDict:
    return {
        "id": str(row.pk),
        "kind": row.kind,
        **row.data,
        "isAiSuggested": int(row.is_ai_suggested),
        "isApproved": int(row.is_approved),
        "created_at": row.created_at.isoformat().replace("+00:00", "Z"),
        "updated_at": row.updated_at.isoformat().replace("+00:00", "Z"),
    }
