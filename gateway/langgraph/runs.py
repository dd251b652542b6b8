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
from .assistants import assistant_id
from .starts import STRATEGY, cancel_thread_run, parse_stream_modes, start_thread_turn
from .state import load_thread_messages
from .streams import INTERRUPT, Pause, find_stream_error, stream_langgraph_run
from .threads import thread_named
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
SELECTABLE = ("run_id", "thread_id", "assistant_id", "created_at", "updated_at", "status", "metadata", "kwargs",
              "multitask_strategy", "cancel_reason")  # fmt: skip


class RunsView(LangGraphView):
    """POST and GET /threads/{id}/runs, and POST /runs, where each run has a thread of its own."""

    scopes = {"get": "runs:read"}
    parameters = {"get": ("limit", "offset", "status", "select")}

    def post(self, request: Any, id: str | None = None) -> Response:
        turn = start_thread_turn(request, id, request.data)
        return Response(run_json(turn.run), headers=build_location_headers(turn.run))

    def get(self, request: Any, id: str) -> Response:
        session, query = thread_named(request.user, id), request.query_params
        rows = build_thread_runs_query(request.user, session)
        if "status" in query:
            rows = rows.filter(STATUSES[parse_choice_field(query, "status", STATUSES, "success")])
        names = query.getlist("select")
        page, headers = read_rows(rows.order_by("-id"), query.dict())
        runs = [run_json(run) for run in page]
        return Response(filter_row_fields(runs, {"select": names} if names else {}, SELECTABLE), headers=headers)


class BatchView(LangGraphView):
    """POST /runs/batch: several runs, each with a thread of its own."""

    def post(self, request: Any) -> Response:
        bodies = request.data
        if not isinstance(bodies, list) or not 0 < len(bodies) <= 100:
            raise refuse_langgraph_field("", "The body must be a list of 1 to 100 runs.")
        with transaction.atomic():  # all of them or none
            runs = [self.started(request, body) for body in bodies]
        return Response([run_json(turn.run) for turn in runs])

    def started(self, request: Any, body: JSON) -> Turn:
        body = {name: value for name, value in body.items() if name != "assistantId"} if isinstance(body, dict) else {}
        return start_thread_turn(
            request, body.pop("thread_id", None), body
        )  # the JavaScript SDK sends the id under two names


class WaitView(LangGraphView):
    """POST /threads/{id}/runs/wait and /runs/wait: the state at the end."""

    def post(self, request: Any, id: str | None = None) -> Any:
        with WAITS.take(request.user.pk) as place:
            ENDS.listen()
            turn = start_thread_turn(request, id, request.data)
            end = turns.build_turn_end(turn, LONGEST_WAIT_S, place, lambda: Pause(turn.after))
            return answer_later(
                self, end, lambda ended: Response(outcome(turn.run, ended), headers=build_location_headers(turn.run))
            )


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
        return Response(run_json(run_named(request.user, id, run)))

    def delete(self, request: Any, id: str, run: str) -> Response:
        run_named(request.user, id, run)
        raise Invalid("Muster keeps runs as history.", code="unsupported", hint="Delete the thread, or cancel the run.")


class JoinView(LangGraphView):
    """GET /threads/{id}/runs/{run}/join: waits for the end of the run, or until it waits for the caller."""

    scopes = {"get": "runs:read"}
    parameters = {"get": ("cancel_on_disconnect",)}

    def get(self, request: Any, id: str, run: str) -> Any:
        row = run_named(request.user, id, run)
        since = get_stream_number(row)
        with WAITS.take(request.user.pk) as place:
            end = turns.build_turn_end(Turn(row), LONGEST_WAIT_S, place, lambda: Pause(since))
            return answer_later(self, end, lambda ended: Response(outcome(row, ended)))


class JoinStreamView(LangGraphView):
    """GET /threads/{id}/runs/{run}/stream and /runs/{run}/stream. `Last-Event-ID` continues a stream."""

    scopes = {"get": "runs:read"}
    parameters = {"get": ("stream_mode", "cancel_on_disconnect")}

    def get(self, request: Any, run: str, id: str | None = None) -> Any:
        row, seen = run_named(request.user, id, run), request.headers.get("Last-Event-ID", "")
        listed = ",".join(request.query_params.getlist("stream_mode")).split(",")
        modes = [mode for name in listed if (mode := name.strip('"[] '))]  # the SDK sends it empty if it has none
        is_bound = request.query_params.get("cancel_on_disconnect") in ("1", "true", "True")
        number = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 10 else 0
        with count_user_stream(request.user) as respond:
            return respond(
                stream_response(
                    request, Turn(row), parse_stream_modes(modes or None), is_bound, number, get_stream_number(row)
                )
            )


