"""Calls of stored functions, which are executed at once, without a run.

What a function saves is part of its result; what it logs and how far it is can be heard meanwhile.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from agents import storage
from agents.exceptions import Invalid, MusterError
from functions import callers
from functions.execution import execute_function, ready
from functions.models import Execution
from gateway.sse import sse
from plumbing.idle_thread_pool import RestingThreads
from plumbing.threads import run_with_connection

from . import content, notices, results
from .catalogue import Target
from .protocol import INTERNAL, PARAMS, REFUSED, Fault, RpcRequest, build_rpc_response

log = logging.getLogger(__name__)
JSON = Any
Emit = Callable[[str, dict[str, JSON]], None]
# The statuses of refusals that are no result of the call.
PASSED_ON = (401, 403, 429, 503)
THREADS = RestingThreads(16, "mcp-functions")


@dataclass(frozen=True, slots=True)
class Heard:
    """A call whose client wants to hear how it goes: the answer is a stream."""

    rpc: RpcRequest
    target: Target
    arguments: dict[str, JSON]


def call_function_tool(rpc: RpcRequest, target: Target, arguments: dict[str, JSON]) -> dict[str, JSON] | Heard:
    # Without a wish to hear of it, the call needs no stream.
    if rpc.progress is not None or rpc.log_level:
        return Heard(rpc, target, arguments)
    return run_function_tool(rpc.user, target, arguments)


def run_function_tool(
    user: Any, target: Target, arguments: dict[str, JSON], emit: Emit | None = None
) -> dict[str, JSON]:
    """The result of tools/call. Raises MusterError for what is PASSED_ON."""
    files: list[dict[str, JSON]] = []
    try:
        execution = run_function_version(user, target, arguments, emit=emit, files=files)
    except MusterError as error:
        if error.status in PASSED_ON:
            raise
        return results.failure(describe_muster_error(error))
    return results.of_execution(target, execution, files)


def run_marked_function(
    user: Any, target: Target, arguments: dict[str, JSON], *, files: list[JSON] | None = None
) -> JSON:
    """The result of a function that is a prompt or a resource. Raises Fault, MusterError."""
    try:
        execution = run_function_version(user, target, arguments, files=files)
    except Invalid as error:
        raise Fault(PARAMS, describe_muster_error(error))
    if execution.status != "ok":
        raise Fault(INTERNAL, results.describe_failed_execution(execution))
    return execution.result


def run_function_version(
    user: Any, target: Target, arguments: dict[str, JSON], *, emit: Emit | None = None, files: list[JSON] | None = None
) -> Execution:
    """`files` takes what the function saves. Raises MusterError."""
    version = ready(target.row.published_id, target.row.published.sha256)
    caller = callers.alone(user, version)
    if caller.host is not None:
        caller.host.emit = emit
        caller.host.files = keeper(files) if files is not None else None
    execution = execute_function(version, arguments, caller)
    callers.refuse_callbacks(caller)
    return execution


def keeper(files: list[dict[str, JSON]]) -> Callable[[str, bytes, str], dict[str, JSON]]:
    """Take files as content of the result. Raises ValueError in the function when there is no room."""
    total = 0

    def keep(name: str, data: bytes, declared: str) -> dict[str, JSON]:
        nonlocal total
        size = len(data)
        if size > content.LARGEST or total + size > content.LARGEST_TOTAL:
            raise ValueError(f"files in a result can have {content.LARGEST} bytes, {content.LARGEST_TOTAL} together")
        total += size
        name = storage.clean_name(name)
        media_type = storage.detect_type(data, declared)
        files.append(content.of_unstored(name, media_type, data))
        return {"file": None, "name": name, "media_type": media_type, "size": size}

    return keep


def describe_muster_error(error: MusterError) -> str:
    """The error, its problems and its hint in one text."""
    problems = []
    for detail in error.details or ():
        if detail.get("message"):
            problems.append(f"{detail.get('field', '')}: {detail['message']}")
    sentences = [str(error), *problems[:20], error.hint]
    return " ".join(filter(None, sentences))


async def stream_function_call(heard: Heard) -> AsyncIterator[bytes]:
    """What the function says while it is executed, then its result."""
    rpc = heard.rpc
    numbers = count(1)
    loop = asyncio.get_running_loop()
    # None in the queue says that the function has ended.
    events: asyncio.Queue[tuple[str, dict[str, JSON]] | None] = asyncio.Queue()

    def emit(type: str, data: dict[str, JSON]) -> None:
        loop.call_soon_threadsafe(events.put_nowait, (type, data))

    arguments = (rpc.user, heard.target, heard.arguments, emit)
    work = loop.run_in_executor(THREADS, run_with_connection, run_function_tool, *arguments)
    work.add_done_callback(lambda _: events.put_nowait(None))
    while (event := await events.get()) is not None:
        type, data = event
        for notice in notices.of_event(rpc, type, data, next(numbers)):
            yield sse(notice)
    try:
        yield sse(build_rpc_response(rpc, work.result()))
    except MusterError as error:
        fault = Fault(REFUSED, describe_muster_error(error), data={"code": error.code})
        yield sse(fault.as_json(rpc.id))
    except Exception:
        log.exception("A call of %s over MCP failed", heard.target.name)
        yield sse(Fault(INTERNAL, "The server failed; its log says why.").as_json(rpc.id))
