"""Continue a conversation from the end of any of its turns, as often as a caller likes.

A turn that is the last word of its session is continued in it, and a run that waits for the caller's results gets
them, if the request asks for the same as the run did. Everything else is a branch: a new session with the
conversation up to that turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.exceptions import Conflict, Invalid
from gateway import histories, turns
from gateway.histories import SentMessage
from gateway.turns import Pause, Turn
from runs.calls import model_messages
from runs.exceptions import AlreadyAnswered, SessionBusy
from runs.models import InputRequest, Message, ModelCall, Run, RunEvent, Session, ToolCallRecord
from runs.queue import endings

JSON = Any


@dataclass(slots=True)
class Point:
    """Where a turn ended: its last event, the caller's calls that it left open (their names by their ids), and whether
    its run ended in it.
    """

    turn: Turn
    last_event: int = 0
    open: dict[UUID, str] = field(default_factory=dict)
    is_over: bool = False


def find_point(turn: Turn) -> Point:
    """Where this turn has ended, read from its events: its last event, and the calls that the caller was to answer."""
    point = Point(turn)
    # The calls by the ids of the questions about them.
    calls: dict[str, UUID] = {}
    for frame in turns.iterate_replayed_frames(turn, Pause(for_approvals=True)):
        data = frame.data
        point.last_event = frame.seq or point.last_event
        point.is_over = frame.is_last
        if frame.type == "input.requested" and data["kind"] == InputRequest.Kind.TOOL:
            call = UUID(data["call"])
            calls[data["id"]] = call
            point.open[call] = data["name"]
        elif frame.type == "input.answered" and data["id"] in calls:
            point.open.pop(calls[data["id"]], None)
    return point


def find_asking_turn(user: Any, ids: Sequence[UUID]) -> Turn | None:
    """The turn that ended with these calls of the caller's tools, if it is this person's."""
    joins = [f"run__{name}" for name in turns.RUN_JOINS]
    requests = InputRequest.objects.visible_to(user).filter(call_id__in=ids, kind=InputRequest.Kind.TOOL)
    request = requests.select_related(*joins).order_by("pk").first()
    if request is None:
        return None
    run_events = RunEvent.objects.filter(run=request.run_id)
    question = run_events.filter(type="input.requested", data__call=str(request.call_id)).first()
    if question is None:
        return None
    # A turn begins where the answers of the one before were stored.
    answers = run_events.filter(type="input.answered", seq__lt=question.seq)
    begins = answers.order_by("-seq").values_list("seq", flat=True).first()
    return Turn(request.run, begins or 0)


def continue_turn(
    turn: Turn,
    *,
    results: Mapping[UUID, JSON],
    earlier: list[SentMessage],
    parts: list[dict[str, JSON]],
    has_pictures: bool,
    model: str,
    more: dict[str, Any],
    **start: Any,
) -> Turn:
    """The next turn after this one. `results`: of the caller's calls, whose pictures are in `earlier`; `parts`: the
    person's message, empty if there is none; `more` and `start` as for turns.start_turn. Raises Invalid
    (missing_result, unknown_call), Conflict, and what turns.start_turn raises.
    """
    user = start["user"]
    point = find_point(turn)
    if results and not point.open:
        undecided = turns.find_undecided_turn(user, set(results))
        if undecided:
            return undecided
    results = select_open_results(point, results)
    has_results_alone = not earlier and not parts and not has_pictures
    if point.open and has_results_alone and can_answer_run(point, model, more):
        try:
            return turns.answer_waiting_run(user, results)
        except AlreadyAnswered:
            pass  # by the same request, sent twice at once: this one is done anew
    start |= {"agent": model, "earlier": earlier, "parts": parts, "continues": not parts, **more}
    if not point.open and not earlier and parts:
        return continue_session(point, start)
    if not point.open and not point.is_over:
        raise SessionBusy(hint="Wait for the previous response to end.")
    return start_branch(point, results, start)


def select_open_results(point: Point, results: Mapping[UUID, JSON]) -> dict[UUID, JSON]:
    """The results of the open calls. As with OpenAI's servers, each of them needs one. Results of the agent's own
    calls, which some clients send along, are left out. Raises Invalid for others, and for one that is missing.
    """
    missing = [id for id in point.open if id not in results]
    if missing:
        calls = ", ".join(f"call_{id.hex}" for id in missing[:5])
        raise Invalid(f"Each call of the assistant needs its result; it is missing for {calls}.", code="missing_result")
    others = {id for id in results if id not in point.open}
    unknown = others - turns.find_own_calls(others, [point.turn.run.pk])
    if unknown:
        raise Invalid(f"There is no call “call_{min(unknown).hex}” that waits for you.", code="unknown_call")
    return {id: results[id] for id in point.open}


def can_answer_run(point: Point, model: str, more: dict[str, Any]) -> bool:
    """Whether the run waits for exactly these calls, and the request asks for the same agent, options and tools."""
    run = point.turn.run
    waits_for = set(run.inputs.open().values_list("call_id", flat=True))
    if waits_for != set(point.open):
        return False
    return turns.has_same_wishes(run, model, more)


def continue_session(point: Point, start: dict[str, Any]) -> Turn:
    """Start the next turn in the turn's own session, if nothing has happened there since; else in a branch."""
    run = point.turn.run
    assert run.session is not None
    with transaction.atomic():
        session = Session.objects.select_for_update().get(pk=run.session.pk)
        is_last = not point.is_over or session.last_seq == get_last_message_number(run)
        if is_last and (not point.is_over or not endings.session_is_busy(session)):
            session_start = {name: value for name, value in start.items() if name != "earlier"}
            return turns.start_turn(**session_start, session=run.session)
    return start_branch(point, {}, {**start, "earlier": []})


