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
from .assistants import build_assistant_id, parse_assistant_number
from .inputs import add_state_messages
from .state import Checkpoint, build_thread_values, find_last_run, load_checkpoints
from .views import (
    LangGraphView,
    build_next_page_headers,
    filter_by_metadata,
    filter_row_fields,
    parse_choice_field,
    parse_langgraph_fields,
    parse_langgraph_id,
    parse_page_slice,
    parse_sort_order,
    parse_typed_field,
    parse_whole_number,
    read_rows,
    refuse_langgraph_field,
)

JSON = Any
COLUMNS = {"thread_id": "pk", "status": "run_status", "created_at": "created_at", "updated_at": "updated_at",
           "state_updated_at": "updated_at"}  # fmt: skip
SELECTABLE = ("thread_id", "created_at", "updated_at", "metadata", "config", "context", "status", "values",
              "interrupts")  # fmt: skip
OF_STATE = ("values", "next", "tasks", "checkpoint", "metadata", "created_at", "parent_checkpoint", "interrupts")
# The key in the metadata of a session that marks a stateless run's.
STATELESS = "stateless"
NO_TTL = {"ttl": (None,)}
# States of a thread in one answer.
MOST_STATES = 100
# Bytes of their messages as JSON. One state is always there.
MOST_BYTES = PAGE_BYTES
STATUSES = {
    "busy": Q(run_status__in=["queued", "running"]) | (Q(run_status="waiting") & ~Q(run_waits__in=PERSON)),
    "interrupted": Q(run_status="waiting", run_waits__in=PERSON),
    "error": Q(run_status__in=["failed", "expired"]),
    "idle": Q(run_status=None) | Q(run_status__in=["succeeded", "partial", "cancelled"]),
}


def build_threads_query(user: Any) -> QuerySet[Session]:
    """With the newest run of each: its status, and its agent if the session has none of its own."""
    runs = Run.objects.filter(session=OuterRef("pk")).exclude(parent__session=OuterRef("pk"))
    newest = runs.order_by("-id")
    sessions = Session.objects.visible_to(user).select_related("agent")
    return sessions.annotate(
        run=Subquery(newest.values("pk")[:1]),
        run_status=Subquery(newest.values("status")[:1]),
        run_waits=Subquery(newest.values("waiting_for")[:1]),
        run_agent=Subquery(newest.values("agent_id")[:1]),
        run_agent_name=Subquery(newest.values("agent__name")[:1]),
    )


def load_thread(user: Any, id: JSON) -> Any:
    """The person's thread with its newest run. Raises Invalid, NotFound."""
    thread_id = parse_langgraph_id(id, "thread")
    thread = build_threads_query(user).filter(pk=thread_id).first()
    if thread is None:
        raise NotFound(f"There is no thread “{str(id)[:80]}” that you can see.")
    return thread


def get_thread_status(session: Any) -> str:
    status = session.run_status
    if status == "waiting":
        return "interrupted" if session.run_waits in PERSON else "busy"
    if status in ("queued", "running"):
        return "busy"
    if status in ("failed", "expired"):
        return "error"
    return "idle"


def build_thread_metadata(session: Any) -> dict[str, JSON]:
    """The metadata, and the agent under the names by which clients search for their threads."""
    metadata = {key: value for key, value in session.metadata.items() if key != STATELESS}
    if session.agent_id:
        agent = session.agent_id
        name = session.agent.name
    else:
        agent = session.run_agent
        name = session.run_agent_name
    if agent:
        metadata["graph_id"] = name
        metadata["assistant_id"] = build_assistant_id(agent)
    return metadata


def serialize_threads(sessions: Iterable[Any], *, with_values: bool = True) -> list[dict[str, JSON]]:
    """Threads as JSON. The number of queries does not depend on how many there are."""
    rows = list(sessions)
    checkpoints = load_checkpoints(rows) if with_values else {}
    interrupted_runs = [row.run for row in rows if get_thread_status(row) == "interrupted"]
    waiting = interrupts.load_open_interrupts(interrupted_runs)
    threads = []
    for row in rows:
        thread = serialize_thread(row, checkpoints.get(row.pk, []), waiting.get(row.run, []))
        threads.append(thread)
    return threads


def iterate_threads(sessions: list[Any], *, with_values: bool) -> Iterator[dict[str, JSON]]:
    """The same, a few threads at a time: messages of those that an answer has no room for are not read."""
    for start in range(0, len(sessions), ROWS_AT_ONCE):
        some = sessions[start : start + ROWS_AT_ONCE]
        yield from serialize_threads(some, with_values=with_values)


