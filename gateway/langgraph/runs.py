"""Runs of a thread: start, wait, stream, join, list, cancel.

`Command(resume=…)` continues the run that waits, so a resumed run keeps its id.
"""

from typing import Any
from urllib.parse import urlencode

from django.db import transaction
from django.db.models import Q, QuerySet
from rest_framework.response import Response

from agents.exceptions import Invalid, NotFound, Unavailable
from agents.http.deferred_response import answer_later
from gateway import turns
from gateway.sse import PERSON, bound, build_sse_response
from gateway.turns import LONGEST_WAIT_S, Turn
from runs.events.connection_limits import WAITS, count_user_stream
from runs.events.waiting import ENDS, End
from runs.models import Run, RunEvent, Session

from . import interrupts
from .assistants import build_assistant_id
from .starts import STRATEGY, cancel_thread_run, parse_stream_modes, start_thread_turn
from .state import load_thread_messages
from .streams import INTERRUPT, Pause, find_stream_error, stream_langgraph_run
from .threads import load_thread
from .views import (
    LangGraphView,
    filter_row_fields,
    parse_choice_field,
    parse_langgraph_fields,
    parse_langgraph_id,
    parse_typed_field,
    read_rows,
    refuse_langgraph_field,
)

JSON = Any
STATUSES = {
    "pending": Q(status="queued"),
    "running": Q(status="running") | (Q(status="waiting") & ~Q(waiting_for__in=PERSON)),
    "success": Q(status__in=["succeeded", "partial"]),
    "error": Q(status="failed"),
    "timeout": Q(status="expired"),
    "interrupted": Q(status="cancelled") | Q(status="waiting", waiting_for__in=PERSON),
}
# The status of a run in the API, unless it waits for a person.
NAMES = {"queued": "pending", "running": "running", "waiting": "running", "succeeded": "success",
         "partial": "success", "failed": "error", "expired": "timeout", "cancelled": "interrupted"}  # fmt: skip
# Yes in a query parameter, as the SDKs write it.
TRUE = ("1", "true", "True")
SELECTABLE = ("run_id", "thread_id", "assistant_id", "created_at", "updated_at", "status", "metadata", "kwargs",
              "multitask_strategy", "cancel_reason")  # fmt: skip


class RunsView(LangGraphView):
    """POST and GET /threads/{id}/runs, and POST /runs, where each run has a thread of its own."""

    scopes = {"get": "runs:read"}
    parameters = {"get": ("limit", "offset", "status", "select")}

    def post(self, request: Any, id: str | None = None) -> Response:
        turn = start_thread_turn(request, id, request.data)
        return Response(serialize_run(turn.run), headers=build_location_headers(turn.run))

    def get(self, request: Any, id: str) -> Response:
        session = load_thread(request.user, id)
        query = request.query_params
        rows = build_thread_runs_query(request.user, session)
        if "status" in query:
            status = parse_choice_field(query, "status", STATUSES, "success")
            rows = rows.filter(STATUSES[status])
        page, headers = read_rows(rows.order_by("-id"), query.dict())
        runs = [serialize_run(run) for run in page]
        names = query.getlist("select")
        selection = {"select": names} if names else {}
        return Response(filter_row_fields(runs, selection, SELECTABLE), headers=headers)


class BatchView(LangGraphView):
    """POST /runs/batch: several runs, each with a thread of its own."""

    def post(self, request: Any) -> Response:
        bodies = request.data
        if not isinstance(bodies, list) or not 0 < len(bodies) <= 100:
            raise refuse_langgraph_field("", "The body must be a list of 1 to 100 runs.")
        # All of them are started, or none.
        with transaction.atomic():
            runs = [self.start(request, body) for body in bodies]
        return Response([serialize_run(turn.run) for turn in runs])

    def start(self, request: Any, body: JSON) -> Turn:
        fields = dict(body) if isinstance(body, dict) else {}
        # The JavaScript SDK sends the id of the assistant under two names.
        fields.pop("assistantId", None)
        thread = fields.pop("thread_id", None)
        return start_thread_turn(request, thread, fields)


class WaitView(LangGraphView):
    """POST /threads/{id}/runs/wait and /runs/wait: the state at the end."""

    def post(self, request: Any, id: str | None = None) -> Any:
        with WAITS.take(request.user.pk) as place:
            # Listens before the run starts: it could end before somebody listened otherwise.
            ENDS.listen()
            turn = start_thread_turn(request, id, request.data)
            end = turns.build_turn_end(turn, LONGEST_WAIT_S, place, lambda: Pause(turn.after))

            def answer(ended: dict[str, JSON] | None) -> Response:
                values = build_outcome(turn.run, ended)
                return Response(values, headers=build_location_headers(turn.run))

            return answer_later(self, end, answer)


