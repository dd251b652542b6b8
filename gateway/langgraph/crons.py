"""Crons are schedules with a crontab that send a message to an agent. Each start opens a session."""

from typing import Any
from uuid import UUID, uuid4

from django.db.models import QuerySet
from rest_framework.response import Response

from agents.exceptions import Invalid, NotFound
from agents.http.viewsets import Audited, lock_row, refusals
from runs.models import Schedule
from runs.models.session import join_part_texts
from runs.serializers.schedules import ScheduleSerializer

from . import inputs
from .assistants import PREFIX, build_assistant_id, find_agent, parse_assistant_number
from .starts import parse_langgraph_options
from .views import (
    LangGraphView,
    filter_row_fields,
    parse_langgraph_fields,
    parse_sort_order,
    parse_typed_field,
    read_rows,
    refuse_langgraph_field,
)

JSON = Any
FIELDS = ("assistant_id", "schedule", "timezone", "input", "config", "context", "end_time", "enabled")
NEUTRAL: dict[str, tuple[JSON, ...]] = {
    "metadata": ({},), "checkpoint_during": (False, True), "interrupt_before": ([],), "interrupt_after": ([],),
    "webhook": (), "on_run_completed": ("keep",), "stream_mode": (), "stream_subgraphs": (False, True),
    "stream_resumable": (False, True), "durability": ("sync", "async", "exit"), "multitask_strategy": ("enqueue",),
}  # fmt: skip
# Fields of a cron that are columns of a schedule.
SCHEDULE_FIELDS = {"schedule": "crontab", "timezone": "timezone", "end_time": "ends_at", "enabled": "enabled"}
COLUMNS = {"cron_id": "pk", "assistant_id": "agent_id", "created_at": "created_at", "updated_at": "updated_at",
           "next_run_date": "next_due_at", "end_time": "ends_at"}  # fmt: skip
SELECTABLE = ("cron_id", "assistant_id", "thread_id", "end_time", "schedule", "timezone", "created_at", "updated_at",
              "user_id", "payload", "next_run_date", "metadata", "on_run_completed", "enabled")  # fmt: skip


def build_crons_query(user: Any) -> QuerySet[Schedule]:
    """The person's own schedules that this API can show: with a crontab, for an agent."""
    rows = Schedule.objects.editable_by(user).filter(agent__isnull=False, crontab__isnull=False, owner=user)
    return rows.select_related("agent", "crontab", "owner", "team").with_last_run()  # type: ignore[attr-defined]


class CronsView(Audited, LangGraphView):
    """POST /runs/crons"""

    scope = "schedules"

    def post(self, request: Any) -> Response:
        """Create a cron for an agent; the router cannot be scheduled."""
        body = parse_langgraph_fields(request.data, FIELDS, NEUTRAL)
        agent = find_agent(request.user, body.get("assistant_id"))
        if agent is None:
            raise refuse_langgraph_field("assistant_id", "A cron needs an agent of its own.", "unsupported_field")
        # A schedule has a name, which this API does not know.
        name = f"cron-{uuid4().hex[:12]}"
        fields = {"name": name, "agent": agent.name, **parse_cron_fields(body)}
        serializer = ScheduleSerializer(data=fields, context={"request": request, "view": self})
        serializer.is_valid(raise_exception=True)
        with refusals("schedule", request.user):
            schedule = serializer.save(agent=agent)  # several may have its name
            self.audit("created", schedule)
        return Response(serialize_cron(schedule))


def parse_cron_fields(body: dict[str, JSON]) -> dict[str, JSON]:
    """The fields of a schedule."""
    fields: dict[str, JSON] = {}
    for field, name in SCHEDULE_FIELDS.items():
        if field in body:
            fields[name] = body[field]
    if "input" in body:
        fields |= parse_cron_input(body["input"])
    options = parse_langgraph_options(body)
    if options:
        fields["options"] = options
    return fields


def parse_cron_input(graph_input: JSON) -> dict[str, JSON]:
    """The text of a schedule, and the input beside it. Raises Invalid."""
    content = inputs.parse_graph_input(graph_input, set())
    has_one_message = len(content.messages) == 1 and not content.results
    if not has_one_message or any(part["type"] != "text" for part in content.messages[0].parts):
        message = "The input of a cron is one message of type human, as text."
        raise refuse_langgraph_field("input", message, "unsupported_field")
    fields: dict[str, JSON] = {"text": join_part_texts(content.messages[0].parts)}
    if content.more:
        fields["input"] = content.more
    return fields