def serialize_thread(
    session: Any, checkpoints: list[Checkpoint], waiting: list[interrupts.Interrupt]
) -> dict[str, JSON]:
    interrupts_by_run = {}
    if waiting:
        interrupts_by_run[str(session.run)] = [one.as_json() for one in waiting]
    return {
        "thread_id": str(session.pk),
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "state_updated_at": session.updated_at,
        "metadata": build_thread_metadata(session),
        "status": get_thread_status(session),
        "config": {},
        "values": build_thread_values(checkpoints) if checkpoints else None,
        "interrupts": interrupts_by_run,
    }


def answer_with_thread(thread: Any) -> Response:
    [thread_fields] = serialize_threads([thread])
    return Response(thread_fields)


class ThreadsView(LangGraphView):
    """POST /threads"""

    scope = "sessions"

    def post(self, request: Any) -> Response:
        body = parse_langgraph_fields(request.data, ("thread_id", "metadata", "if_exists", "supersteps"), NO_TTL)
        thread_id = parse_thread_id(body["thread_id"]) if "thread_id" in body else None
        metadata = parse_typed_field(body, "metadata", dict, {})
        check_metadata(metadata)
        if_exists = parse_choice_field(body, "if_exists", ("raise", "do_nothing"), "raise")
        if thread_id and if_exists == "do_nothing":
            thread = build_threads_query(request.user).filter(pk=thread_id).first()
            if thread:
                return answer_with_thread(thread)
        with transaction.atomic():
            session = create_thread_session(request.user, thread_id, metadata)
            for values in parse_superstep_updates(body):
                add_state_messages(request.user, session, values)
        return answer_with_thread(load_thread(request.user, session.pk))


def parse_thread_id(text: JSON) -> UUID:
    try:
        return UUID(str(text))
    except ValueError:
        raise refuse_langgraph_field("thread_id", "“thread_id” must be a UUID.")


def create_thread_session(user: Any, id: UUID | None, metadata: dict[str, JSON]) -> Session:
    """A new session. Raises Conflict if the id is taken, by this user or another."""
    fields: dict[str, JSON] = {"owner": user, "metadata": metadata, "variables": {"agent_depth": 0}}
    if id:
        fields["id"] = id
    # The client chooses the id, so two requests may come with one: the database decides.
    try:
        with transaction.atomic():
            return Session.objects.create(**fields)
    except IntegrityError:
        raise Conflict(f"The thread id “{id}” is taken.", code="thread_exists", hint="Leave it out, or send another.")


def parse_superstep_updates(body: dict[str, JSON]) -> list[JSON]:
    """The values of all updates in `supersteps`, in their order. Raises Invalid."""
    steps = parse_typed_field(body, "supersteps", list) or []
    values = []
    for step in steps:
        if not isinstance(step, dict):
            continue
        for update in step.get("updates") or ():
            if not isinstance(update, dict) or update.get("command"):
                raise refuse_langgraph_field("supersteps", "A superstep can only hold values.", "unsupported_field")
            values.append(update.get("values"))
    return values


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
        rows = rows.order_by(*parse_sort_order(body, COLUMNS, "updated_at"))
        page, headers = read_rows(rows, body)
        needs_values = "values" in parse_typed_field(body, "select", list, ["values"])
        threads = list(within_bytes(iterate_threads(page, with_values=needs_values)))
        if len(threads) < len(page):
            # The next page begins with the first thread that this one had no room for.
            headers = build_next_page_headers(parse_page_slice(body).start + len(threads))
        return Response(filter_row_fields(threads, body, SELECTABLE), headers=headers)


def filter_threads(user: Any, body: dict[str, JSON]) -> QuerySet[Session]:
    """The threads that a search asks for. Two keys of metadata name the agent: see build_thread_metadata."""
    rows = build_threads_query(user).exclude(metadata__has_key=STATELESS)
    metadata = {**parse_typed_field(body, "metadata", dict, {})}
    # The agent is not stored in the metadata; see build_thread_metadata.
    if "graph_id" in metadata:
        graph = str(metadata.pop("graph_id")).replace("\0", "")
        rows = rows.filter(build_agent_condition(Q(agent__name=graph)) | Q(metadata__graph_id=graph))
    if "assistant_id" in metadata:
        number = parse_assistant_number(str(metadata.pop("assistant_id")))
        # No agent has the number 0.
        rows = rows.filter(build_agent_condition(Q(agent=number or 0)))
    ids = parse_typed_field(body, "ids", list)
    if ids:
        rows = rows.filter(pk__in=[parse_langgraph_id(one, "thread") for one in ids[:1000]])
    if "status" in body:
        status = parse_choice_field(body, "status", STATUSES, "idle")
        rows = rows.filter(STATUSES[status])
    return filter_by_metadata(rows, metadata)


