"""The protocol between server and device, version 1. Plain Python, shared by both; documented in
docs/protocol.md.

A frame is one JSON object with a `type`, at most 1 MiB of UTF-8 text. Each type is one dataclass
below. Unknown fields are ignored, so that either side can be extended; a known field of the wrong
type raises `BadFrame`.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from typing import Any, ClassVar

from devices.wire import (
    COMPACT,
    JSON,
    MAX_DEPTH,
    MAX_FRAME_BYTES,
    BadFrame,
    anything,
    hash_wire_value,
    is_too_deep,
    optional,
    read_flag,
    read_json,
    read_list,
    read_number_field,
    read_object,
    read_text_field,
    read_text_list,
    read_whole_number,
    read_wire_error,
    refuse_lone,
    wrong,
)

VERSION = 1
MAX_BAD_FRAMES = 10
MAX_TOOLS = 500
HEARTBEAT_S = 15.0
MISSED_BEATS = 2
PATH = "/ws/devices/"

# A device sends a new nonce with each handshake. If its credential is void, the socket is closed with REFUSED, after an
# error frame of this code: its message proves that the server has read both. A proxy's 403 proves nothing. Without a
# nonce, the handshake gets HTTP 403.
NONCE = "Muster-Nonce"
REFUSED, CREDENTIAL_REFUSED = 4401, "credential_refused"

# The other close codes of the socket.
REPLACED, REVOKED, TOO_MANY_BAD_FRAMES, SILENT, TOO_LARGE = 4409, 4403, 4400, 4408, 1009

# Error codes in a tool_result that the server handles specially.
# The tool was stopped; answers a tool_cancel.
CANCELLED = "cancelled"
# The client died while it ran, and the outcome is unknown.
OUTCOME_UNKNOWN = "outcome_unknown"
# The user of the device refused it.
DENIED = "denied"
# The device stopped waiting for the tool.
DEADLINE = "deadline"

UNFINISHED_STATES = frozenset({"running", "done", "failed"})


def prove_refusal(credential: str, nonce: str) -> str:
    """What the error frame says to the device that sent this credential and this nonce."""
    statement = f"muster refuses this credential:{nonce}"
    key = credential.encode("utf-8", "replace")
    return hmac.new(key, statement.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def tool_hash(name: str, description: str, input_schema: JSON) -> str:
    """The hash that an approval is pinned to: sha256 of the canonical JSON of these three."""
    return hash_wire_value({"name": name, "description": description, "input_schema": input_schema})


@dataclass(frozen=True, slots=True)
class ToolName:
    """A catalogue tool that the device can run."""

    name: str
    hash: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool offered by the device, which its owner must approve before an agent may use it."""

    name: str
    description: str
    input_schema: dict[str, JSON]
    hash: str = ""

    def true_hash(self) -> str:
        """Computed from the definition: a hash sent by the other side is ignored."""
        return tool_hash(self.name, self.description, self.input_schema)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A call that the device knows and whose result may not have arrived."""

    id: str
    state: str


@dataclass(frozen=True, slots=True)
class DeviceHello:
    """The first frame of a device. `journal_id` names its journal: a new one means that executed
    calls were forgotten. `folders` are the names of the folders that it shares, without their paths.
    """

    type: ClassVar[str] = "device_hello"
    protocol: int
    device_id: str = ""
    name: str = ""
    client_version: str = ""
    platform: str = ""
    journal_id: str = ""
    tools: tuple[ToolName, ...] = ()
    offers: tuple[Offer, ...] = ()
    unfinished: tuple[Unfinished, ...] = ()
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolAck:
    """The device has the call in its journal and is about to execute it."""

    type: ClassVar[str] = "tool_ack"
    id: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    type: ClassVar[str] = "tool_result"
    id: str
    ok: bool
    result: JSON = None
    error: dict[str, JSON] | None = None


@dataclass(frozen=True, slots=True)
class ToolProgress:
    type: ClassVar[str] = "tool_progress"
    id: str
    message: str = ""
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class Ping:
    type: ClassVar[str] = "ping"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Start a run of an agent or chain that the device's owner may use. `request_id` is returned in
    the answer.
    """

    type: ClassVar[str] = "run_request"
    agent: str = ""
    chain: str = ""
    input: JSON = None
    agent_id: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class HelloAck:
    """Seconds between heartbeats, a new credential to replace the old one, and the results that the
    server lacks.
    """

    type: ClassVar[str] = "hello_ack"
    heartbeat_s: float
    credential: str | None = None
    resend: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Run a tool. `deadline` is RFC 3339 UTC, `timeout_s` the seconds until then (clocks differ); `attempt` above 1 is
    a resend of the same call."""

    type: ClassVar[str] = "tool_call"
    id: str
    name: str
    args: dict[str, JSON]
    run_context: dict[str, JSON] = field(default_factory=dict)
    deadline: str = ""
    timeout_s: float | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class ToolCancel:
    type: ClassVar[str] = "tool_cancel"
    id: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunComplete:
    """No more calls come for this run. `counts` holds processed, created, updated."""

    type: ClassVar[str] = "run_complete"
    run_context: dict[str, JSON]
    status: str
    counts: dict[str, int] = field(default_factory=dict)
    summary: str = ""


@dataclass(frozen=True, slots=True)
class RunAccepted:
    type: ClassVar[str] = "run_accepted"
    run: str
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Pong:
    type: ClassVar[str] = "pong"


@dataclass(frozen=True, slots=True)
class Error:
    """Something was refused; the connection stays open. `request_id` is set if it was a
    run_request.
    """

    type: ClassVar[str] = "error"
    code: str
    message: str
    request_id: str = ""


Frame = Any
FROM_DEVICE: dict[str, type] = {
    kind.type: kind for kind in (DeviceHello, ToolAck, ToolResult, ToolProgress, Ping, RunRequest)
}
FROM_SERVER: dict[str, type] = {
    kind.type: kind for kind in (HelloAck, ToolCall, ToolCancel, RunComplete, RunAccepted, Pong, Error)
}


def encode(frame: Frame) -> str:
    """One frame as text. Raises BadFrame (too_large, not_json) for what the other side would
    refuse.
    """
    kind: Any = type(frame)
    body = {"type": frame.type}
    for name, default in parts(kind):
        value = getattr(frame, name)
        if value != default or name == "attempt":
            body[name] = make_plain_json(value) if isinstance(value, tuple) else value
    if isinstance(frame, ToolResult) and frame.ok:
        # Null is a valid result.
        body["result"] = frame.result
    try:
        text = COMPACT.encode(body)
        size = len(text) if text.isascii() else len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise BadFrame("not_json", f"the frame is not JSON: {error}")
    if is_too_deep(body, text):
        raise BadFrame("not_json", f"the frame is nested deeper than {MAX_DEPTH} levels")
    refuse_lone(body, text)
    if size > MAX_FRAME_BYTES:
        raise BadFrame("too_large", f"the frame has {size} bytes; at most {MAX_FRAME_BYTES} are allowed")
    return text


@lru_cache
def parts(kind: Any) -> tuple[tuple[str, Any], ...]:
    """(name, default) of each field of a frame."""
    return tuple((part.name, part.default) for part in fields(kind))


def make_plain_json(value: Any) -> JSON:
    if isinstance(value, tuple):
        return [make_plain_json(item) for item in value]
    if not isinstance(value, ToolName | Offer | Unfinished):
        return value
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def parse_frame(text: str | bytes | None, kinds: Mapping[str, Any]) -> Frame:
    """The frame in a text; `kinds` is FROM_DEVICE or FROM_SERVER. Raises BadFrame."""
    body = read_json(text)
    name_of_kind = body.get("type")
    kind = None
    if isinstance(name_of_kind, str):
        kind = kinds.get(name_of_kind)
    if kind is None:
        raise BadFrame("unknown_type", f"there is no frame type {str(name_of_kind)[:40]!r} in this direction")
    values = {}
    for name, check, is_needed, may_be_null in readers(kind):
        value = body.get(name, MISSING)
        if value is not MISSING and (value is not None or may_be_null):
            values[name] = check(value, name)
        elif is_needed:
            raise BadFrame("invalid_frame", f"{kind.type} lacks “{name}”")
    frame = kind(**values)
    if isinstance(frame, ToolResult) and not frame.ok and frame.error is None:
        raise BadFrame("invalid_frame", "tool_result with ok false lacks “error”")
    return frame


@lru_cache
def readers(kind: Any) -> tuple[tuple[str, Any, bool, bool], ...]:
    """(name, check, whether it must be there, whether null is looked at) of each field of a frame."""
    checks = []
    for part in fields(kind):
        has_no_default = part.default is MISSING
        is_needed = has_no_default and part.default_factory is MISSING
        checks.append((part.name, CHECKS[part.type], is_needed, has_no_default))
    return tuple(checks)


# -- lists of a hello, and which check reads which kind of field -------------------------------------------------------


def parse_tool_names(value: JSON, name: str) -> tuple[ToolName, ...]:
    names = []
    for item in read_objects(value, name):
        tool_name = read_text_field(item.get("name"), "name")
        hash = read_text_field(item.get("hash", ""), "hash")
        names.append(ToolName(tool_name, hash))
    return tuple(names)


def read_objects(value: JSON, name: str) -> list[dict[str, JSON]]:
    """The first objects of a list; a device with more tools than that loses the others."""
    items = read_list(value, name)[:MAX_TOOLS]
    return [read_object(item, name) for item in items]


def parse_offers(value: JSON, name: str) -> tuple[Offer, ...]:
    offers = []
    for item in read_objects(value, name):
        offer = Offer(
            read_text_field(item.get("name"), "name"),
            read_text_field(item.get("description", ""), "description"),
            read_object(item.get("input_schema"), "input_schema"),
            read_text_field(item.get("hash", ""), "hash"),
        )
        offers.append(offer)
    return tuple(offers)


def parse_unfinished(value: JSON, name: str) -> tuple[Unfinished, ...]:
    items = [read_object(item, name) for item in read_list(value, name)]
    calls = []
    for item in items:
        id = read_text_field(item.get("id"), "id")
        state = read_text_field(item.get("state"), "state")
        calls.append(Unfinished(id, state))
    for call in calls:
        if call.state not in UNFINISHED_STATES:
            raise wrong("state", f"one of {', '.join(sorted(UNFINISHED_STATES))}")
    return tuple(calls)


CHECKS: dict[Any, Any] = {
    str: read_text_field,
    bool: read_flag,
    int: read_whole_number,
    float: read_number_field,
    JSON: anything,
    str | None: optional(read_text_field),
    float | None: optional(read_number_field),
    dict[str, JSON]: read_object,
    dict[str, int]: read_object,
    dict[str, JSON] | None: read_wire_error,
    tuple[str, ...]: read_text_list,
    tuple[ToolName, ...]: parse_tool_names,
    tuple[Offer, ...]: parse_offers,
    tuple[Unfinished, ...]: parse_unfinished,
}