class ThreadCronsView(LangGraphView):
    """POST /threads/{id}/runs/crons"""

    scope = "schedules"

    def post(self, request: Any, id: str) -> Response:
        message = "Each start of a schedule opens a session of its own, so a cron cannot belong to a thread."
        raise Invalid(message, code="unsupported", hint="Create it without a thread.")


class CronView(Audited, LangGraphView):
    """PATCH and DELETE /runs/crons/{id}"""

    scope = "schedules"

    def patch(self, request: Any, id: str) -> Response:
        schedule = load_cron(request.user, id)
        # The agent stays. “end_time” may be null here, which takes the end away.
        neutral = {**NEUTRAL, "end_time": (None,)}
        body = parse_langgraph_fields(request.data, FIELDS[1:], neutral)
        data = parse_cron_fields(body)
        if request.data.get("end_time", 0) is None:
            data["ends_at"] = None
        context = {"request": request, "view": self}
        serializer = ScheduleSerializer(schedule, data=data, partial=True, context=context)
        serializer.is_valid(raise_exception=True)
        with refusals("schedule", request.user):
            lock_row(serializer.instance)
            serializer.save()
            self.audit("changed", schedule, fields=sorted(data))
        return Response(serialize_cron(load_cron(request.user, id)))

    def delete(self, request: Any, id: str) -> Response:
        schedule = load_cron(request.user, id)
        with refusals("schedule", request.user):
            self.audit("deleted", schedule)
            schedule.delete()
        return Response(status=204)


class CronSearchView(LangGraphView):
    """POST /runs/crons/search and /runs/crons/count"""

    scopes = {"post": "schedules:read"}
    is_count = False

    def post(self, request: Any) -> Response:
        names = ("assistant_id", "thread_id", "enabled", "limit", "offset", "sort_by", "sort_order", "order_by",
                 "select")  # fmt: skip
        body = parse_langgraph_fields(request.data, names, {"metadata": ({},)})
        rows = build_crons_query(request.user)
        if "assistant_id" in body:
            agent = find_agent(request.user, body["assistant_id"])
            rows = rows.filter(agent=agent)
        if "enabled" in body:
            rows = rows.filter(enabled=parse_typed_field(body, "enabled", bool))
        if "thread_id" in body:
            rows = rows.none()  # they belong to no thread
        if self.is_count:
            return Response(rows.count())
        rows = rows.order_by(*parse_sort_order(body, COLUMNS, "created_at"))
        page, headers = read_rows(rows, body)
        crons = [serialize_cron(row) for row in page]
        return Response(filter_row_fields(crons, body, SELECTABLE), headers=headers)


def load_cron(user: Any, id: str) -> Schedule:
    number = parse_assistant_number(id) or 0  # no schedule has the number 0
    schedule = build_crons_query(user).filter(pk=number).first()
    if schedule is None:
        raise NotFound(f"There is no cron “{id[:80]}” that you can see.")
    return schedule


def serialize_cron(schedule: Schedule) -> dict[str, JSON]:
    assert schedule.agent_id is not None  # others are not listed
    message = {"role": "user", "content": schedule.text}
    payload = {
        "assistant_id": build_assistant_id(schedule.agent_id),
        "input": {**(schedule.input or {}), "messages": [message]},
        "context": schedule.options.get("variables", {}),
    }
    return {
        "cron_id": str(UUID(f"{PREFIX}{schedule.pk:012x}")),
        "assistant_id": build_assistant_id(schedule.agent_id),
        "thread_id": None,
        "on_run_completed": "keep",
        "end_time": schedule.ends_at,
        "schedule": schedule.line,
        "timezone": schedule.timezone,
        "created_at": schedule.created_at,
        "updated_at": schedule.updated_at,
        "user_id": str(schedule.owner_id),
        "payload": payload,
        "next_run_date": schedule.next_due_at,
        "metadata": {"name": schedule.name},
        "enabled": schedule.enabled,
    }
