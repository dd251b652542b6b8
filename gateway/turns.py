"""One turn of a conversation, for every protocol: start a run or answer it, then follow it until it
ends or waits for the caller.

A turn is a run and the number of the event after which it begins: a run that waited for its caller
continues in another turn. So a turn can be read again from the rows, and the gateway has no tables.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.exceptions import Invalid
from agents.http import parsers
from agents.models import Agent, ApiKey
from gateway import histories
from gateway.histories import SentMessage
from plumbing.threads import in_thread
from runs.calls import approvals, inputs
from runs.events import record as events
from runs.events import stream, waiting
from runs.events.frames import Frame
from runs.exceptions import AlreadyAnswered, RunFinished
from runs.intake import caller_tools, options
from runs.intake import messages as intake
from runs.models import Approval, InputRequest, Message, ModelCall, Run, RunEvent, Session, ToolCallRecord
from runs.models.session import NOT_SHOWN
from runs.queue import endings

JSON = Any
RUN_JOINS = ("agent", "session", "version")
# How long a request waits for the end of its turn.
LONGEST_WAIT_S = 600.0
GONE_ON = "the caller continued the conversation in another request"
# The name under which the router chooses the agent.
ROUTER = "router"


@dataclass(frozen=True, slots=True)
class Turn:
    run: Run
    after: int = 0

    @property
    def id(self) -> str:
        """The run's id as 32 hexadecimal digits, and where the turn begins if it is not the first."""
        return f"{self.run.pk.hex}-{self.after}" if self.after else self.run.pk.hex


def find_turn(user: Any, id: str) -> Turn | None:
    """The turn with this id, if its run is the user's."""
    run_id, _, after = id.partition("-")
    try:
        pk = UUID(hex=run_id)
    except ValueError:
        return None
    if after and not (after.isascii() and after.isdigit() and len(after) < 10):
        return None
    rows = Run.objects.visible_to(user).select_related(*RUN_JOINS)
    run = rows.filter(pk=pk).first()
    if run is None:
        return None
    return Turn(run, int(after or 0))


def start_turn(
    *,
    user: Any,
    key: ApiKey | None,
    agent: Agent | str | None,
    parts: list[dict[str, JSON]],
    earlier: Iterable[SentMessage] = (),
    session: Session | str | None = None,
    is_watched: bool = False,
    is_resent: bool = False,
    continues: bool = False,
    **more: Any,
) -> Turn:
    """Start a run; `more` as in `runs.intake.messages.accept_message`.

    `agent`: `name@3` is version 3 of it. `earlier` opens a new session. `is_resent`: the protocol sends the whole
    conversation each time, so that this one will come again. `continues`: `earlier` ends in results of tools, and the
    person writes nothing. Raises what accept_message raises.
    """
    earlier = list(earlier) if session is None else []
    if isinstance(agent, str):
        agent, version = parse_pinned_agent(agent)
        if version is not None:
            more["version"] = version
    thread = None
    if is_resent and session is None:
        # The name by which the next request finds this conversation; see histories.py.
        thread = histories.build_history_name([*earlier, SentMessage("user", parts)])
    # A refused message leaves no session behind.
    with transaction.atomic() if earlier else nullcontext():
        if earlier:
            session = create_history_session(user, agent, earlier, thread)
        elif thread is not None:
            more["thread"] = thread
        acceptance = intake.accept_message(
            user=user,
            key=key,
            agent=agent_named(user, agent),
            parts=parts,
            session=session,
            is_watched=is_watched,
            continues=continues,
            **more,
        )
    return Turn(acceptance.run)


def begin_chain(**order: Any) -> Turn:
    """Start a run of a chain; `order` and errors as of `runs.intake.messages.start_chain`."""
    run = intake.start_chain(**order)
    events.expect_watcher(run.pk)
    return Turn(run)


def parse_pinned_agent(name: str) -> tuple[str, int | None]:
    """An agent's name, and the number of the version behind an “@”."""
    agent, _, number = name.rpartition("@")
    if agent and number.isascii() and number.isdigit() and len(number) < 10:
        return agent, int(number)
    return name, None


