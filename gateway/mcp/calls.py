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
from agents.unknown import extra, refuse_unknown_fields
from gateway import turns
from gateway.sse import HEARTBEAT, sse
from gateway.turns import LONGEST_WAIT_S, Pause, Turn
from plumbing.threads import in_thread
from runs.events.feed import HEARTBEAT_S, FeedBroken
from runs.events.frames import HEARTBEAT as BEAT
from runs.events.frames import Frame
from runs.events.waiting import ENDS, End
from runs.exceptions import RunFinished
from runs.models import Run
from runs.queue import endings

from . import cards, catalogue, documents, functions, notices, prompts, questions, results, sessions, tasks
from .catalogue import AGENT, FUNCTION, SCOPES, Target, build_run_target, target
from .protocol import METHOD, ORIGIN, PARAMS, Fault, RpcRequest, build_rpc_response, check_arguments

JSON = Any
LOOKS = frozenset(["run.waiting", "approval.requested", "input.requested", "heartbeat"])
# 2026-07-28 asks everything at one time, when the run waits.
ALL_ASKED = frozenset(["run.waiting", "heartbeat"])
RECONNECT_S = 1.0


class ToTheEnd(Pause):
    """A turn that is followed until the run has ended."""

    def ends_with(self, frame: Frame) -> bool:
        return frame.is_last


@dataclass(slots=True)
class Work:
    """A run that a request follows, and what its client was asked."""

    rpc: RpcRequest
    target: Target
    turn: Turn
    # What its client was asked or has put off.
    question_ids: set[str] = field(default_factory=set)
    # Answers that came before their questions.
    given: dict[str, JSON] = field(default_factory=dict)
    steps: int = 0
    is_continued: bool = False
    # Whether it is the approval card's, which only follows the run.
    is_card: bool = False

    @property
    def is_quiet(self) -> bool:
        """Whether the answer of a new run is all that the client wants to know."""
        if self.turn.after != 0 or self.turn.run.status != Run.Status.QUEUED:
            return False
        return self.rpc.progress is None and not self.rpc.log_level


Answer = dict[str, JSON] | Work | functions.Heard


def answer_tool_call(rpc: RpcRequest, headers: Any) -> Answer:
    """The result of a function, or what the stream follows. Raises Fault."""
    if cards.is_call(rpc):
        return of_card(rpc)
    tool = target(rpc, rpc.text("name"))
    if tool is None:
        return documents.call_document_tool(rpc)
    check_arguments(rpc, tool.input_schema, headers)
    arguments = rpc.object("arguments")
    if tool.kind == FUNCTION:
        if not rpc.is_modern and tasks.is_wanted(rpc):
            raise Fault(METHOD, f"“{tool.name}” cannot be called as a task.")
        return functions.call_function_tool(rpc, tool, arguments)
    try:
        refuse_unknown_arguments(tool, arguments)
        work = start_or_resume_work(rpc, tool, arguments)
    except MusterError as error:
        if error.status in functions.PASSED_ON:
            raise
        return results.failure(functions.describe_muster_error(error))
    if tasks.is_wanted(rpc) and not work.is_continued:
        return tasks.build_created_task(rpc, work.turn)
    return work


def refuse_unknown_arguments(tool: Target, arguments: dict[str, JSON]) -> None:
    """A misspelt name would be ignored, or told as a message that is empty. Chains with arguments compare them
    themselves. Raises Invalid.
    """
    if tool.kind != AGENT and tool.spec.takes_arguments:
        return
    unknown = extra(arguments, tool.input_schema["properties"])
    refuse_unknown_fields(unknown, "The call has an argument that does not exist.")


def of_card(rpc: RpcRequest) -> dict[str, JSON] | Work:
    """A decision in the approval card: the run's end, or the stream of how it goes on."""
    try:
        turn = cards.answer_card_decision(rpc)
    except MusterError as error:
        return results.failure(functions.describe_muster_error(error))
    tool = build_run_target(turn.run)
    if turn.run.is_done:
        return tasks.build_task_result(rpc, tool, turn.run)
    return Work(rpc, tool, turn, is_card=True)


