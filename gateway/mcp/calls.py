"""`tools/call` and `prompts/get`: a function is executed at once; an agent or a chain is a run, whose
answer is a stream.

The stream has progress and, in the end, the result. Where the run waits for the person, the earlier
versions ask on the stream; 2026-07-28 ends the request with the questions, and the client repeats it
with the answers.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from agents.exceptions import Invalid, MusterError
from gateway import turns
from gateway.sse import HEARTBEAT, sse
from gateway.turns import LONGEST_WAIT_S, Pause, Turn
from plumbing.threads import in_thread
from runs.events.feed import HEARTBEAT_S, FeedBroken
from runs.events.frames import HEARTBEAT as BEAT
from runs.events.frames import Frame
from runs.events.waiting import ENDS, End
from runs.exceptions import RunFinished
from runs.lifecycle import endings
from runs.models import Run

from . import cards, documents, functions, notices, prompts, questions, results, sessions, tasks
from .catalogue import AGENT, FUNCTION, Target, target, target_of
from .protocol import METHOD, ORIGIN, PARAMS, Asked, Fault, answered, check_arguments

JSON = Any
LOOKS = frozenset(["run.waiting", "approval.requested", "input.requested", "heartbeat"])
ALL_ASKED = frozenset(["run.waiting", "heartbeat"])  # 2026-07-28 asks everything at one time
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
    given: dict[str, JSON] = field(default_factory=dict)  # answers that came before their questions
    steps: int = 0
    is_continued: bool = False
    is_card: bool = False  # of the approval card, which only follows the run

    @property
    def is_quiet(self) -> bool:
        """Whether the answer of a new run is all that the client wants to know."""
        is_new = self.turn.after == 0 and self.turn.run.status == Run.Status.QUEUED
        return is_new and self.asked.progress is None and not self.asked.log_level


Answer = dict[str, JSON] | Work | functions.Heard


def call(asked: Asked, headers: Any) -> Answer:
    """The result of a function, or what the stream follows. Raises Fault."""
    if cards.is_call(asked):
        return of_card(asked)
    wanted = target(asked, asked.text("name"))
    if wanted is None:
        return documents.call(asked)
    check_arguments(asked, wanted.input_schema, headers)
    arguments = asked.object("arguments")
    if wanted.kind == FUNCTION:
        if not asked.is_modern and tasks.is_wanted(asked):
            raise Fault(METHOD, f"“{wanted.name}” cannot be called as a task.")
        return functions.call(asked, wanted, arguments)
    try:
        work = begun(asked, wanted, arguments)
    except MusterError as error:
        if error.status in functions.PASSED_ON:
            raise
        return results.failure(functions.in_words(error))
    return tasks.created(asked, work.turn) if tasks.is_wanted(asked) and not work.is_continued else work


def of_card(asked: Asked) -> dict[str, JSON] | Work:
    """A decision in the approval card: the run's end, or the stream of how it goes on."""
    try:
        turn = cards.decided(asked)
    except MusterError as error:
        return results.failure(functions.in_words(error))
    if turn.run.is_done:
        return tasks.result_of(asked, target_of(turn.run), turn.run)
    return Work(asked, target_of(turn.run), turn, is_card=True)


def prompt(asked: Asked, headers: Any) -> dict[str, JSON] | Work:
    """The messages of a prompt, or the run of a chain that writes them. Raises Fault, MusterError."""
    wanted = prompts.found(asked, asked.text("name"))
    values = prompts.values_of(asked, wanted)
    if not prompts.is_run(wanted):
        return prompts.get(asked, wanted, values)
    try:
        return begun(asked, wanted, values)
    except Invalid as error:
        raise Fault(PARAMS, functions.in_words(error))


def begun(asked: Asked, wanted: Target, arguments: dict[str, JSON]) -> Work:
    """Raises Fault, MusterError."""
    if asked.is_modern and "requestState" in asked.params:
        return continued(asked, wanted)
    questions.check_client(asked, wanted)
    ENDS.listen()
    given = asked.object("inputResponses") if asked.is_modern else {}
    dict(questions.readable(given))
    return Work(asked, wanted, started(asked, wanted, arguments), given=given)