def agent_named(user: Any, name: Agent | str | None) -> Agent | str | None:
    """None, so that the router chooses, for the name `router` if no agent has it."""
    if not isinstance(name, str):
        return name
    if name == ROUTER and not Agent.objects.usable_by(user).filter(name=name).exists():
        return None
    return name


def create_history_session(
    user: Any, agent: Agent | str | None, earlier: list[SentMessage], thread: str | None = None
) -> Session:
    """A new session that begins with a conversation that the caller sent along."""
    row = agent_named(user, agent)
    if isinstance(row, str):
        row = intake.NAMED.for_use(user, row)
    title = find_history_title(earlier)
    session = Session(owner=user, agent=row, title=title, thread=thread, variables={"agent_depth": 0})
    histories.add_sent(session, earlier, is_known=histories.is_known(user, earlier))
    return session


def find_history_title(messages: list[SentMessage]) -> str:
    """The beginning of the first text of the person."""
    for message in messages:
        if message.role != Message.Role.USER:
            continue
        for part in message.parts:
            if part.get("text"):
                return part["text"][:80].strip()
        break
    return ""


def answer_waiting_run(
    user: Any,
    results: Mapping[UUID, JSON],
    *,
    declined: Collection[UUID] = (),
    decisions: Collection[tuple[Approval, dict[str, JSON]]] = (),
    source: str = "",
) -> Turn:
    """Send the results of calls that a run of this user waits for, by the ids of the calls.

    `declined`: calls that get no answer. `decisions`: approvals, with the arguments of
    `runs.calls.approvals.decide_approval`. Results of the agent's own calls, which some clients send along, are
    left out; if such a call waits for an approval, the turn goes on until it is decided. Raises
    Invalid, Forbidden, Conflict (already_answered, already_decided).
    """
    calls = [*results, *declined]
    rows = InputRequest.objects.visible_to(user).select_related(*(f"run__{name}" for name in RUN_JOINS))
    requests = {request.call_id: request for request in rows.filter(call_id__in=calls)}
    unknown = {call for call in calls if call not in requests}
    if unknown and not requests and not decisions:
        undecided = find_undecided_turn(user, unknown)
        if undecided:
            return undecided
    run_ids = {request.run_id for request in requests.values()}
    unknown -= find_own_calls(unknown, run_ids)
    if unknown:
        raise Invalid(f"There is no call “{min(map(str, unknown))}” that waits for you.", code="unknown_call")
    run_ids |= {approval.run_id for approval, _ in decisions}
    if len(run_ids) != 1:
        raise Invalid("The answers belong to more than one run.", code="several_runs", hint="Send them one by one.")
    [run_id] = run_ids
    # One transaction: either all answers are taken, or none of them.
    with transaction.atomic():
        run = Run.objects.select_for_update(of=("self",)).select_related(*RUN_JOINS).get(pk=run_id)
        for call, value in results.items():
            if call in requests:
                inputs.answer_input_request(requests[call], by=user, value=value)
        for call in declined:
            inputs.decline(requests[call], by=user)
        for approval, decision in decisions:
            approvals.decide_approval(approval, by=user, source=source, **decision)
    events.expect_watcher(run.pk)
    return Turn(run, run.last_event)


