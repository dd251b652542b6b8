"""The one normaliser: a conversation as the strictest server accepts it. Plain Python.

Each request passes it, so that whatever a model, a client or a failed run left in a conversation is sent in a form
that no server refuses; the rows keep what was really said. Afterwards:

- one system message, which comes first; then the person's; the last is the person's or a result
- the person and the model take turns, and no message is empty
- each call has an id that no other call has, a name that servers accept, and its result right behind it
- what a server demands back (`kept`) goes to the model that sent it, and to no other
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

JSON = Any
Message = dict[str, JSON]
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
# Control tokens of a chat template, and what follows them.
MARKER = re.compile(r"<\|.*?\|>.*", re.DOTALL)
NO_RESULT = '{"error": {"code": "no_result", "message": "this call has no result"}}'
LEFT_OUT = "(The beginning of the conversation is left out.)"
GO_ON = "Go on."
EMPTY = "(empty)"
BRIDGE = "I have the results."
# Mistral accepts only ids of nine letters and digits.
ID_LENGTH = 9
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def normalise(
    messages: Sequence[Message],
    *,
    account: str = "",
    bridges: bool = False,
    has_short_ids: bool = False,
    has_system: bool = True,
) -> list[Message]:
    """`account`: whose `kept` fields are sent. `bridges`: between results and the person's next message stands one of
    the model, as the templates of some models demand. `has_short_ids`: no id of the model is sent as it is.
    `has_system`: False for models that know no instructions; the person's first message then begins with them.
    """
    system, others = split_system(messages)
    if not has_system:
        instructions = [{"role": "user", "content": message["content"]} for message in system]
        others = instructions + others
        system = []
    closed = close_calls(others, account, has_short_ids=has_short_ids)
    turns = take_turns(closed, bridges=bridges)
    return [*system, *turns]


def split_system(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """All instructions as one message, and the rest."""
    texts = []
    others = []
    for message in messages:
        if message["role"] != "system":
            others.append(message)
            continue
        text = render_content_text(message.get("content"))
        if text.strip():
            texts.append(text)
    system = []
    if texts:
        system.append({"role": "system", "content": "\n\n".join(texts)})
    return system, others


def close_calls(messages: list[Message], account: str, *, has_short_ids: bool) -> list[Message]:
    """Each call with one result, which follows at once, under an id of its own."""
    closed: list[Message] = []
    used: set[str] = set()
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        if message["role"] == "tool":
            # Its call is not here.
            text = f"Result of {message.get('name') or 'a tool'}: {message_text(message)}"
            closed.append({"role": "user", "content": text})
            continue
        if message["role"] != "assistant" or not message.get("tool_calls"):
            closed.append(without_kept(message, account))
            continue
        results: list[Message] = []
        between: list[Message] = []
        while place < len(messages) and messages[place]["role"] != "assistant":
            (results if messages[place]["role"] == "tool" else between).append(messages[place])
            place += 1
        closed += pair_calls_and_results(message, results, used, account, has_short_ids=has_short_ids)
        closed += between
    return closed


def pair_calls_and_results(
    message: Message, results: list[Message], used: set[str], account: str, *, has_short_ids: bool
) -> list[Message]:
    """The message with its calls, and a result for each of them."""
    is_own = not (message.get("is_earlier") or has_short_ids)
    call_fields = fields_of_calls(message.get("kept"), account, len(message["tool_calls"]))
    calls: list[Message] = []
    closed: list[Message] = []
    waiting = list(results)
    for call, fields in zip(message["tool_calls"], call_fields, strict=True):
        # An id that was too long for its row; its server knows the call by nothing else.
        id = None if has_short_ids else fields.get("id")
        if not id:
            id = unique_id(str(call["id"]), used, is_own=is_own)
        used.add(id)
        name = valid_name(str(call["name"]))
        kept = fields.get("fields") or {}
        calls.append({"id": id, "name": name, "arguments": call["arguments"], "fields": kept})
        text = NO_RESULT
        result = take_result(waiting, call["id"])
        if result:
            text = message_text(result) or EMPTY
        closed.append({"role": "tool", "tool_call_id": id, "name": name, "content": text})
    spoken = {**without_kept(message, account), "tool_calls": calls}
    return [spoken, *closed]


def take_result(waiting: list[Message], id: JSON) -> Message | None:
    for place, message in enumerate(waiting):
        if message.get("tool_call_id") == id:
            return waiting.pop(place)
    return None


def without_kept(message: Message, account: str) -> Message:
    """The message with the fields that this model demands back, as `fields`."""
    if message["role"] != "assistant":
        return message
    fields = None
    kept = message.get("kept") or {}
    if kept.get("by") == account:
        fields = kept.get("fields")
    content = message.get("content") or ""
    plain = {"role": "assistant", "content": content, "fields": fields or {}}
    if message.get("tool_calls"):
        plain["tool_calls"] = message["tool_calls"]
    return plain


def fields_of_calls(kept: Message | None, account: str, number: int) -> list[Message]:
    """For each call, what its server sent along: `fields`, and the `id` if it is too long for a row."""
    nothing: list[Message] = [{}] * number
    if not kept or kept.get("by") != account:
        return nothing
    calls = kept.get("calls")
    if not isinstance(calls, list) or len(calls) != number:
        return nothing
    return calls


def unique_id(id: str, used: set[str], *, is_own: bool) -> str:
    """The id that the model chose, if no other call has it; else a short one. Earlier runs may have asked another
    model, whose ids this one's server refuses: those calls get short ones.
    """
    if is_own and ID.fullmatch(id) and id not in used:
        return id
    return short_id(f"{len(used)}:{id}")


def short_id(text: str) -> str:
    digest = sha256(text.encode("utf-8", "replace")).digest()
    number = int.from_bytes(digest[:8], "big")
    digits = []
    for _ in range(ID_LENGTH):
        number, digit = divmod(number, len(DIGITS))
        digits.append(DIGITS[digit])
    return "".join(digits)


def valid_name(name: str) -> str:
    """`functions.add`, `add<|channel|>json` and the like as a name that servers accept."""
    if NAME.fullmatch(name):
        return name
    name = MARKER.sub("", name).removeprefix("functions.")
    name = NOT_IN_NAMES.sub("_", name).strip("_")[:64]
    if name and not NAME.fullmatch(name):
        name = f"_{name}"[:64]
    return name or "unknown_tool"


def take_turns(messages: list[Message], *, bridges: bool) -> list[Message]:
    turns: list[Message] = []
    for message in messages:
        if message["role"] == "assistant" and is_silent(message):
            continue
        if message["role"] == "user" and is_blank(message.get("content")):
            message = {"role": "user", "content": EMPTY}
        last = turns[-1] if turns else None
        if last is None and message["role"] == "assistant":
            turns.append({"role": "user", "content": LEFT_OUT})
        elif last is not None and may_join(last, message):
            turns[-1] = {**last, **message, "content": join_contents(last["content"], message["content"])}
            continue
        elif bridges and last is not None and last["role"] == "tool" and message["role"] == "user":
            turns.append({"role": "assistant", "content": BRIDGE, "fields": {}})
        turns.append(message)
    if turns and turns[-1]["role"] == "assistant":
        turns.append({"role": "user", "content": GO_ON})
    return turns


def may_join(last: Message, message: Message) -> bool:
    """Two messages of the person in a row, or of the model if the first has no calls."""
    role = message["role"]
    if role == "tool" or last["role"] != role:
        return False
    return not last.get("tool_calls")


def is_silent(message: Message) -> bool:
    if message.get("tool_calls"):
        return False
    return is_blank(message.get("content"))


def is_blank(content: JSON) -> bool:
    if isinstance(content, str):
        return not content.strip()
    # An image, a file or the like says something by itself.
    return not any(part.get("type") != "text" or part.get("text", "").strip() for part in content or ())


def join_contents(first: JSON, second: JSON) -> JSON:
    if is_blank(first):
        return second
    if is_blank(second):
        return first
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*as_parts(first), *as_parts(second)]


def as_parts(content: JSON) -> list[JSON]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content)


def message_text(message: Message) -> str:
    return render_content_text(message.get("content"))


def render_content_text(content: JSON) -> str:
    """The text of a content; of what is no text, a note."""
    if isinstance(content, str):
        return content
    texts = []
    for part in content or ():
        if part.get("type") == "text":
            texts.append(part["text"])
        else:
            texts.append(describe_part(part))
    return "\n".join(texts)


def describe_part(part: dict[str, JSON]) -> str:
    """A part that a server cannot read."""
    kind = part["type"]
    about = part.get("name") or part.get("id") or ""
    note = f"[{kind} {about}]"
    # Without a name there is a space too many.
    return note.replace(" ]", "]")
