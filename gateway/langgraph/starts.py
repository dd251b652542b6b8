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
from runs.models.session import text_of
from runs.queue import endings

from . import inputs, interrupts
from .assistants import agent_named
from .state import messages_of
from .streams import MODES
from .threads import STATELESS, id_given, opened, require_latest, thread_named
from .views import chosen, fields_in, refused, typed

JSON = Any
FIELDS = ("assistant_id", "input", "command", "metadata", "config", "context", "stream_mode", "checkpoint",
          "checkpoint_id", "multitask_strategy", "if_not_exists", "on_disconnect", "on_completion")  # fmt: skip
# Values that change nothing here: streams can always be joined again, every step is stored, there are no subgraphs.
NEUTRAL: dict[str, tuple[JSON, ...]] = {
    "stream_subgraphs": (False, True), "stream_resumable": (False, True), "durability": ("sync", "async", "exit"),
    "checkpoint_during": (False, True), "interrupt_before": ([],), "interrupt_after": ([],), "feedback_keys": ([],),
    "after_seconds": (0,), "strict_resume": (False, True), "webhook": (), "langsmith_tracer": (),
}  # fmt: skip
STRATEGY = "langgraph_strategy"  # where a run's metadata keeps how it was queued
END = "__end__"


def started(request: Any, thread: JSON, body: JSON, *, is_watched: bool = False) -> Turn:
    """Start a run in the thread, or answer what its run waits for. Raises Invalid and what the intake raises."""
    body = fields_in(body, FIELDS, NEUTRAL)
    modes_in(body.get("stream_mode"))
    agent = agent_named(request.user, body.get("assistant_id"))
    command = typed(body, "command", dict, {})
    if command and body.get("input"):
        raise refused("command", "Send “input” or “command”, not both.")
    with transaction.atomic():  # a refused run leaves no thread behind
        session = thread_for(request.user, thread, body)
        require_latest(session, body)
        if command:
            return commanded(request, session, command)
        return begun(request, session, agent, body, is_watched)


def thread_for(user: Any, thread: JSON, body: dict[str, JSON]) -> Session:
    if thread is None:
        keeps = chosen(body, "on_completion", ("delete", "keep"), "delete") == "keep"
        metadata = {} if keeps else {STATELESS: True}
        return Session(owner=user, metadata=metadata, variables={"agent_depth": 0})  # stored with its first message
    if chosen(body, "if_not_exists", ("create", "reject"), "reject") == "create":
        id = id_given(thread)
        session = Session.objects.visible_to(user).filter(pk=id).first()
        return session or opened(user, id, {})
    return thread_named(user, thread)


def commanded(request: Any, session: Session, command: dict[str, JSON]) -> Turn:
    fields = fields_in(command, ("resume", "goto"), {"update": ([], {}), "goto": ([],)})
    run = live_run(session)
    if "resume" in command and command["resume"] is not None:
        return interrupts.resume(request, run, command["resume"])
    if fields.get("goto") not in (END, [END]):
        raise refused("command", "A command can resume an interrupt, or go to __end__.", "unsupported_field")
    if run is None:
        raise Conflict(
            "Nothing is running in this thread.", code="not_running", hint="Start a run with an input instead."
        )
    stopped(run, by=request.user, action="interrupt")
    run.refresh_from_db()
    return Turn(run)


def live_run(session: Session) -> Run | None:
    if session._state.adding:
        return None
    busy = endings.session_is_busy(session)
    return Run.objects.select_related(*turns.RUN_JOINS).get(pk=busy.pk) if busy else None


def begun(request: Any, session: Session, agent: Agent | None, body: dict[str, JSON], is_watched: bool) -> Turn:
    stored_ids = set() if session._state.adding else {message["id"] for message in messages_of(session)}
    content = inputs.read(body.get("input"), stored_ids)
    waits = live_run(session)
    if waits is not None and content.results and (answers := results_of(waits, content.results)):
        return turns.answer(request.user, answers)
    if not content.messages or content.messages[-1].role != "user":
        raise refused("input.messages", "The last new message must be of type human.", "no_message")
    title = text_of(content.messages[-1].parts)[:80].strip()
    if session._state.adding:
        session.title = title
    inputs.add(request.user, session, content.messages[:-1])
    parts, strategy = content.messages[-1].parts, strategy_in(body)
    if waits is not None and waits.status == Run.Status.WAITING and waits.waiting_for in PERSON:
        on_busy = "interrupt"  # a new message takes the place of what waited for an answer
    else:
        on_busy = strategy
    turn = turns.begin(
        user=request.user,
        key=find_key(request),
        agent=agent,
        parts=parts,
        session=session,
        is_watched=is_watched,
        input=content.more or None,
        on_busy=on_busy,
        asked=options_in(body) or None,
        metadata={**typed(body, "metadata", dict, {}), STRATEGY: strategy},
    )
    if not session.title:
        Session.objects.filter(pk=session.pk, title="").update(title=title)
    return turn


def results_of(run: Run, results: dict[str, JSON]) -> dict[Any, JSON]:
    """Results of calls that the run waits for, by the ids of the calls."""
    open_ones = {str(request.call_id): request.call_id for request in run.inputs.open()}
    return {open_ones[id]: value for id, value in results.items() if id in open_ones}


def strategy_in(body: dict[str, JSON]) -> str:
    if body.get("multitask_strategy") == "rollback":
        message = "“rollback” would delete a run, and Muster keeps runs as history. Use “interrupt”."
        raise refused("multitask_strategy", message, "unsupported_field")
    return chosen(body, "multitask_strategy", ("enqueue", "reject", "interrupt"), "enqueue")


def options_in(body: dict[str, JSON]) -> dict[str, JSON]:
    """The context is the agent's variables, and the recursion limit its most steps."""
    config = fields_in(typed(body, "config", dict, {}), ("configurable", "recursion_limit", "tags", "metadata"))
    own = ("thread_id", "run_id", "assistant_id", "graph_id", "checkpoint_id", "checkpoint_ns", "user_id")
    configurable = {name: value for name, value in typed(config, "configurable", dict, {}).items() if name not in own}
    options: dict[str, JSON] = {}
    if variables := {**configurable, **typed(body, "context", dict, {})}:
        options["variables"] = variables
    if (most := typed(config, "recursion_limit", int)) is not None:
        options["max_steps"] = max(1, min(most, 200))
    return options


def modes_in(value: JSON) -> set[str]:
    names = [value] if isinstance(value, str) else value or ["values"]
    if not isinstance(names, list):
        raise refused("stream_mode", "“stream_mode” must be a mode or a list of them.")
    if unknown := [str(name) for name in names if name not in MODES]:
        raise refused("stream_mode", f"There is no mode “{unknown[0][:40]}”: {', '.join(MODES)}.", "unsupported_field")
    return set(names)


def stopped(run: Run, *, by: Any, action: str) -> None:
    if action != "interrupt":
        raise refused("action", "A run can be interrupted: Muster keeps it as history.", "unsupported_field")
    try:
        endings.cancel(run, by=by, reason="cancelled by the caller")
    except RunFinished:
        pass