def resume_matching_run(
    user: Any,
    results: Mapping[str, JSON],
    sent: list[SentMessage],
    model: str,
    more: dict[str, Any],
    *,
    has_pictures: bool = False,
) -> Turn | None:
    """The waiting run that these results of the caller's tools answer, if the request is the same otherwise.

    `results` by the ids of the calls as the protocol writes them, `sent` the whole conversation, `more` as for
    start_turn. None if no run waits for them, or if it was started with another agent, other messages, options or
    tools: then what is sent holds, and a new run begins with it. The run that waited for an answer is ended.
    `has_pictures`: no answer can hold all of the results.
    """
    results_by_call = {}
    for id, value in results.items():
        call = parse_hex_uuid(id)
        if call:
            results_by_call[call] = value
    if not results or len(results_by_call) != len(results):
        return None
    requests = InputRequest.objects.visible_to(user).open()
    requests = requests.filter(call_id__in=results_by_call, kind=InputRequest.Kind.TOOL)
    rows = list(requests.select_related("run__agent", "run__session", "run__version"))
    if not rows:
        return find_undecided_turn(user, set(results_by_call))
    runs = {row.run_id: row.run for row in rows}
    asked_calls = {row.call_id for row in rows}
    other_calls = set(results_by_call) - asked_calls
    # Some clients send the results of the agent's own calls along, which is no reason to begin anew.
    if len(runs) != 1 or other_calls != find_own_calls(other_calls, set(runs)):
        return None
    [run] = runs.values()
    waits_for = set(run.inputs.open().values_list("call_id", flat=True))
    is_same = not has_pictures and waits_for == asked_calls and has_same_wishes(run, model, more)
    if is_same and is_same_conversation(run, sent):
        # The same request may have been sent twice at once: the second is done anew.
        with suppress(AlreadyAnswered):
            return answer_waiting_run(user, results_by_call)
    cancel_left_run(run, user)
    return None


def cancel_left_run(run: Run, user: Any) -> None:
    """End a run whose caller goes on without it."""
    with suppress(RunFinished):
        endings.cancel_run(run, by=user, reason=GONE_ON)


def has_same_wishes(run: Run, model: str, more: dict[str, Any]) -> bool:
    """Whether a request asks for what the run was started with: its agent, options and tools. Each request has all of
    the agent's steps, so a run that has none left cannot go on with it.
    """
    name, version = parse_pinned_agent(model)
    is_same_agent = name == ROUTER or (run.agent is not None and run.agent.name == name)
    if not is_same_agent:
        return False
    if version is not None and (run.version is None or run.version.number != version):
        return False
    # A run that has used up its steps cannot go on.
    if run.version is not None and run.turns >= run.version.read_spec().max_steps:
        return False
    if options.parse_options(more.get("asked")) != run.options.get("asked", {}):
        return False
    tools = caller_tools.check_caller_tools(more.get("tools") or [])
    return tools == run.policy.get(caller_tools.POLICY, [])


def is_same_conversation(run: Run, sent: list[SentMessage]) -> bool:
    """Whether what is sent is what the run knows: its session, then its own words, calls and results so far."""
    if run.session is None:
        return False
    # Messages that were never shown to the caller cannot come back.
    rows = run.session.messages.exclude(metadata__has_key=NOT_SHOWN).order_by("seq")
    stored = list(rows.values_list("role", "content", "tool_calls"))
    begin = sent[: len(stored)]
    rest = sent[len(stored) :]
    if [(one.role, one.parts, one.calls) for one in begin] != stored:
        return False
    if any(one.role != Message.Role.ASSISTANT for one in rest):
        return False
    return is_own_work(run, rest)


def is_own_work(run: Run, messages: list[SentMessage]) -> bool:
    """Whether the run wrote these words and made these calls, and got these results. Calls that the agent answers
    itself are not compared: some protocols have no place for them.
    """
    sent_words = []
    sent_calls = {}
    for message in messages:
        sent_words += [part.get("text", "") for part in message.parts]
        for call in message.calls:
            call_id = parse_hex_uuid(call["id"].removeprefix("call_"))
            sent_calls[call_id] = call
    answers = ModelCall.objects.filter(run=run, error__isnull=True).order_by("turn", "id")
    own_words = [(answer.response or {}).get("text", "") for answer in answers]
    if remove_spaces(sent_words) != remove_spaces(own_words):
        return False
    answered = InputRequest.objects.filter(run=run, status=InputRequest.Status.ANSWERED, kind=InputRequest.Kind.TOOL)
    return all(is_same_result(sent_calls.get(request.call_id), request) for request in answered)


def remove_spaces(texts: list[str]) -> str:
    """Clients join and trim the pieces of an answer as they like."""
    return "".join("".join(texts).split())


def is_same_result(call: dict[str, JSON] | None, request: InputRequest) -> bool:
    if call is None or call["arguments"] != request.arguments:
        return False
    result = call["result"]
    return result == request.value or parse_result_text(result) == request.value