def prompt(rpc: RpcRequest, headers: Any) -> dict[str, JSON] | Work:
    """The messages of a prompt, or the run of a chain that writes them. Raises Fault, MusterError."""
    template = prompts.load_prompt_target(rpc, rpc.text("name"))
    values = prompts.parse_prompt_arguments(rpc, template)
    if not prompts.is_run(template):
        return prompts.get(rpc, template, values)
    try:
        return start_or_resume_work(rpc, template, values)
    except Invalid as error:
        raise Fault(PARAMS, functions.describe_muster_error(error))


def start_or_resume_work(rpc: RpcRequest, tool: Target, arguments: dict[str, JSON]) -> Work:
    """Raises Fault, MusterError."""
    if rpc.is_modern and "requestState" in rpc.params:
        return resume_answered_work(rpc, tool)
    questions.check_client(rpc, tool)
    # Listens before the run starts: it could end before somebody listened otherwise.
    ENDS.listen()
    responses = rpc.object("inputResponses") if rpc.is_modern else {}
    for _ in questions.iterate_checked_responses(responses):
        pass  # a run with an answer that is not valid is not started
    return Work(rpc, tool, start_tool_turn(rpc, tool, arguments), given=responses)


def result_of_task(rpc: RpcRequest) -> Work:
    """`tasks/result` of 2025-11-25: the stream of the task's run from its begin. Raises Fault."""
    run = tasks.load_client_task(rpc)
    return Work(rpc, build_run_target(run), Turn(run))


def start_tool_turn(rpc: RpcRequest, tool: Target, arguments: dict[str, JSON]) -> Turn:
    """The turn of a new run; an earlier version's request that arrives again finds its run. Raises MusterError."""
    origin = {"tool": tool.name, "client": rpc.client, "session": rpc.session, "request": str(rpc.id)}
    more: dict[str, JSON] = {"metadata": {ORIGIN: origin}}
    # In a session a client may repeat a request whose answer it did not get.
    if rpc.session:
        more["idempotency_key"] = f"mcp.{rpc.session}.{rpc.id}"
    if tool.kind != AGENT:
        value = arguments if tool.spec.takes_arguments else arguments.get("input")
        return turns.begin_chain(user=rpc.user, key=rpc.key, chain=tool.row, input=value, **more)
    for name in ("task", "session"):
        if name in arguments and not isinstance(arguments[name], str):
            raise Fault(PARAMS, f"“{name}” must be text.")
    variables = arguments.get("variables")
    if variables:
        more["asked"] = {"variables": variables}
    task = {"type": "text", "text": arguments.get("task", "")}
    return turns.start_turn(
        user=rpc.user,
        key=rpc.key,
        agent=tool.row,
        parts=[task],
        session=arguments.get("session"),
        input=arguments.get("input"),
        **more,
    )


def resume_answered_work(rpc: RpcRequest, tool: Target) -> Work:
    """The run whose questions the client answers by repeating its request. Raises Fault."""
    facts = sessions.open_sealed_facts(rpc, sessions.STATE, rpc.params["requestState"], sessions.ANSWER_S)
    if facts is None or facts["n"] != tool.name:
        raise Fault(PARAMS, "“requestState” is not valid for this request.")
    turn = turns.find_turn(rpc.user, facts["r"])
    if turn is None:
        raise Fault(PARAMS, "The run of this request does not exist any more.")
    responses = rpc.object("inputResponses")
    questions.record_client_answers(rpc, responses, turn.run.pk)
    put_off = set()
    for id, response in responses.items():
        if isinstance(response, dict) and response.get("action") == "cancel":
            put_off.add(id)
    return Work(rpc, tool, turn, question_ids=put_off, is_continued=True)


