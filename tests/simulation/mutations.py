"""The engine with one of its rules taken away. The simulation must notice."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from agents.tools import ToolCall, ToolResult
from runs.calls import call_records
from runs.calls.executor import ToolCallExecutor
from runs.models import Run
from runs.queue.leases import Lease

from .cast import Cast


@contextmanager
def fence(_cast: Cast) -> Iterator[None]:
    """Writes are made whoever has the lease, and whichever attempt it is."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(Lease, "conditions", lambda _: {"status": Run.LIVE}))
        stack.enter_context(patch.object(Lease, "rows", lambda lease: Run.objects.live().filter(pk=lease.run_id)))
        stack.enter_context(patch.object(Lease, "check", lambda *_: None))
        stack.enter_context(patch.object(call_records, "still_open", lambda _: {"outcome": ""}))
        yield


@contextmanager
def record_before_call(cast: Cast) -> Iterator[None]:
    """Calls are made before the transaction that records them is committed."""
    record, call_tool = ToolCallExecutor.record, cast.call_tool

    def record_and_call(executor: ToolCallExecutor, requested: Iterable[Any], turn: int) -> Any:
        records, told = record(executor, requested, turn)
        for one in records:
            if one.kind == "function" and one.attempt:
                cast.happen(one.name, one.arguments["token"], str(one.pk))
        return records, told

    def call_unless_done(tool: Any, call: ToolCall, context: Any) -> ToolResult:
        done = (tool.name, call.id) in cast.effects[call.arguments["token"]]
        return ToolResult(ok=True, value={}) if done else call_tool(tool, call, context)

    with patch.object(ToolCallExecutor, "record", record_and_call), patch.object(cast, "call_tool", call_unless_done):
        yield


MUTATIONS: dict[str, Callable[[Cast], Any]] = {"fence": fence, "record": record_before_call}
