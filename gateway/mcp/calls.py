"""`tools/call`: a function is executed at once; an agent or a chain is a run, and the answer a stream.

The stream has progress and, in the end, the result. Where the run waits for the person, the earlier
versions ask on the stream; 2026-07-28 ends the request with the questions, and the client repeats it
with the answers.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from agents.exceptions import MusterError
from connectors.mcp.messages import notification
from functions import callers
from functions.execution import execute, ready
from gateway import turns
from gateway.sse import HEARTBEAT, sse
from gateway.turns import Pause, Turn
from plumbing.threads import in_thread
from runs.events.feed import FeedBroken
from runs.events.frames import Frame
from runs.exceptions import RunFinished
from runs.lifecycle import endings
from runs.models import Run

from . import questions, results, sessions, tasks
from .catalogue import AGENT, FUNCTION, Target, target, target_of
from .protocol import METHOD, ORIGIN, PARAMS, Asked, Fault, answered, check_arguments

JSON = Any
LOOKS = frozenset(["run.waiting", "approval.requested", "input.requested", "heartbeat"])
RECONNECT_S = 1.0


class ToTheEnd(Pause):
    """A turn that is followed until the run has ended."""

    def ends_with(self, frame: Frame) -> bool:
        return frame.is_last


@dataclass(slots=True)
class Work:
    """A run that a request follows, and what its client was asked."""

    asked: Asked
    target: Target
    turn: Turn
    told: set[str] = field(default_factory=set)
    steps: int = 0


def call(asked: Asked, headers: Any) -> dict[str, JSON] | Work:
    """The result of a function, or the run that the stream follows. Raises Fault."""
    wanted = target(asked, asked.text("name"))
    check_arguments(asked, wanted.input_schema, headers)
    arguments = asked.object("arguments")
    if wanted.kind == FUNCTION:
        if not asked.is_modern and tasks.is_wanted(asked):
            raise Fault(METHOD, f"“{wanted.name}” cannot be called as a task.")
        return executed(asked, wanted, arguments)
    if asked.is_modern and "requestState" in asked.params:
        return continued(asked, wanted)
    try:
        turn = started(asked, wanted, arguments)
    except MusterError as error:
        if error.status in (401, 403, 429, 503):
            raise
        return results.failure(in_words(error))
    return tasks.created(asked, turn) if tasks.is_wanted(asked) else Work(asked, wanted, turn)


def result_of_task(asked: Asked) -> Work:
    """`tasks/result` of 2025-11-25: the stream of the task's run from its begin. Raises Fault."""
    run = tasks.found(asked)
    return Work(asked, target_of(run), Turn(run))


def executed(asked: Asked, wanted: Target, arguments: dict[str, JSON]) -> dict[str, JSON]:
    version = ready(wanted.row.published_id, wanted.row.published.sha256)
    caller = callers.alone(asked.user, version)
    try:
        execution = execute(version, arguments, caller)
        callers.refuse_callbacks(caller)
    except MusterError as error:
        if error.status in (401, 403, 429, 503):
            raise
        return results.failure(in_words(error))
    return results.of_execution(wanted, execution)


def in_words(error: MusterError) -> str:
    problems = [f"{one.get('field', '')}: {one['message']}" for one in error.details or () if one.get("message")]
    return " ".join(filter(None, [str(error), *problems[:20], error.hint]))


def started(asked: Asked, wanted: Target, arguments: dict[str, JSON]) -> Turn:
    """The turn of a new run; an earlier version's request that arrives again finds its run. Raises MusterError."""
    about = {"tool": wanted.name, "client": asked.client, "session": asked.session, "request": str(asked.id)}
    more: dict[str, JSON] = {"metadata": {ORIGIN: about}}
    if asked.session:
        more["idempotency_key"] = f"mcp.{asked.session}.{asked.id}"
    if wanted.kind != AGENT:
        given = arguments if wanted.spec.takes_arguments else arguments.get("input")
        return turns.begin_chain(user=asked.user, key=asked.key, chain=wanted.row, input=given, **more)
    for name in ("task", "session"):
        if name in arguments and not isinstance(arguments[name], str):
            raise Fault(PARAMS, f"“{name}” must be text.")
    if variables := arguments.get("variables"):
        more["asked"] = {"variables": variables}
    return turns.begin(
        user=asked.user,
        key=asked.key,
        agent=wanted.row,
        parts=[{"type": "text", "text": arguments.get("task", "")}],
        session=arguments.get("session"),
        input=arguments.get("input"),
        is_watched=True,
        **more,
    )


def continued(asked: Asked, wanted: Target) -> Work:
    """The run whose questions the client answers by repeating its request. Raises Fault."""
    facts = sessions.unsealed(asked, sessions.STATE, asked.params["requestState"], sessions.ANSWER_S)
    if facts is None or facts["n"] != wanted.name:
        raise Fault(PARAMS, "“requestState” is not valid for this request.")
    turn = turns.parsed(asked.user, facts["r"])
    if turn is None:
        raise Fault(PARAMS, "The run of this request does not exist any more.")
    responses = asked.object("inputResponses")
    questions.settle(asked, responses, turn.run.pk)
    put_off = {id for id, one in responses.items() if isinstance(one, dict) and one.get("action") == "cancel"}
    return Work(asked, wanted, turn, told=put_off)