def parse_result_text(text: str) -> JSON:
    """A result as JSON, if it is JSON that can be stored."""
    if not text:
        return text
    try:
        return parsers.parse_json_body(text.encode())
    except ValueError:
        return text


def parse_hex_uuid(id: str) -> UUID | None:
    try:
        return UUID(hex=id)
    except ValueError:
        return None


def find_own_calls(ids: Collection[UUID], runs: Collection[UUID]) -> set[UUID]:
    """Those of these calls that the agent made in one of the runs."""
    if not ids:
        return set()
    records = ToolCallRecord.objects.filter(run__in=runs, pk__in=ids)
    return set(records.values_list("pk", flat=True))


def find_undecided_turn(user: Any, ids: Collection[UUID]) -> Turn | None:
    """The rest of the run that asked for approval of these calls, or None if none of them did."""
    runs = Run.objects.visible_to(user).select_related(*RUN_JOINS)
    run = runs.filter(approvals__call__in=ids).first()
    # One call of another run, or of nobody, and the results are not this run's.
    if run is None or len(find_own_calls(ids, [run.pk])) != len(ids):
        return None
    texts = [str(id) for id in ids]
    questions = RunEvent.objects.filter(run=run, type="approval.requested", data__call__in=texts)
    last = questions.order_by("-seq").values_list("seq", flat=True).first()
    events.expect_watcher(run.pk)
    return Turn(run, last) if last else None


# -- following ------------------------------------------------------------------------------------------------------


class Pause:
    """Notices from the events when a turn is over: the run ended, or waits for the caller."""

    def __init__(self, *, for_approvals: bool = False) -> None:
        self.for_approvals = for_approvals
        self.open: set[str] = set()

    def ends_with(self, frame: Frame) -> bool:
        if frame.is_last:
            return True
        is_question = frame.type == "input.requested"
        is_approval = frame.type == "approval.requested" and self.for_approvals
        if is_question or is_approval:
            self.open.add(frame.data["id"])
        elif frame.type in ("input.answered", "approval.decided"):
            self.open.discard(frame.data["id"])
        return frame.type == "run.waiting" and bool(self.open)


async def stream_turn_frames(turn: Turn, pause: Pause) -> AsyncIterator[Frame]:
    """The turn's events as they happen, until it is over; heartbeats between them."""
    async for batch in stream.in_batches(turn.run, after=turn.after):
        for frame in batch:
            whole = await in_thread(load_whole_frame, frame) if is_cut(frame) else frame
            yield whole
            if pause.ends_with(whole):
                return


def iterate_stored_frames(turn: Turn) -> Iterator[Frame]:
    """The events since the turn began, whole."""
    rows = RunEvent.objects.filter(run=turn.run, seq__gt=turn.after).select_related("payload").order_by("seq")
    for row in rows.iterator():
        yield build_whole_frame(row)


def iterate_replayed_frames(turn: Turn, pause: Pause) -> Iterator[Frame]:
    """The turn's stored events so far."""
    for frame in iterate_stored_frames(turn):
        yield frame
        if pause.ends_with(frame):
            return


def is_cut(frame: Frame) -> bool:
    """Large data is cut where it is broadcast. Deltas, which are the most frequent, never are."""
    return frame.seq is not None and '"is_cut"' in frame.json_data


def load_whole_frame(frame: Frame) -> Frame:
    row = RunEvent.objects.select_related("payload").get(run_id=frame.run, seq=frame.seq)
    if not row.data.get("is_cut"):
        return frame
    return build_whole_frame(row)


def build_whole_frame(row: RunEvent) -> Frame:
    """The frame of an event; large data stands in a row of its own."""
    data = row.payload.data if row.data.get("is_cut") else row.data
    return Frame.of({**events.serialize_event(row), "data": data})


def build_turn_end(turn: Turn, seconds: float, place: Any, pause: Callable[[], Pause] = Pause) -> waiting.End:
    """The end of the turn, to be waited for at most so long."""

    def is_over() -> bool:
        reader = pause()
        return any(reader.ends_with(frame) for frame in iterate_stored_frames(turn))

    return waiting.End(turn.run.pk, seconds, place, or_else=is_over)