class CancelView(LangGraphView):
    """POST /threads/{id}/runs/{run}/cancel. A run that has ended stays as it is."""

    scope = "runs"
    parameters = {"post": ("wait", "action")}

    def post(self, request: Any, id: str, run: str) -> Any:
        row, query = run_named(request.user, id, run), request.query_params
        cancel_thread_run(row, by=request.user, action=query.get("action", "interrupt"))
        if query.get("wait") not in ("1", "true", "True"):
            return self.answer(row)
        with WAITS.take(request.user.pk) as place:
            return answer_later(self, End(row.pk, LONGEST_WAIT_S, place), lambda ended: self.answer(row))

    def answer(self, run: Run) -> Response:
        run.refresh_from_db(from_queryset=Run.objects.select_related(*turns.RUN_JOINS))
        return Response(run_json(run), status=200 if run.is_done else 202)


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
            rows = rows.filter(session=thread_named(request.user, body["thread_id"]).pk)
        if "run_ids" in body:
            rows = rows.filter(
                pk__in=[parse_langgraph_id(one, "run") for one in parse_typed_field(body, "run_ids", list)]
            )
        if (status := parse_choice_field(body, "status", ("pending", "running", "all"), "all")) != "all":
            rows = rows.filter(STATUSES[status])
        for row in rows.order_by("-id")[:1000]:  # queued ones first
            cancel_thread_run(row, by=request.user, action=request.query_params.get("action", "interrupt"))
        return Response(status=204)


# -- answering ------------------------------------------------------------------------------------------------------


def stream_response(
    request: Any, turn: Turn, modes: set[str], is_bound: bool = False, seen: int = 0, since: int | None = None
) -> Any:
    source = stream_langgraph_run(turn, modes, seen=seen, since=turn.after if since is None else since)
    response = build_sse_response(request, bound(turn.run, source, request.user) if is_bound else source)
    for name, value in build_location_headers(turn.run).items():
        response[name] = value
    query = urlencode([("stream_mode", mode) for mode in sorted(modes)])
    response["Location"] = f"{build_location_headers(turn.run)['Content-Location']}/stream?{query}"  # to join it again
    return response


def build_location_headers(run: Run) -> dict[str, str]:
    """The path below the base URL, from which clients read the ids."""
    return {"Content-Location": f"/threads/{run.session_id}/runs/{run.pk}"}


def outcome(run: Run, ended: dict[str, JSON] | None) -> dict[str, JSON]:
    """The thread's values, with what the run waits for or why it failed. `ended`: the data of
    run.finished, if it was heard. Raises Unavailable.
    """
    if not ended:
        run.refresh_from_db(from_queryset=Run.objects.select_related(*turns.RUN_JOINS))
    status, error = (ended["status"], ended["error"]) if ended else (run.status, run.error)
    values: dict[str, JSON] = {"messages": load_thread_messages(run.session) if run.session else []}
    if status not in Run.DONE:
        if waiting := interrupts.load_open_interrupts([run.pk])[run.pk]:
            return {**values, INTERRUPT: [one.as_json() for one in waiting]}
        raise Unavailable(f"The run {run.pk} goes on.", code="run_goes_on", hint="Join it again.")
    error = find_stream_error(status, error)
    return {**values, "__error__": error} if error else values


def build_thread_runs_query(user: Any, session: Session) -> QuerySet[Run]:
    rows = Run.objects.visible_to(user).filter(session=session.pk).exclude(parent__session=session.pk)
    return rows.select_related(*turns.RUN_JOINS)


def run_named(user: Any, thread: str | None, id: str) -> Run:
    if thread is not None:
        rows = build_thread_runs_query(user, thread_named(user, thread))
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
    waits = run.status == Run.Status.WAITING and run.waiting_for in PERSON
    names = {"queued": "pending", "running": "running", "waiting": "running", "succeeded": "success",
             "partial": "success", "failed": "error", "expired": "timeout", "cancelled": "interrupted"}  # fmt: skip
    return "interrupted" if waits else names[run.status]


def run_json(run: Run) -> dict[str, JSON]:
    metadata = run.metadata if isinstance(run.metadata, dict) else {}
    return {
        "run_id": str(run.pk),
        "thread_id": str(run.session_id),
        "assistant_id": assistant_id(run.agent_id) if run.agent_id else turns.ROUTER,
        "created_at": run.created_at,
        "updated_at": run.finished_at or run.started_at or run.created_at,
        "status": get_langgraph_status(run),
        "metadata": {name: value for name, value in metadata.items() if name != STRATEGY},
        "kwargs": {},
        "multitask_strategy": metadata.get(STRATEGY, "enqueue"),
        "cancel_reason": run.cancel_reason or None,
    }
