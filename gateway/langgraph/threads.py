"""Threads are sessions. A checkpoint is a message of the session, or a run in progress."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, islice
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from rest_framework.response import Response

from agents.exceptions import Conflict, NotFound
from agents.http.pagination import ROWS_AT_ONCE
from agents.http.sizes import PAGE_BYTES, check_metadata, within_bytes
from gateway.sse import PERSON
from plumbing import json_values
from runs.exceptions import SessionBusy
from runs.models import Run, Session
from runs.queue import endings

from . import interrupts
from .assistants import assistant_id, parse_assistant_number
from .inputs import add_state_messages
from .state import Checkpoint, build_thread_values, last_run, load_checkpoints
from .views import (
    LangGraphView,
    filter_row_fields,
    next_page,
    parse_choice_field,
    parse_langgraph_fields,
    parse_langgraph_id,
    parse_page_slice,
    parse_sort_order,
    parse_typed_field,
    parse_whole_number,
    read_rows,
    refuse_langgraph_field,
    with_metadata,
)

JSON = Any
COLUMNS = {"thread_id": "pk", "status": "run_status", "created_at": "created_at", "updated_at": "updated_at",
           "state_updated_at": "updated_at"}  # fmt: skip
SELECTABLE = ("thread_id", "created_at", "updated_at", "metadata", "config", "context", "status", "values",
              "interrupts")  # fmt: skip
OF_STATE = ("values", "next", "tasks", "checkpoint", "metadata", "created_at", "parent_checkpoint", "interrupts")
STATELESS = "stateless"  # metadata of the session of a stateless run
NO_TTL = {"ttl": (None,)}
MOST_STATES = 100  # of a thread in one answer
MOST_BYTES = PAGE_BYTES  # of their messages as JSON; one state is always there
STATUSES = {
    "busy": Q(run_status__in=["queued", "running"]) | (Q(run_status="waiting") & ~Q(run_waits__in=PERSON)),
    "interrupted": Q(run_status="waiting", run_waits__in=PERSON),
    "error": Q(run_status__in=["failed", "expired"]),
    "idle": Q(run_status=None) | Q(run_status__in=["succeeded", "partial", "cancelled"]),
}


def build_threads_query(user: Any) -> QuerySet[Session]:
    """With the newest run of each: its status, and its agent if the session has none of its own."""
    newest = Run.objects.filter(session=OuterRef("pk")).exclude(parent__session=OuterRef("pk")).order_by("-id")
    return (
        Session.objects.visible_to(user)
        .select_related("agent")
        .annotate(
            run=Subquery(newest.values("pk")[:1]),
            run_status=Subquery(newest.values("status")[:1]),
            run_waits=Subquery(newest.values("waiting_for")[:1]),
            run_agent=Subquery(newest.values("agent_id")[:1]),
            run_agent_name=Subquery(newest.values("agent__name")[:1]),
        )
    )


def thread_named(user: Any, id: JSON) -> Any:
    thread = build_threads_query(user).filter(pk=parse_langgraph_id(id, "thread")).first()
    if thread is None:
        raise NotFound(f"There is no thread “{str(id)[:80]}” that you can see.")
    return thread


def get_thread_status(session: Any) -> str:
    if session.run_status == "waiting":
        return "interrupted" if session.run_waits in PERSON else "busy"
    return {"queued": "busy", "running": "busy", "failed": "error", "expired": "error"}.get(session.run_status, "idle")


def build_thread_metadata(session: Any) -> dict[str, JSON]:
    """The metadata, and the agent under the names by which clients search for their threads."""
    agent = session.agent_id or session.run_agent
    name = session.agent.name if session.agent_id else session.run_agent_name
    metadata = {key: value for key, value in session.metadata.items() if key != STATELESS}
    return {**metadata, **({"graph_id": name, "assistant_id": assistant_id(agent)} if agent else {})}


def serialize_threads(sessions: Iterable[Any], *, with_values: bool = True) -> list[dict[str, JSON]]:
    """Threads as JSON. The number of queries does not depend on how many there are."""
    rows = list(sessions)
    checkpoints = load_checkpoints(rows) if with_values else {}
    waiting = interrupts.load_open_interrupts([row.run for row in rows if get_thread_status(row) == "interrupted"])
    return [thread_json(row, checkpoints.get(row.pk, []), waiting.get(row.run, [])) for row in rows]


def threads_json(sessions: list[Any], *, with_values: bool) -> Iterator[dict[str, JSON]]:
    """The same, a few threads at a time: messages of those that an answer has no room for are not read."""
    for start in range(0, len(sessions), ROWS_AT_ONCE):
        yield from serialize_threads(sessions[start : start + ROWS_AT_ONCE], with_values=with_values)


def thread_json(session: Any, checkpoints: list[Checkpoint], waiting: list[interrupts.Interrupt]) -> dict[str, JSON]:
    return {
        "thread_id": str(session.pk),
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "state_updated_at": session.updated_at,
        "metadata": build_thread_metadata(session),
        "status": get_thread_status(session),
        "config": {},
        "values": build_thread_values(checkpoints) if checkpoints else None,
        "interrupts": {str(session.run): [one.as_json() for one in waiting]} if waiting else {},
    }


class ThreadsView(LangGraphView):
    """POST /threads"""

    scope = "sessions"

    def post(self, request: Any) -> Response:
        body = parse_langgraph_fields(request.data, ("thread_id", "metadata", "if_exists", "supersteps"), NO_TTL)
        thread_id = id_given(body["thread_id"]) if "thread_id" in body else None
        metadata = parse_typed_field(body, "metadata", dict, {})
        check_metadata(metadata)
        is_lenient = parse_choice_field(body, "if_exists", ("raise", "do_nothing"), "raise") == "do_nothing"
        if thread_id and is_lenient and (thread := build_threads_query(request.user).filter(pk=thread_id).first()):
            return Response(serialize_threads([thread])[0])
        with transaction.atomic():
            session = create_thread_session(request.user, thread_id, metadata)
            for values in parse_superstep_updates(body):
                add_state_messages(request.user, session, values)
        return Response(serialize_threads([thread_named(request.user, session.pk)])[0])


def id_given(text: JSON) -> UUID:
    try:
        return UUID(str(text))
    except ValueError:
        raise refuse_langgraph_field("thread_id", "“thread_id” must be a UUID.")


def create_thread_session(user: Any, id: UUID | None, metadata: dict[str, JSON]) -> Session:
    """A new session. Raises Conflict if the id is taken, by this user or another."""
    named = {"id": id} if id else {}
    try:
        with transaction.atomic():
            return Session.objects.create(owner=user, metadata=metadata, variables={"agent_depth": 0}, **named)
    except IntegrityError:
        raise Conflict(f"The thread id “{id}” is taken.", code="thread_exists", hint="Leave it out, or send another.")


def parse_superstep_updates(body: dict[str, JSON]) -> list[JSON]:
    steps = parse_typed_field(body, "supersteps", list) or []
    updates = [one for step in steps if isinstance(step, dict) for one in step.get("updates") or ()]
    if any(not isinstance(one, dict) or one.get("command") for one in updates):
        raise refuse_langgraph_field("supersteps", "A superstep can only hold values.", "unsupported_field")
    return [one.get("values") for one in updates]


class ThreadSearchView(LangGraphView):
    """POST /threads/search and /threads/count"""

    scopes = {"post": "sessions:read"}
    is_count = False

    def post(self, request: Any) -> Response:
        names = ("metadata", "ids", "status", "limit", "offset", "sort_by", "sort_order", "order_by", "select")
        body = parse_langgraph_fields(request.data, names, {"values": (None, {}), "extract": (None, {})})
        rows = filter_threads(request.user, body)
        if self.is_count:
            return Response(rows.count())
        page, headers = read_rows(rows.order_by(*parse_sort_order(body, COLUMNS, "updated_at")), body)
        needs_values = "values" in parse_typed_field(body, "select", list, ["values"])
        threads = list(within_bytes(threads_json(page, with_values=needs_values)))
        if len(threads) < len(page):
            headers = next_page(parse_page_slice(body).start + len(threads))
        return Response(filter_row_fields(threads, body, SELECTABLE), headers=headers)


def filter_threads(user: Any, body: dict[str, JSON]) -> QuerySet[Session]:
    rows = build_threads_query(user).exclude(metadata__has_key=STATELESS)
    metadata = {**parse_typed_field(body, "metadata", dict, {})}
    if "graph_id" in metadata:
        graph = str(metadata.pop("graph_id")).replace("\0", "")
        rows = rows.filter(build_agent_condition(Q(agent__name=graph)) | Q(metadata__graph_id=graph))
    if "assistant_id" in metadata:
        rows = rows.filter(
            build_agent_condition(Q(agent=parse_assistant_number(str(metadata.pop("assistant_id"))) or 0))
        )
    if ids := parse_typed_field(body, "ids", list):
        rows = rows.filter(pk__in=[parse_langgraph_id(one, "thread") for one in ids[:1000]])
    if "status" in body:
        rows = rows.filter(STATUSES[parse_choice_field(body, "status", STATUSES, "idle")])
    return with_metadata(rows, metadata)


def build_agent_condition(agent: Q) -> Q:
    """Sessions of this agent, and those without one where it has worked."""
    return agent | Q(Exists(Run.objects.filter(agent, session=OuterRef("pk"))), agent=None)


class ThreadView(LangGraphView):
    """GET, PATCH and DELETE /threads/{id}"""

    scope = "sessions"
    parameters = {"get": ("include",)}

    def get(self, request: Any, id: str) -> Response:
        return Response(serialize_threads([thread_named(request.user, id)])[0])

    def patch(self, request: Any, id: str) -> Response:
        body = parse_langgraph_fields(request.data, ("metadata",), NO_TTL)
        session = thread_named(request.user, id)
        with transaction.atomic():
            row = Session.objects.select_for_update().get(pk=session.pk)
            row.metadata = {**row.metadata, **parse_typed_field(body, "metadata", dict, {})}
            check_metadata(row.metadata)
            row.save(update_fields=["metadata", "updated_at"])
        return Response(serialize_threads([thread_named(request.user, id)])[0])

    def delete(self, request: Any, id: str) -> Response:
        session = thread_named(request.user, id)
        endings.delete_session(session, by=request.user, reason="its thread was deleted")
        return Response(status=204)


class CopyView(LangGraphView):
    """POST /threads/{id}/copy: a new thread with the same messages."""

    scope = "sessions"

    def post(self, request: Any, id: str) -> Response:
        session = thread_named(request.user, id)
        fork = session.fork(before=session.last_seq + 1)
        return Response(serialize_threads([thread_named(request.user, fork.pk)])[0])


# -- states ---------------------------------------------------------------------------------------------------------


class StateView(LangGraphView):
    """GET /threads/{id}/state and /threads/{id}/state/{checkpoint}; POST adds messages."""

    scope = "sessions"
    parameters = {"get": ("subgraphs", "select")}

    def get(self, request: Any, id: str, checkpoint: str = "") -> Response:
        return Response(load_checkpoint_state(thread_named(request.user, id), checkpoint))

    def post(self, request: Any, id: str) -> Response:
        nodes = (None, "__start__", "__input__", "model", "__end__")
        body = parse_langgraph_fields(request.data, ("values", "checkpoint", "checkpoint_id"), {"as_node": nodes})
        session = thread_named(request.user, id)
        require_latest(session, body)
        if "values" not in body:
            return Response(load_checkpoint_state(session, ""))
        with transaction.atomic():
            row = Session.objects.select_for_update(of=("self",)).get(pk=session.pk)
            if busy := endings.session_is_busy(row):
                raise SessionBusy(hint="Wait for its run, or cancel it.", details=[{"run": str(busy.pk)}])
            add_state_messages(request.user, row, body["values"])
        state = load_checkpoint_state(thread_named(request.user, id), "")
        return Response({"checkpoint": state["checkpoint"], "configurable": state["checkpoint"]})


class CheckpointView(LangGraphView):
    """POST /threads/{id}/state/checkpoint"""

    scopes = {"post": "sessions:read"}

    def post(self, request: Any, id: str) -> Response:
        body = parse_langgraph_fields(request.data, ("checkpoint", "subgraphs", "select"))
        checkpoint = parse_typed_field(body, "checkpoint", dict, {}).get("checkpoint_id")
        return Response(load_checkpoint_state(thread_named(request.user, id), str(checkpoint or "")))


class HistoryView(LangGraphView):
    """POST /threads/{id}/history: the states, newest first."""

    scope = "sessions"
    scopes = {"post": "sessions:read"}
    parameters = {"get": ("limit", "before")}

    def get(self, request: Any, id: str) -> Response:
        return self.answer(request, id, request.query_params.dict())

    def post(self, request: Any, id: str) -> Response:
        names = ("limit", "before", "metadata", "select", "checkpoint")
        return self.answer(request, id, parse_langgraph_fields(request.data, names))

    def answer(self, request: Any, id: str, body: dict[str, JSON]) -> Response:
        session = thread_named(request.user, id)
        before = body.get("before")
        before = str(before.get("checkpoint_id", "") if isinstance(before, dict) else before or "")
        metadata = parse_typed_field(body, "metadata", dict, {})
        most = min(max(1, parse_whole_number(body, "limit", 10)), MOST_STATES)
        states = list(islice(iterate_thread_states(session, before, metadata=metadata), most))
        return Response(filter_row_fields(states, body, OF_STATE))


def require_latest(session: Any, body: dict[str, JSON]) -> None:
    """A thread has one line of messages: work goes on from its end. An earlier checkpoint is good as long as no
    reply follows it, as after a run that was cancelled.
    """
    named = parse_typed_field(body, "checkpoint", dict, {}).get("checkpoint_id") or body.get("checkpoint_id")
    if not named:
        return
    checkpoints = load_checkpoints([session])[session.pk]
    places = [place for place, one in enumerate(checkpoints) if str(one.id) == named]
    if not places:
        raise NotFound(f"This thread has no checkpoint “{str(named)[:80]}”.")
    if any(one.is_reply for one in checkpoints[places[0] + 1 :]):
        message = f"A run continues from the thread's latest checkpoint, {checkpoints[-1].id}."
        raise refuse_langgraph_field(
            "checkpoint", f"{message} Copy the thread to try something else.", "unsupported_field"
        )


def load_checkpoint_state(session: Any, checkpoint: str) -> dict[str, JSON]:
    state = next(iterate_thread_states(session, "", only=checkpoint), None)
    if state is None and checkpoint:
        raise NotFound(f"This thread has no checkpoint “{checkpoint[:80]}”.")
    return state or state_json(session, [], 0, None, [])


def iterate_thread_states(
    session: Any, before: str, *, only: str = "", metadata: Mapping[str, JSON] | None = None
) -> Iterator[dict[str, JSON]]:
    """The state after each message of the thread, newest first, from before a checkpoint. Each holds all messages up
    to then, so they are made one by one, as far as there is room.
    """
    checkpoints = load_checkpoints([session])[session.pk]
    run = last_run(session)
    waiting = interrupts.load_open_interrupts([run.pk])[run.pk] if run and not run.is_done else []
    places = [place for place, one in enumerate(checkpoints) if str(one.id) == before] if before else []
    if before and not places:
        raise NotFound(f"This thread has no checkpoint “{before[:80]}”.")
    until, room = places[0] if places else len(checkpoints), MOST_BYTES
    sizes = list(accumulate(map(measure_checkpoint, checkpoints)))
    for place in range(until - 1, -1, -1):
        about = about_state(session, checkpoints[place], place)
        is_wanted = all(about.get(key) == value for key, value in (metadata or {}).items())
        if is_wanted and only in ("", str(checkpoints[place].id)):
            is_last = place + 1 == len(checkpoints)
            yield state_json(session, checkpoints[: place + 1], place, run, waiting if is_last else [])
            room -= sizes[place]
            if room < sizes[place - 1]:
                return


def measure_checkpoint(checkpoint: Checkpoint) -> int:
    return len(json_values.dump_json(checkpoint.messages))


def about_state(session: Any, checkpoint: Checkpoint | None, step: int) -> dict[str, JSON]:
    """Its metadata."""
    run = {"run_id": str(checkpoint.run)} if checkpoint and checkpoint.run else {}
    return {"source": "input" if step == 0 else "loop", "step": step, "thread_id": str(session.pk), **run}


def state_json(
    session: Any, checkpoints: list[Checkpoint], step: int, run: Run | None, waiting: list[interrupts.Interrupt]
) -> dict[str, JSON]:
    last = checkpoints[-1] if checkpoints else None
    in_progress = bool(last and run and run.pk == last.run and not run.is_done)
    follows = ["tools" if waiting else "model"] if in_progress else []
    interrupts_json = [one.as_json() for one in waiting]
    task = {"id": str(run.pk) if run else "", "name": follows[0] if follows else "", "path": [], "error": None,
            "interrupts": interrupts_json, "checkpoint": None, "state": None, "result": None}  # fmt: skip
    return {
        "values": build_thread_values(checkpoints),
        "next": follows,
        "tasks": [task] if follows else [],
        "interrupts": interrupts_json,
        "checkpoint": checkpoint_json(session, last),
        "parent_checkpoint": checkpoint_json(session, checkpoints[-2]) if len(checkpoints) > 1 else None,
        "metadata": about_state(session, last, step),
        "created_at": last.at if last else session.created_at,
    }  # fmt: skip


def checkpoint_json(session: Any, checkpoint: Checkpoint | None) -> dict[str, JSON]:
    id = str(checkpoint.id) if checkpoint else None
    return {"thread_id": str(session.pk), "checkpoint_ns": "", "checkpoint_id": id, "checkpoint_map": None}
