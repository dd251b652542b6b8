"""The interface between the runner and the code that executes tools. Plain Python.

A toolset gets a `ToolCall`, its `ToolSpec` and a `ToolContext`; it returns a `ToolResult` or raises
one of the errors below, each of which tells the runner what to do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

JSON = Any


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One catalogue row as a live agent holds it. `source` is what its toolset needs to find the
    code.
    """

    id: int
    name: str
    kind: str
    description: str
    input_schema: dict[str, JSON]
    output_schema: dict[str, JSON] | None
    effect: str
    source: dict[str, JSON]
    definition_hash: str
    untrusted: bool = False
    record_fields: tuple[str, ...] = ()
    deadline_s: float = 30.0
    # The limit that the grant or the step sets: a child run ends by then.
    granted_s: float | None = None
    # What an agent that it calls reads of the caller's session.
    context: tuple[Any, ...] = ()
    pinned_version: int | None = None
    offline: str = "fail"

    @property
    def is_repeatable(self) -> bool:
        """May be made again with the same call id when its outcome is unknown.

        A stored function that reads out may do more than read: what it sends to its hosts is its own affair.
        """
        return may_repeat(self.effect, self.kind)


def may_repeat(effect: str, kind: str) -> bool:
    if effect == "read_out":
        return kind != "function"
    return effect in ("read", "idempotent")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model's request. `id` is ours (a UUID string), unique and the same for repeated attempts."""

    id: str
    name: str
    arguments: dict[str, JSON]
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result. `value` is JSON; `counts` may hold processed, created, updated.

    `keep` stores the toolset's own record of the call, in the transaction that writes the result or
    alone. It is called again if that transaction was rolled back.
    """

    ok: bool
    value: JSON = None
    error: dict[str, JSON] | None = None
    printed: str = ""
    untrusted: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    details: dict[str, JSON] = field(default_factory=dict)
    keep: Callable[[], None] | None = None

    @classmethod
    def failed(cls, code: str, message: str, **more: JSON) -> "ToolResult":
        return cls(ok=False, error={"code": code, "message": message, **more})


def never() -> bool:
    return False


def nobody() -> tuple[int | None, ...]:
    """The owners of a call whose run is not known: an id that no person has."""
    return (0,)


@dataclass(slots=True)
class ToolContext:
    """What a tool may know and do, all on behalf of the principal: devices, connections, secrets,
    budgets.

    `call_tool(name, arguments)` makes a recorded call under the same policy and returns JSON or
    raises ToolFailed. `spawn(agent, text, input)` and `start_chain(chain, input)` start a child run
    and raise CallPending.
    `ask(kind=, …)` asks the person or the caller and raises CallPending until there is an answer;
    `asked()` returns the `state` of each question that this call has asked before. Both are None where
    a call cannot wait.
    `emit(type, data)` adds a run event. `save_file(name, content, media_type)` stores bytes as a
    file of the run and returns {"file", "name", "media_type", "size"} or raises ToolFailed. `files()`
    lists the files of the conversation and of the run in the same shape with "untrusted", newest first; `read_file(id)`
    returns the bytes of one of them, or None if there is no such file. `skills()` lists the skills that this call
    may read as {"name", "version", "text" (SKILL.md), "file" (id of the archive of its other files, or None),
    "size", "untrusted"}; `read_skill(id)` returns such an archive.
    """

    user_id: int
    run_id: str | None = None
    # The first run of the tree of runs.
    root_id: str | None = None
    agent: str = ""
    agent_id: int | None = None
    session_id: str | None = None
    device_id: str | None = None
    # Of an embed, in its owner's name: no device of the owner is reached.
    is_for_visitor: bool = False
    chain: str = ""
    step: str = ""
    deadline: datetime | None = None
    # Owners of what calls and of all above it; None: the site.
    authors: Callable[[], tuple[int | None, ...]] = nobody
    # The run has read untrusted content: what it stores is marked.
    is_untrusted: bool = False
    metadata: dict[str, JSON] = field(default_factory=dict)
    is_cancelled: Callable[[], bool] = never
    call_tool: Callable[[str, dict[str, JSON]], JSON] | None = None
    tool_names: tuple[str, ...] = ()
    spawn: Callable[..., JSON] | None = None
    start_chain: Callable[..., JSON] | None = None
    delegate: Callable[..., JSON] | None = None
    ask: Callable[..., ToolResult] | None = None
    asked: Callable[[], list[dict[str, JSON]]] | None = None
    emit: Callable[[str, dict[str, JSON]], None] | None = None
    # The run's key-value store: get(key), set(key, value).
    values: Any = None
    save_file: Callable[..., dict[str, JSON]] | None = None
    files: Callable[[], list[dict[str, JSON]]] | None = None
    read_file: Callable[[str], bytes | None] | None = None
    skills: Callable[[], list[dict[str, JSON]]] | None = None
    read_skill: Callable[[str], bytes | None] | None = None

    def seconds_left(self, most: float) -> float:
        """The smaller of `most` and the time until the deadline; zero or negative once that has
        passed.
        """
        if self.deadline is None:
            return most
        remaining = self.deadline - datetime.now(UTC)
        return min(most, remaining.total_seconds())


class Toolset(Protocol):
    """Code that executes one kind of tool."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult: ...


class ToolError(Exception):
    """A tool call failed."""

    code = "tool_error"

    def __init__(self, message: str = "", *, code: str = "", details: JSON = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())
        self.code = code or self.code
        self.details = details


class RetryTool(ToolError):
    """The model may try again with other arguments."""

    code = "invalid_arguments"


class ToolFailed(ToolError):
    """The tool cannot do it; continue without it."""

    code = "tool_failed"


class CallPending(ToolError):
    """The answer will come later; release the worker. `waiting_for` is device, child, timer or
    input.

    `instead` is the error for calls that cannot wait: a function's callback, or a run that ends
    sooner.
    """

    code = "pending"

    def __init__(
        self,
        waiting_for: str,
        *,
        until: datetime | None = None,
        reference: str = "",
        instead: ToolError | None = None,
    ) -> None:
        super().__init__(f"waiting for {waiting_for}")
        self.waiting_for = waiting_for
        self.until = until
        self.reference = reference
        self.instead = instead


class OutcomeUnknown(ToolError):
    """The call was sent, and its outcome is unknown."""

    code = "outcome_unknown"