def result_of_task(asked: Asked) -> Work:
    """`tasks/result` of 2025-11-25: the stream of the task's run from its begin. Raises Fault."""
    run = tasks.found(asked)
    return Work(asked, target_of(run), Turn(run))


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
    return Work(asked, wanted, turn, told=put_off, is_continued=True)


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
            yield b"retry: %d\n" % (RECONNECT_S * 1000) + numbered(
                work, work.turn.after
            )  # so that a client can come back from here
        elif work.is_continued and (answer := await in_thread(ask_first, work)):
            is_settled = True
            yield answer
            return
        async for frame in frames_for(work):
            pieces, is_settled = await told(work, frame)
            for piece in pieces:
                yield piece
            if is_settled:
                return
    finally:
        if work.asked.is_modern and not is_settled and not work.is_card:
            await in_thread(stop, work.turn.run, work.asked.user)


async def frames_for(work: Work) -> AsyncIterator[Frame]:
    """What the request needs to know of the run: all events, or only its end and what it waits for."""
    if work.is_quiet:
        async for frame in end_of(work.turn.run):
            yield frame
            if frame.is_last:
                return
    async for frame in frames(work.turn):
        yield frame


async def end_of(run: Run) -> AsyncIterator[Frame]:
    """Heartbeats, then the run's end; nothing more if it waits for somebody or takes long."""
    coming = asyncio.create_task(End(run.pk, LONGEST_WAIT_S, or_else=lambda: is_waiting(run)).come())
    try:
        while not (await asyncio.wait({coming}, timeout=HEARTBEAT_S))[0]:
            yield BEAT
        if end := coming.result():
            yield Frame.of({"run": str(run.pk), "seq": None, "type": "run.finished", "data": end})
    finally:
        coming.cancel()


def is_waiting(run: Run) -> bool:
    return Run.objects.filter(pk=run.pk, status=Run.Status.WAITING).exists()


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
    if work.asked.shows_cards and frame.type in ALL_ASKED and (card := await in_thread(card_of, work, frame.seq)):
        return [card], True
    found = [HEARTBEAT] if frame.type == "heartbeat" else []
    if frame.type in (ALL_ASKED if work.asked.is_modern else LOOKS):
        asked = await in_thread(new_questions, work)
        if asked and work.asked.is_modern:
            return [message(work, required(work, asked))], True
        found += [message(work, {"jsonrpc": "2.0", "id": id, **one}) for id, one in asked.items()]
    work.steps += 1
    number = frame.seq or work.steps
    found += [message(work, one, frame.seq) for one in notices.of_event(work.asked, frame.type, frame.data, number)]
    return found, False


def new_questions(work: Work) -> dict[str, dict[str, JSON]]:
    found = questions.open_ones(work.asked, work.turn.run.pk)
    if not found.keys().isdisjoint(work.given):
        questions.settle(work.asked, work.given, work.turn.run.pk)
        found = questions.open_ones(work.asked, work.turn.run.pk)
    fresh = {id: one for id, one in found.items() if id not in work.told}
    work.told |= fresh.keys()
    return fresh


def ask_first(work: Work) -> bytes | None:
    """What is open before anything happens: an answer was missing, or the run waits already."""
    asked = new_questions(work)
    return message(work, required(work, asked)) if asked else card_of(work)


def card_of(work: Work, seq: int | None = None) -> bytes | None:
    """The answer to a call whose run waits for an approval, for a client that shows the card."""
    found = cards.waiting(work.asked, work.target, work.turn.run) if work.asked.shows_cards else None
    return message(work, answered(work.asked, found), seq) if found else None


def required(work: Work, asked: dict[str, dict[str, JSON]]) -> dict[str, JSON]:
    facts = {"r": work.turn.run.pk.hex, "n": work.target.name, "q": sorted(asked)}
    state = sessions.sealed(work.asked, sessions.STATE, facts)
    return answered(work.asked, {"resultType": "input_required", "inputRequests": asked, "requestState": state})


def finished(work: Work, end: dict[str, JSON]) -> dict[str, JSON]:
    if work.asked.method == "prompts/get":
        return prompts.written(work.asked, work.target, end)
    result = results.of_run(work.target, work.turn.run, end)
    if work.asked.method == "tasks/result":
        result["_meta"] = {**result["_meta"], tasks.RELATED: {"taskId": work.turn.run.pk.hex}}
    return answered(work.asked, result)


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