def cancel_client_request(rpc: RpcRequest, request: JSON) -> None:
    """Stop the run of a request that the client has cancelled. Without a session only the key tells clients apart."""
    origin = {f"metadata__{ORIGIN}__session": rpc.session, f"metadata__{ORIGIN}__request": str(request)}
    runs = catalogue.build_started_runs_query(rpc).live().filter(**origin)
    if not rpc.session:
        runs = runs.filter(key=rpc.key)
    for run in runs:
        cancel_client_run(run, rpc.user)


def cancel_client_run(run: Run, user: Any) -> None:
    try:
        endings.cancel_run(run, by=user, reason="cancelled by the client")
    except RunFinished:
        pass  # it ended before the client's word arrived


# -- the stream -----------------------------------------------------------------------------------------------------


async def stream_call_messages(work: Work) -> AsyncIterator[bytes]:
    """Messages until the answer. In 2026-07-28 a client that leaves before has cancelled its request."""
    is_settled = False
    try:
        if not work.rpc.is_modern:
            # An event without content, so that a client can come back from here.
            yield b"retry: %d\n" % (RECONNECT_S * 1000) + add_event_number(work, work.turn.after)
        elif work.is_continued:
            answer = await in_thread(ask_first, work)
            if answer:
                is_settled = True
                yield answer
                return
        async for frame in stream_needed_frames(work):
            pieces, is_settled = await render_frame_messages(work, frame)
            for piece in pieces:
                yield piece
            if is_settled:
                return
    finally:
        # In 2026-07-28 to close the stream is to cancel; the card has other ways to hear of its run.
        if work.rpc.is_modern and not is_settled and not work.is_card:
            await in_thread(cancel_client_run, work.turn.run, work.rpc.user)


async def stream_needed_frames(work: Work) -> AsyncIterator[Frame]:
    """What the request needs to know of the run: all events, or only its end and what it waits for."""
    # To follow all events costs more than to wait for the end.
    if work.is_quiet:
        async for frame in stream_run_outcome(work.turn.run):
            yield frame
            if frame.is_last:
                return
    async for frame in frames(work.turn):
        yield frame


async def stream_run_outcome(run: Run) -> AsyncIterator[Frame]:
    """Heartbeats, then the run's end; nothing more if it waits for somebody or takes long."""
    end = End(run.pk, LONGEST_WAIT_S, or_else=lambda: is_waiting(run))
    coming = asyncio.create_task(end.come())
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=HEARTBEAT_S)
            if done:
                break
            yield BEAT
        end_data = coming.result()
        if end_data:
            yield Frame.of({"run": str(run.pk), "seq": None, "type": "run.finished", "data": end_data})
    finally:
        coming.cancel()


def is_waiting(run: Run) -> bool:
    rows = Run.objects.filter(pk=run.pk, status=Run.Status.WAITING)
    return rows.exists()


async def frames(turn: Turn) -> AsyncIterator[Frame]:
    """The run's events to its end; after a lost connection to the broker from the last one on."""
    seen = turn.after
    while True:
        try:
            async for frame in turns.stream_turn_frames(Turn(turn.run, seen), ToTheEnd()):
                seen = frame.seq or seen
                yield frame
            return
        except FeedBroken:
            await asyncio.sleep(RECONNECT_S)


async def render_frame_messages(work: Work, frame: Frame) -> tuple[list[bytes], bool]:
    """What the client reads of an event, and whether the request is answered with it."""
    rpc = work.rpc
    if frame.is_last:
        answer = await in_thread(build_finished_answer, work, frame.data)
        return [message(work, answer, frame.seq)], True
    if rpc.shows_cards and frame.type in ALL_ASKED:
        card = await in_thread(render_card_answer, work, frame.seq)
        if card:
            return [card], True
    pieces = []
    if frame.type == "heartbeat":
        pieces.append(HEARTBEAT)
    if frame.type in (ALL_ASKED if rpc.is_modern else LOOKS):
        fresh = await in_thread(new_questions, work)
        if fresh and rpc.is_modern:
            return [message(work, build_input_required(work, fresh))], True
        for id, question in fresh.items():
            pieces.append(message(work, {"jsonrpc": "2.0", "id": id, **question}))
    work.steps += 1
    number = frame.seq or work.steps
    for notice in notices.of_event(rpc, frame.type, frame.data, number):
        pieces.append(message(work, notice, frame.seq))
    return pieces, False


