"""Items of earlier responses, by their ids: the AI SDK sends `item_reference` in place of what the server knows."""

from typing import Any

from gateway import turns
from gateway.parts import refuse_content_part
from gateway.reading import bare, render_result_value
from gateway.turns import parse_hex_uuid
from runs.calls.call_records import finished_data
from runs.models import Approval, Message, ToolCallRecord

from .items import Items, approval_item, call_item, mcp_item

JSON = Any
# Digits at the end of the id of a message that a model wrote.
TURN_DIGITS = 4


def find_item(user: Any, id: str, param: str) -> dict[str, JSON]:
    """The item as it stood in its response. Raises Invalid for one that is not this person's."""
    prefix, _, rest = id.partition("_")
    item = None
    if user is not None and prefix in ("fc", "mcp"):
        item = find_call(user, rest)
    elif user is not None and prefix == "mcpr":
        item = find_approval_request(user, rest)
    elif user is not None and prefix == "msg":
        item = find_message(user, rest) or find_reply(user, id, rest)
    elif prefix == "rs":
        item = {"type": "reasoning"}
    if item is None:
        raise refuse_content_part(param, f"Item with id “{id[:80]}” not found.", "item_not_found")
    return item


def find_call(user: Any, hex: str) -> dict[str, JSON] | None:
    """A call that an agent made in a run of this person, if it is answered or the caller's."""
    pk = parse_hex_uuid(hex)
    if pk is None:
        return None
    record = ToolCallRecord.objects.filter(run__principal_id=user.pk, pk=pk, parent_call=None).first()
    if record is None:
        return None
    arguments = render_result_value(record.arguments)
    data = {"id": bare(str(record.pk)), "name": record.name, "arguments": arguments}
    if record.kind == "caller":
        return call_item(data)
    if not record.outcome:
        return None
    return mcp_item(data, finished_data(record))


def find_approval_request(user: Any, hex: str) -> dict[str, JSON] | None:
    """A request for approval in a run of this person, decided or not."""
    pk = parse_hex_uuid(hex)
    if pk is None:
        return None
    row = Approval.objects.filter(run__principal_id=user.pk, pk=pk).first()
    if row is None:
        return None
    return approval_item({"id": str(row.pk), "tool": row.tool, "arguments": row.arguments})


def find_message(user: Any, hex: str) -> dict[str, JSON] | None:
    """A message of the person, as /input_items shows it."""
    # Other spellings of a UUID were never answered as the id of an item.
    pk = parse_hex_uuid(hex) if len(hex) == 32 else None
    if pk is None:
        return None
    row = Message.objects.filter(pk=pk, session__owner_id=user.pk).first()
    if row is None:
        return None
    return {"type": "message", "role": row.role, "content": row.words}


def find_reply(user: Any, id: str, rest: str) -> dict[str, JSON] | None:
    """A message that the model wrote: the rows of its turn are read again, which makes the same items."""
    turn = turns.find_turn(user, rest[:-TURN_DIGITS])
    if turn is None:
        return None
    items = Items(turn.id)
    items.take_stored(turn)
    for item in items.output:
        if item["id"] == id:
            return item
    return None
