"""Starts a run in a thread, or answers what the thread's run waits for."""

from typing import Any

from django.db import transaction

from agents.exceptions import Conflict
from agents.http.authentication import find_key
from agents.models import Agent
from gateway import turns
from gateway.sse import PERSON
from gateway.turns import Turn
from runs.exceptions import RunFinished
from runs.models import Run, Session
from runs.models.session import join_part_texts
from runs.queue import endings

from . import inputs, interrupts
from .assistants import find_agent
from .state import load_thread_messages
from .streams import MODES
from .threads import STATELESS, check_latest_checkpoint, create_thread_session, load_thread, parse_thread_id
from .views import parse_choice_field, parse_langgraph_fields, parse_typed_field, refuse_langgraph_field

JSON = Any
FIELDS = ("assistant_id", "input", "command", "metadata", "config", "context", "stream_mode", "checkpoint",
          "checkpoint_id", "multitask_strategy", "if_not_exists", "on_disconnect", "on_completion")  # fmt: skip
# Other fields, with the values that change nothing here: streams can always be joined again, every step is stored, and
# there are no subgraphs.
NEUTRAL: dict[str, tuple[JSON, ...]] = {
    "stream_subgraphs": (False, True), "stream_resumable": (False, True), "durability": ("sync", "async", "exit"),
    "checkpoint_during": (False, True), "interrupt_before": ([],), "interrupt_after": ([],), "feedback_keys": ([],),
    "after_seconds": (0,), "strict_resume": (False, True), "webhook": (), "langsmith_tracer": (),
}  # fmt: skip
# Where a run's metadata keeps how it was queued.
STRATEGY = "langgraph_strategy"
# LangGraph's name for the end of a graph.
END = "__end__"


def start_thread_turn(request: Any, thread: JSON, body: JSON, *, is_watched: bool = False) -> Turn:
    """Start a run in the thread, or answer what its run waits for. Raises Invalid and what the intake raises."""
    body = parse_langgraph_fields(body, FIELDS, NEUTRAL)
    parse_stream_modes(body.get("stream_mode"))
    agent = find_agent(request.user, body.get("assistant_id"))
    command = parse_typed_field(body, "command", dict, {})
    if command and body.get("input"):
        raise refuse_langgraph_field("command", "Send “input” or “command”, not both.")
    # A refused run leaves no thread behind.
    with transaction.atomic():
        session = open_run_thread(request.user, thread, body)
        check_latest_checkpoint(session, body)
        if command:
            return handle_thread_command(request, session, command)
        return start_thread_run(request, session, agent, body, is_watched)


def open_run_thread(user: Any, thread: JSON, body: dict[str, JSON]) -> Session:
    """The session of the thread; for a run without a thread a new one."""
    if thread is None:
        on_completion = parse_choice_field(body, "on_completion", ("delete", "keep"), "delete")
        metadata = {STATELESS: True} if on_completion == "delete" else {}
        # It is stored with its first message.
        return Session(owner=user, metadata=metadata, variables={"agent_depth": 0})
    if_not_exists = parse_choice_field(body, "if_not_exists", ("create", "reject"), "reject")
    if if_not_exists == "reject":
        return load_thread(user, thread)
    thread_id = parse_thread_id(thread)
    session = Session.objects.visible_to(user).filter(pk=thread_id).first()
    return session or create_thread_session(user, thread_id, {})


def handle_thread_command(request: Any, session: Session, command: dict[str, JSON]) -> Turn:
    """Resume what waits in the thread, or cancel what runs in it. Raises Invalid, Conflict."""
    fields = parse_langgraph_fields(command, ("resume", "goto"), {"update": ([], {}), "goto": ([],)})
    run = find_live_run(session)
    if "resume" in fields:
        return interrupts.resume_interrupted_run(request, run, fields["resume"])
    if fields.get("goto") not in (END, [END]):
        message = "A command can resume an interrupt, or go to __end__."
        raise refuse_langgraph_field("command", message, "unsupported_field")
    if run is None:
        hint = "Start a run with an input instead."
        raise Conflict("Nothing is running in this thread.", code="not_running", hint=hint)
    cancel_thread_run(run, by=request.user, action="interrupt")
    run.refresh_from_db()
    return Turn(run)


def find_live_run(session: Session) -> Run | None:
    """The run that is queued, at work or waiting in the session, with the joins that a turn needs."""
    if session._state.adding:
        return None
    live_run = endings.session_is_busy(session)
    if live_run is None:
        return None
    return Run.objects.select_related(*turns.RUN_JOINS).get(pk=live_run.pk)