def new_questions(work: Work) -> dict[str, dict[str, JSON]]:
    """What the run waits for and the client was not asked yet."""
    run_id = work.turn.run.pk
    requests = questions.open_ones(work.rpc, run_id)
    if not requests.keys().isdisjoint(work.given):
        # The client sent these answers with its call, before they were asked for.
        questions.record_client_answers(work.rpc, work.given, run_id)
        requests = questions.open_ones(work.rpc, run_id)
    fresh = {id: one for id, one in requests.items() if id not in work.question_ids}
    work.question_ids |= fresh.keys()
    return fresh


def ask_first(work: Work) -> bytes | None:
    """What is open before anything happens: an answer was missing, or the run waits already."""
    fresh = new_questions(work)
    if fresh:
        return message(work, build_input_required(work, fresh))
    return render_card_answer(work)


def render_card_answer(work: Work, seq: int | None = None) -> bytes | None:
    """The answer to a call whose run waits for an approval, for a client that shows the card."""
    if not work.rpc.shows_cards:
        return None
    result = cards.find_waiting_card(work.rpc, work.target, work.turn.run)
    if not result:
        return None
    return message(work, build_rpc_response(work.rpc, result), seq)


def build_input_required(work: Work, fresh: dict[str, dict[str, JSON]]) -> dict[str, JSON]:
    facts = {"r": work.turn.run.pk.hex, "n": work.target.name, "q": sorted(fresh)}
    state = sessions.seal_client_facts(work.rpc, sessions.STATE, facts)
    result = {"resultType": "input_required", "inputRequests": fresh, "requestState": state}
    return build_rpc_response(work.rpc, result)


def build_finished_answer(work: Work, end: dict[str, JSON]) -> dict[str, JSON]:
    """What a call gets whose run has ended: a prompt, or a result with the task that it belongs to."""
    rpc = work.rpc
    if rpc.method == "prompts/get":
        return prompts.build_chain_prompt(rpc, work.target, end)
    result = results.build_run_result(work.target, work.turn.run, end)
    if rpc.method == "tasks/result":
        task = {"taskId": work.turn.run.pk.hex}
        result["_meta"] = {**result["_meta"], tasks.RELATED: task}
    return build_rpc_response(rpc, result)


def message(work: Work, content: dict[str, JSON], seq: int | None = None) -> bytes:
    """An event of the stream; numbered by the run's event where a client may come back."""
    if work.rpc.is_modern or seq is None:
        return sse(content)
    return add_event_number(work, seq, sse(content))


def add_event_number(work: Work, seq: int, event: bytes = b"data: \n\n") -> bytes:
    """The event with an id that holds what is needed to go on after it: the rows know nothing of streams."""
    rpc = work.rpc
    facts = {"r": work.turn.run.pk.hex, "s": seq, "i": rpc.id, "p": rpc.progress, "m": rpc.method}
    event_id = sessions.seal_client_facts(rpc, sessions.EVENT, facts)
    return b"id: %s\n" % event_id.encode() + event


def resume_call_stream(rpc: RpcRequest, event_id: str) -> Work:
    """The rest of the stream after this event. Raises Fault."""
    missing = Fault(PARAMS, "There is no such event.", status=400)
    facts = sessions.open_sealed_facts(rpc, sessions.EVENT, event_id)
    if not facts:
        raise missing
    turn = turns.find_turn(rpc.user, f"{facts['r']}-{facts['s']}")
    if turn is None:
        raise missing
    tool = build_run_target(turn.run)
    if not rpc.may(SCOPES[tool.kind]):
        raise missing
    rpc.id = facts["i"]
    rpc.method = facts["m"]
    rpc.params = {"_meta": {"progressToken": facts["p"]}}
    return Work(rpc, tool, turn)