class StreamView(LangGraphView):
    """POST /threads/{id}/runs/stream and /runs/stream"""

    def post(self, request: Any, id: str | None = None) -> Any:
        body = request.data if isinstance(request.data, dict) else {}
        modes = parse_stream_modes(body.get("stream_mode"))
        is_bound = parse_choice_field(body, "on_disconnect", ("cancel", "continue"), "continue") == "cancel"
        with count_user_stream(request.user) as respond:
            turn = start_thread_turn(request, id, request.data, is_watched=True)
            return respond(stream_response(request, turn, modes, is_bound))


class RunView(LangGraphView):
    """GET /threads/{id}/runs/{run}. A run is kept as history: DELETE is refused."""

    scope = "runs"

    def get(self, request: Any, id: str, run: str) -> Response:
        row = load_run(request.user, id, run)
        return Response(serialize_run(row))

    def delete(self, request: Any, id: str, run: str) -> Response:
        load_run(request.user, id, run)
        raise Invalid("Muster keeps runs as history.", code="unsupported", hint="Delete the thread, or cancel the run.")


class JoinView(LangGraphView):
    """GET /threads/{id}/runs/{run}/join: waits for the end of the run, or until it waits for the caller."""

    scopes = {"get": "runs:read"}
    parameters = {"get": ("cancel_on_disconnect",)}

    def get(self, request: Any, id: str, run: str) -> Any:
        row = load_run(request.user, id, run)
        since = get_stream_number(row)
        with WAITS.take(request.user.pk) as place:
            end = turns.build_turn_end(Turn(row), LONGEST_WAIT_S, place, lambda: Pause(since))
            return answer_later(self, end, lambda ended: Response(build_outcome(row, ended)))


class JoinStreamView(LangGraphView):
    """GET /threads/{id}/runs/{run}/stream and /runs/{run}/stream. `Last-Event-ID` continues a stream."""

    scopes = {"get": "runs:read"}
    parameters = {"get": ("stream_mode", "cancel_on_disconnect")}

    def get(self, request: Any, run: str, id: str | None = None) -> Any:
        row = load_run(request.user, id, run)
        is_bound = request.query_params.get("cancel_on_disconnect") in TRUE
        last_event = request.headers.get("Last-Event-ID", "")
        is_number = last_event.isascii() and last_event.isdigit() and len(last_event) < 10
        seen = int(last_event) if is_number else 0
        with count_user_stream(request.user) as respond:
            modes = parse_stream_modes(list_query_modes(request.query_params) or None)
            since = get_stream_number(row)
            return respond(stream_response(request, Turn(row), modes, is_bound, seen, since))


def list_query_modes(query: Any) -> list[str]:
    """The modes in the query. SDKs write them as a JSON list, as names with commas, or empty if they want none."""
    names = ",".join(query.getlist("stream_mode")).split(",")
    modes = [name.strip('"[] ') for name in names]
    return [mode for mode in modes if mode]


class CancelView(LangGraphView):
    """POST /threads/{id}/runs/{run}/cancel. A run that has ended stays as it is."""

    scope = "runs"
    parameters = {"post": ("wait", "action")}

    def post(self, request: Any, id: str, run: str) -> Any:
        row = load_run(request.user, id, run)
        query = request.query_params
        cancel_thread_run(row, by=request.user, action=query.get("action", "interrupt"))
        if query.get("wait") not in TRUE:
            return self.answer(row)
        with WAITS.take(request.user.pk) as place:
            return answer_later(self, End(row.pk, LONGEST_WAIT_S, place), lambda ended: self.answer(row))

    def answer(self, run: Run) -> Response:
        run.refresh_from_db(from_queryset=Run.objects.select_related(*turns.RUN_JOINS))
        return Response(serialize_run(run), status=200 if run.is_done else 202)


class CancelManyView(LangGraphView):
    """POST /runs/cancel: by status, or some of a thread."""

    scope = "runs"
    parameters = {"post": ("action",)}

    def post(self, request: Any) -> Response:
        body = parse_langgraph_fields(request.data, ("thread_id", "run_ids", "status"))
        rows = Run.objects.visible_to(request.user).live().filter(parent=None, session__isnull=False)
        if "status" not in body and "run_ids" not in body:
            raise refuse_langgraph_field("status", "Send “status”, or “run_ids” with “thread_id”.")
        if "thread_id" in body:
            session = load_thread(request.user, body["thread_id"])
            rows = rows.filter(session=session.pk)
        if "run_ids" in body:
            run_ids = parse_typed_field(body, "run_ids", list)
            rows = rows.filter(pk__in=[parse_langgraph_id(one, "run") for one in run_ids])
        status = parse_choice_field(body, "status", ("pending", "running", "all"), "all")
        if status != "all":
            rows = rows.filter(STATUSES[status])
        action = request.query_params.get("action", "interrupt")
        # Queued ones come first: they would start when those before them end.
        for row in rows.order_by("-id")[:1000]:
            cancel_thread_run(row, by=request.user, action=action)
        return Response(status=204)