def start_thread_run(
    request: Any, session: Session, agent: Agent | None, body: dict[str, JSON], is_watched: bool
) -> Turn:
    """Start a run with the new messages of the input, or answer the calls that the thread's run waits for."""
    is_new = session._state.adding
    stored_ids = set()
    if not is_new:
        stored_ids = {message["id"] for message in load_thread_messages(session)}
    # Some clients send the whole thread again: the messages that it has already are left out.
    content = inputs.parse_graph_input(body.get("input"), stored_ids)
    live_run = find_live_run(session)
    if live_run is not None and content.results:
        answers = filter_awaited_results(live_run, content.results)
        if answers:
            return turns.answer_waiting_run(request.user, answers)
    if not content.messages or content.messages[-1].role != "user":
        raise refuse_langgraph_field("input.messages", "The last new message must be of type human.", "no_message")
    message = content.messages[-1]
    title = join_part_texts(message.parts)[:80].strip()
    if is_new:
        session.title = title
    inputs.add_checked_messages(request.user, session, content.messages[:-1])
    strategy = parse_multitask_strategy(body)
    on_busy = strategy
    if live_run is not None and live_run.status == Run.Status.WAITING and live_run.waiting_for in PERSON:
        # A new message takes the place of what waited for an answer.
        on_busy = "interrupt"
    options = parse_langgraph_options(body)
    metadata = parse_typed_field(body, "metadata", dict, {})
    turn = turns.start_turn(
        user=request.user,
        key=find_key(request),
        agent=agent,
        parts=message.parts,
        session=session,
        is_watched=is_watched,
        input=content.more or None,
        on_busy=on_busy,
        asked=options or None,
        metadata={**metadata, STRATEGY: strategy},
    )
    # A thread that was made without a message gets its title with the first one.
    if not session.title:
        Session.objects.filter(pk=session.pk, title="").update(title=title)
    return turn


def filter_awaited_results(run: Run, results: dict[str, JSON]) -> dict[Any, JSON]:
    """Results of calls that the run waits for, by the ids of the calls."""
    open_calls = {str(request.call_id): request.call_id for request in run.inputs.open()}
    awaited = {}
    for call_id, value in results.items():
        if call_id in open_calls:
            awaited[open_calls[call_id]] = value
    return awaited


def parse_multitask_strategy(body: dict[str, JSON]) -> str:
    if body.get("multitask_strategy") == "rollback":
        message = "“rollback” would delete a run, and Muster keeps runs as history. Use “interrupt”."
        raise refuse_langgraph_field("multitask_strategy", message, "unsupported_field")
    return parse_choice_field(body, "multitask_strategy", ("enqueue", "reject", "interrupt"), "enqueue")


def parse_langgraph_options(body: dict[str, JSON]) -> dict[str, JSON]:
    """The options of the message: the context is the agent's variables, the recursion limit its `max_steps`."""
    config = parse_typed_field(body, "config", dict, {})
    config = parse_langgraph_fields(config, ("configurable", "recursion_limit", "tags", "metadata"))
    # Older clients send the variables among LangGraph's own keys.
    own_keys = ("thread_id", "run_id", "assistant_id", "graph_id", "checkpoint_id", "checkpoint_ns", "user_id")
    configurable = parse_typed_field(config, "configurable", dict, {})
    variables = {name: value for name, value in configurable.items() if name not in own_keys}
    variables.update(parse_typed_field(body, "context", dict, {}))
    options: dict[str, JSON] = {}
    if variables:
        options["variables"] = variables
    limit = parse_typed_field(config, "recursion_limit", int)
    if limit is not None:
        options["max_steps"] = max(1, min(limit, 200))
    return options


def parse_stream_modes(value: JSON) -> set[str]:
    """The modes of a mode or a list of them; without one, of `values`. Raises Invalid."""
    names = value or ["values"]
    if isinstance(value, str):
        names = [value]
    if not isinstance(names, list):
        raise refuse_langgraph_field("stream_mode", "“stream_mode” must be a mode or a list of them.")
    for name in names:
        if name not in MODES:
            message = f"There is no mode “{str(name)[:40]}”: {', '.join(MODES)}."
            raise refuse_langgraph_field("stream_mode", message, "unsupported_field")
    return set(names)


def cancel_thread_run(run: Run, *, by: Any, action: str) -> None:
    """Cancel the run; LangGraph's other action would delete it. Raises Invalid."""
    if action != "interrupt":
        message = "A run can be interrupted: Muster keeps it as history."
        raise refuse_langgraph_field("action", message, "unsupported_field")
    try:
        endings.cancel_run(run, by=by, reason="cancelled by the caller")
    except RunFinished:
        pass  # it was about to end anyway