def cancelled(user: Any, session: str, request: JSON) -> None:
    """Stop the run of a request that the client has cancelled."""
    about = {f"metadata__{ORIGIN}__session": session, f"metadata__{ORIGIN}__request": str(request)}
    for run in Run.objects.visible_to(user).live().filter(parent=None, **about):
        stop(run, user)


def stop(run: Run, user: Any) -> None:
    try:
        endings.cancel(run, by=user, reason="cancelled by the client")
    except RunFinished:
        pass


# -- the stream -----------------------------------------------------------------------------------------------------


async def stream_of(work: Work) -> AsyncIterator[bytes]:
    """Messages until the answer. In 2026-07-28 a client that leaves before has cancelled its request."""
    is_settled = False
    try:
        if not work.asked.is_modern:
            yield numbered(work, work.turn.after)  # so that a client can come back from here
        elif answer := await in_thread(ask_first, work):
            is_settled = True
            yield answer
            return
        async for frame in frames(work.turn):
            pieces, is_settled = await told(work, frame)
            for piece in pieces:
                yield piece
            if is_settled:
                return
    finally:
        if work.asked.is_modern and not is_settled:
            await in_thread(stop, work.turn.run, work.asked.user)


async def frames(turn: Turn) -> AsyncIterator[Frame]:
    """The run's events to its end; after a lost connection to the broker from the last one on."""
    seen = turn.after
    while True:
        try:
            async for frame in turns.follow(Turn(turn.run, seen), ToTheEnd()):
                seen = frame.seq or seen
                yield frame
            return
        except FeedBroken:
            await asyncio.sleep(RECONNECT_S)


async def told(work: Work, frame: Frame) -> tuple[list[bytes], bool]:
    """What the client reads of an event, and whether the request is answered with it."""
    if frame.is_last:
        return [message(work, await in_thread(finished, work, frame.data), frame.seq)], True
    found = [HEARTBEAT] if frame.type == "heartbeat" else []
    if frame.type in LOOKS:
        asked = await in_thread(new_questions, work)
        if asked and work.asked.is_modern:
            return [message(work, required(work, asked))], True
        found += [message(work, {"jsonrpc": "2.0", "id": id, **one}) for id, one in asked.items()]
    if words := in_progress(frame):
        work.steps += 1
        if (token := work.asked.progress) is not None:
            params = {"progressToken": token, "progress": frame.seq or work.steps, "message": words}
            found.append(message(work, notification("notifications/progress", params), frame.seq))
    return found, False


def new_questions(work: Work) -> dict[str, dict[str, JSON]]:
    found = questions.open_ones(work.asked, work.turn.run.pk)
    fresh = {id: one for id, one in found.items() if id not in work.told}
    work.told |= fresh.keys()
    return fresh


def ask_first(work: Work) -> bytes | None:
    """What is open before anything happens: an answer was missing, or the run waits already."""
    asked = new_questions(work)
    return message(work, required(work, asked)) if asked else None


def required(work: Work, asked: dict[str, dict[str, JSON]]) -> dict[str, JSON]:
    state = sessions.sealed(work.asked, sessions.STATE, {"r": work.turn.run.pk.hex, "n": work.target.name})
    return answered(work.asked, {"resultType": "input_required", "inputRequests": asked, "requestState": state})


def finished(work: Work, end: dict[str, JSON]) -> dict[str, JSON]:
    result = results.of_run(work.target, work.turn.run, end)
    if work.asked.method == "tasks/result":
        result["_meta"] = {**result["_meta"], tasks.RELATED: {"taskId": work.turn.run.pk.hex}}
    return answered(work.asked, result)


def in_progress(frame: Frame) -> str:
    """An event in a few words; empty for one that nobody waits for."""
    data = frame.data
    match frame.type:
        case "run.started":
            return "Started."
        case "tool.called":
            return f"Calls {data['name']}."
        case "tool.finished":
            return f"{data['name']}: {data['outcome']}."
        case "tool.progress" | "run.progress":
            return str(data.get("message") or "")[:500]
        case "step.finished":
            return f"Step {data['key']}: {data['status']}."
        case "approval.requested":
            return f"Waits for the approval of {data['tool']}."
        case "input.requested":
            return f"Asks: {data['prompt']}"[:500]
    return ""


def message(work: Work, content: dict[str, JSON], seq: int | None = None) -> bytes:
    """An event of the stream; numbered by the run's event where a client may come back."""
    if work.asked.is_modern or seq is None:
        return sse(content)
    return numbered(work, seq, sse(content))


def numbered(work: Work, seq: int, event: bytes = b"data: \n\n") -> bytes:
    facts = {"r": work.turn.run.pk.hex, "s": seq, "i": work.asked.id, "p": work.asked.progress, "m": work.asked.method}
    return b"id: %s\n" % sessions.sealed(work.asked, sessions.EVENT, facts).encode() + event


def resumed(asked: Asked, event_id: str) -> Work:
    """The rest of the stream after this event. Raises Fault."""
    facts = sessions.unsealed(asked, sessions.EVENT, event_id)
    turn = turns.parsed(asked.user, f"{facts['r']}-{facts['s']}") if facts else None
    if facts is None or turn is None:
        raise Fault(PARAMS, "There is no such event.", status=400)
    asked.id, asked.method, asked.params = facts["i"], facts["m"], {"_meta": {"progressToken": facts["p"]}}
    return Work(asked, target_of(turn.run), turn)