# -- answering ------------------------------------------------------------------------------------------------------


def stream_response(
    request: Any, turn: Turn, modes: set[str], is_bound: bool = False, seen: int = 0, since: int | None = None
) -> Any:
    """The stream of a run. `since`: the number of the pause that the run is in, if the turn began before it."""
    if since is None:
        since = turn.after
    source = stream_langgraph_run(turn, modes, seen=seen, since=since)
    # Without it the run goes on when its reader leaves.
    if is_bound:
        source = bound(turn.run, source, request.user)
    response = build_sse_response(request, source)
    headers = build_location_headers(turn.run)
    for name, value in headers.items():
        response[name] = value
    query = urlencode([("stream_mode", mode) for mode in sorted(modes)])
    # The address at which the stream can be joined again.
    response["Location"] = f"{headers['Content-Location']}/stream?{query}"
    return response


def build_location_headers(run: Run) -> dict[str, str]:
    """The path below the base URL, from which clients read the ids."""
    path = f"/threads/{run.session_id}/runs/{run.pk}"
    return {"Content-Location": path}


def build_outcome(run: Run, ended: dict[str, JSON] | None) -> dict[str, JSON]:
    """The thread's values, with what the run waits for or why it failed. `ended`: the data of
    run.finished, if it was heard. Raises Unavailable.
    """
    if ended:
        status = ended["status"]
        run_error = ended["error"]
    else:
        run.refresh_from_db(from_queryset=Run.objects.select_related(*turns.RUN_JOINS))
        status = run.status
        run_error = run.error
    values: dict[str, JSON] = {"messages": load_thread_messages(run.session) if run.session else []}
    # The wait has ended before the run: it waits for somebody, or takes too long.
    if status not in Run.DONE:
        waiting = interrupts.load_open_interrupts([run.pk])[run.pk]
        if not waiting:
            raise Unavailable(f"The run {run.pk} goes on.", code="run_goes_on", hint="Join it again.")
        values[INTERRUPT] = [one.as_json() for one in waiting]
        return values
    error = find_stream_error(status, run_error)
    if error:
        values["__error__"] = error
    return values


def build_thread_runs_query(user: Any, session: Session) -> QuerySet[Run]:
    """The runs of the thread, without runs below them."""
    rows = Run.objects.visible_to(user).filter(session=session.pk)
    return rows.exclude(parent__session=session.pk).select_related(*turns.RUN_JOINS)


def load_run(user: Any, thread: str | None, id: str) -> Run:
    """The run with this id, in this thread if one is named. Raises Invalid, NotFound."""
    if thread is not None:
        rows = build_thread_runs_query(user, load_thread(user, thread))
    else:
        rows = Run.objects.visible_to(user).filter(session__isnull=False).select_related(*turns.RUN_JOINS)
    run = rows.filter(pk=parse_langgraph_id(id, "run")).first()
    if run is None:
        raise NotFound(f"There is no run “{id[:80]}” in this thread that you can see.")
    return run


def get_stream_number(run: Run) -> int:
    """The number of the pause that the run is in, or of the next event."""
    if run.status != Run.Status.WAITING:
        return run.last_event + 1
    pauses = RunEvent.objects.filter(run=run, type="run.waiting").order_by("-seq").values_list("seq", flat=True)
    return pauses.first() or 0


def get_langgraph_status(run: Run) -> str:
    if run.status == Run.Status.WAITING and run.waiting_for in PERSON:
        return "interrupted"
    return NAMES[run.status]


def serialize_run(run: Run) -> dict[str, JSON]:
    stored = run.metadata if isinstance(run.metadata, dict) else {}
    metadata = {name: value for name, value in stored.items() if name != STRATEGY}
    return {
        "run_id": str(run.pk),
        "thread_id": str(run.session_id),
        "assistant_id": build_assistant_id(run.agent_id) if run.agent_id else turns.ROUTER,
        "created_at": run.created_at,
        "updated_at": run.finished_at or run.started_at or run.created_at,
        "status": get_langgraph_status(run),
        "metadata": metadata,
        "kwargs": {},
        "multitask_strategy": stored.get(STRATEGY, "enqueue"),
        "cancel_reason": run.cancel_reason or None,
    }