def build_agent_condition(agent: Q) -> Q:
    """Sessions of this agent, and those without one where it has worked."""
    own_runs = Run.objects.filter(agent, session=OuterRef("pk"))
    return agent | Q(Exists(own_runs), agent=None)


class ThreadView(LangGraphView):
    """GET, PATCH and DELETE /threads/{id}"""

    scope = "sessions"
    parameters = {"get": ("include",)}

    def get(self, request: Any, id: str) -> Response:
        return answer_with_thread(load_thread(request.user, id))

    def patch(self, request: Any, id: str) -> Response:
        body = parse_langgraph_fields(request.data, ("metadata",), NO_TTL)
        session = load_thread(request.user, id)
        with transaction.atomic():
            row = Session.objects.select_for_update().get(pk=session.pk)
            changes = parse_typed_field(body, "metadata", dict, {})
            row.metadata = {**row.metadata, **changes}
            check_metadata(row.metadata)
            row.save(update_fields=["metadata", "updated_at"])
        return answer_with_thread(load_thread(request.user, id))

    def delete(self, request: Any, id: str) -> Response:
        session = load_thread(request.user, id)
        endings.delete_session(session, by=request.user, reason="its thread was deleted")
        return Response(status=204)


class CopyView(LangGraphView):
    """POST /threads/{id}/copy: a new thread with the same messages."""

    scope = "sessions"

    def post(self, request: Any, id: str) -> Response:
        session = load_thread(request.user, id)
        fork = session.fork(before=session.last_seq + 1)
        return answer_with_thread(load_thread(request.user, fork.pk))


# -- states ---------------------------------------------------------------------------------------------------------


class StateView(LangGraphView):
    """GET /threads/{id}/state and /threads/{id}/state/{checkpoint}; POST adds messages."""

    scope = "sessions"
    parameters = {"get": ("subgraphs", "select")}

    def get(self, request: Any, id: str, checkpoint: str = "") -> Response:
        session = load_thread(request.user, id)
        return Response(load_checkpoint_state(session, checkpoint))

    def post(self, request: Any, id: str) -> Response:
        nodes = (None, "__start__", "__input__", "model", "__end__")
        body = parse_langgraph_fields(request.data, ("values", "checkpoint", "checkpoint_id"), {"as_node": nodes})
        session = load_thread(request.user, id)
        check_latest_checkpoint(session, body)
        if "values" not in body:
            return Response(load_checkpoint_state(session, ""))
        with transaction.atomic():
            row = Session.objects.select_for_update(of=("self",)).get(pk=session.pk)
            busy = endings.session_is_busy(row)
            if busy:
                raise SessionBusy(hint="Wait for its run, or cancel it.", details=[{"run": str(busy.pk)}])
            add_state_messages(request.user, row, body["values"])
        # Read anew: the messages changed it.
        state = load_checkpoint_state(load_thread(request.user, id), "")
        return Response({"checkpoint": state["checkpoint"], "configurable": state["checkpoint"]})


class CheckpointView(LangGraphView):
    """POST /threads/{id}/state/checkpoint"""

    scopes = {"post": "sessions:read"}

    def post(self, request: Any, id: str) -> Response:
        body = parse_langgraph_fields(request.data, ("checkpoint", "subgraphs", "select"))
        checkpoint = parse_typed_field(body, "checkpoint", dict, {})
        checkpoint_id = str(checkpoint.get("checkpoint_id") or "")
        session = load_thread(request.user, id)
        return Response(load_checkpoint_state(session, checkpoint_id))


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
        session = load_thread(request.user, id)
        before = body.get("before") or ""
        if isinstance(before, dict):
            before = before.get("checkpoint_id", "")
        metadata = parse_typed_field(body, "metadata", dict, {})
        limit = parse_whole_number(body, "limit", 10)
        most = min(max(1, limit), MOST_STATES)
        states = iterate_thread_states(session, str(before), metadata=metadata)
        newest = list(islice(states, most))
        return Response(filter_row_fields(newest, body, OF_STATE))


def check_latest_checkpoint(session: Any, body: dict[str, JSON]) -> None:
    """A thread has one line of messages: work goes on from its end. An earlier checkpoint is good as long as no
    reply follows it, as after a run that was cancelled.
    """
    named = parse_typed_field(body, "checkpoint", dict, {}).get("checkpoint_id") or body.get("checkpoint_id")
    if not named:
        return
    checkpoints = load_checkpoints([session])[session.pk]
    place = find_checkpoint_place(checkpoints, named)
    if place is None:
        raise NotFound(f"This thread has no checkpoint “{str(named)[:80]}”.")
    if any(one.is_reply for one in checkpoints[place + 1 :]):
        message = f"A run continues from the thread's latest checkpoint, {checkpoints[-1].id}."
        advice = f"{message} Copy the thread to try something else."
        raise refuse_langgraph_field("checkpoint", advice, "unsupported_field")