def get_last_message_number(run: Run, **conditions: Any) -> int:
    """The number of the run's last message in its session; 0 if there is none."""
    rows = Message.objects.filter(run=run, session=run.session_id, **conditions)
    last = rows.order_by("-seq").values_list("seq", flat=True).first()
    return last or 0


@transaction.atomic
def start_branch(point: Point, results: Mapping[UUID, JSON], start: dict[str, Any]) -> Turn:
    """Start the next turn in a new session. A run that waited for these results is ended."""
    run = point.turn.run
    assert run.session is not None
    if point.is_over:
        last = get_last_message_number(run)
    else:
        last = get_last_message_number(run, role=Message.Role.USER)
    if not last:
        raise Conflict(
            "The message of the previous response was deleted.",
            code="session_deleted",
            hint="Leave out previous_response_id to begin another one.",
        )
    session = run.session.fork(before=last + 1)
    if not point.is_over:
        # The run has no reply in the session yet: what it said so far is added.
        new_messages = list_made_messages(point, results)
        histories.add_made(session, new_messages, is_untrusted=run.has_untrusted)
    histories.add_sent(session, start.pop("earlier"))
    if point.open and not run.is_done:
        turns.cancel_left_run(run, start["user"])
    return turns.start_turn(**start, session=session)


def list_made_messages(point: Point, results: Mapping[UUID, JSON]) -> list[SentMessage]:
    """What the run said and called up to this point. Calls that it made for the caller have these results."""
    run = point.turn.run
    answered = RunEvent.objects.filter(run=run, type="model.finished", seq__lte=point.last_event)
    last_turn = answered.order_by("-seq").values_list("data__turn", flat=True).first() or 0
    records_by_turn: dict[int, list[ToolCallRecord]] = {}
    for record in model_messages.list_model_calls(run):
        records_by_turn.setdefault(record.turn, []).append(record)
    answers = ModelCall.objects.filter(run=run, error__isnull=True, turn__lte=last_turn)
    messages = []
    for answer in answers.order_by("turn", "id"):
        text = (answer.response or {}).get("text")
        if text:
            messages.append(SentMessage("assistant", [{"type": "text", "text": text}]))
        records = records_by_turn.get(answer.turn, ())
        calls = [build_message_call(record, results) for record in records]
        if calls:
            messages.append(SentMessage("assistant", [{"type": "text", "text": ""}], calls))
    return messages


def build_message_call(record: ToolCallRecord, results: Mapping[UUID, JSON]) -> dict[str, JSON]:
    """A call in the form of Message.tool_calls, as the model made it."""
    # The record is changed in memory alone, so that its text is made as for every call.
    if record.pk in results:
        record.result = results[record.pk]
        record.outcome = ToolCallRecord.Outcome.OK
        record.untrusted = True
    elif not record.outcome:
        record.outcome = ToolCallRecord.Outcome.DENIED
        record.error = {"code": "denied", "message": "It was not made."}
    return {
        "id": model_messages.call_id(record),
        "name": record.name,
        "arguments": record.arguments,
        "result": model_messages.result_text(record),
    }