def find_checkpoint_place(checkpoints: list[Checkpoint], id: JSON) -> int | None:
    for place, checkpoint in enumerate(checkpoints):
        if str(checkpoint.id) == id:
            return place
    return None


def load_checkpoint_state(session: Any, checkpoint: str) -> dict[str, JSON]:
    """The state at this checkpoint, or the latest one. Raises NotFound."""
    state = next(iterate_thread_states(session, "", only=checkpoint), None)
    if state is not None:
        return state
    if checkpoint:
        raise NotFound(f"This thread has no checkpoint “{checkpoint[:80]}”.")
    return serialize_state(session, [], 0, None, [])


def iterate_thread_states(
    session: Any, before: str, *, only: str = "", metadata: Mapping[str, JSON] | None = None
) -> Iterator[dict[str, JSON]]:
    """The state after each message of the thread, newest first, from before a checkpoint. Each holds all messages up
    to then, so they are made one by one, as far as there is room.
    """
    checkpoints = load_checkpoints([session])[session.pk]
    run = find_last_run(session)
    waiting: list[interrupts.Interrupt] = []
    if run and not run.is_done:
        waiting = interrupts.load_open_interrupts([run.pk])[run.pk]
    until: int | None = len(checkpoints)
    if before:
        until = find_checkpoint_place(checkpoints, before)
    if until is None:
        raise NotFound(f"This thread has no checkpoint “{before[:80]}”.")
    room = MOST_BYTES
    # The size of each state: of its messages and all before them.
    sizes = list(accumulate(map(measure_checkpoint, checkpoints)))
    for place in range(until - 1, -1, -1):
        checkpoint = checkpoints[place]
        if only not in ("", str(checkpoint.id)):
            continue
        about = build_state_metadata(session, checkpoint, place)
        if any(about.get(key) != value for key, value in (metadata or {}).items()):
            continue
        is_last = place + 1 == len(checkpoints)
        yield serialize_state(session, checkpoints[: place + 1], place, run, waiting if is_last else [])
        room -= sizes[place]
        if room < sizes[place - 1]:
            return


def measure_checkpoint(checkpoint: Checkpoint) -> int:
    return len(json_values.dump_json(checkpoint.messages))


def build_state_metadata(session: Any, checkpoint: Checkpoint | None, step: int) -> dict[str, JSON]:
    """Its metadata."""
    about = {"source": "input" if step == 0 else "loop", "step": step, "thread_id": str(session.pk)}
    if checkpoint and checkpoint.run:
        about["run_id"] = str(checkpoint.run)
    return about


def serialize_state(
    session: Any, checkpoints: list[Checkpoint], step: int, run: Run | None, waiting: list[interrupts.Interrupt]
) -> dict[str, JSON]:
    last = checkpoints[-1] if checkpoints else None
    earlier = checkpoints[-2] if len(checkpoints) > 1 else None
    interrupts_json = [one.as_json() for one in waiting]
    following: list[str] = []
    tasks = []
    # Something follows the last checkpoint only while the run that wrote it is at work.
    if last and run and run.pk == last.run and not run.is_done:
        node = "tools" if waiting else "model"
        following.append(node)
        tasks.append(serialize_task(run, node, interrupts_json))
    return {
        "values": build_thread_values(checkpoints),
        "next": following,
        "tasks": tasks,
        "interrupts": interrupts_json,
        "checkpoint": serialize_checkpoint(session, last),
        "parent_checkpoint": serialize_checkpoint(session, earlier) if earlier else None,
        "metadata": build_state_metadata(session, last, step),
        "created_at": last.at if last else session.created_at,
    }


def serialize_task(run: Run, node: str, interrupts_json: list[dict[str, JSON]]) -> dict[str, JSON]:
    """The work that a thread is at."""
    return {
        "id": str(run.pk),
        "name": node,
        "path": [],
        "error": None,
        "interrupts": interrupts_json,
        "checkpoint": None,
        "state": None,
        "result": None,
    }


def serialize_checkpoint(session: Any, checkpoint: Checkpoint | None) -> dict[str, JSON]:
    id = str(checkpoint.id) if checkpoint else None
    return {"thread_id": str(session.pk), "checkpoint_ns": "", "checkpoint_id": id, "checkpoint_map": None}
