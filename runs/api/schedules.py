"""Schedules, triggers and webhooks over HTTP."""

from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.response import Response

from agents.exceptions import Conflict, Invalid, NotFound, TooLarge
from agents.http import viewsets
from agents.http.resources import Tagged
from agents.http.unknown_parameters import ANYTHING
from agents.http.viewsets import APIView, Audited, NamedViewSet, lock_row, refusals
from plumbing import clock
from runs.models import Schedule, ScheduleOccurrence, Trigger, TriggerFiring, Webhook, WebhookDelivery
from runs.models.trigger import new_secret
from runs.schedules import tick as schedules
from runs.schedules import triggers
from runs.serializers.schedules import (
    DeliverySerializer,
    DueTimesSerializer,
    FiringSerializer,
    NewTriggerSerializer,
    NewWebhookSerializer,
    OccurrenceSerializer,
    ScheduleSerializer,
    TriggerSerializer,
    WebhookSerializer,
    local,
)
from runs.worker import webhooks

from .filters import ScheduleFilter

# Bytes.
MAX_HOOK_BODY = 262_144
# Of one person.
MAX_WEBHOOKS = 50
# Due times in one preview.
MOST_DUE_TIMES = 100
WEEKDAYS = OpenApiExample(
    "Weekdays at nine in Berlin",
    request_only=True,
    value={"name": "morning", "agent": "librarian", "text": "Good morning", "crontab": "0 9 * * 1-5",
           "timezone": "Europe/Berlin"},
)  # fmt: skip
ON_RUN = OpenApiExample(
    "After each run of an agent",
    request_only=True,
    value={"name": "after-orders", "kind": "run_ended", "on_agent": "clerk", "agent": "librarian",
           "text": "An order is complete"},
)  # fmt: skip
COUNT = OpenApiParameter(
    "count",
    {"type": "integer", "minimum": 1, "maximum": 99_999},
    default=10,
    description="Number of results, at most 100",
)


@extend_schema(examples=[WEEKDAYS])
class ScheduleViewSet(NamedViewSet):
    """When runs start automatically, and what became of each due time."""

    model = Schedule
    scope = "schedules"
    queryset = Schedule.objects.none()
    serializer_class = ScheduleSerializer
    filterset_class = ScheduleFilter
    search_fields = ("name", "text")
    parameters = {"preview": ("count",)}
    # These read no body: one that is sent is refused.
    bodiless = ("run_now", "pause", "resume")

    def get_queryset(self) -> QuerySet:
        rows = super().get_queryset().select_related("agent", "chain", "crontab", "interval", "clocked")
        return rows.with_last_run()  # type: ignore[attr-defined]

    @extend_schema(responses=OccurrenceSerializer(many=True))
    @action(detail=True, filterset_class=None)
    def occurrences(self, request: Any, name: str) -> Response:
        """Due times, newest first, with their outcome (started, succeeded, missed, skipped, refused
        …) and reason.
        """
        self.page_ordering = ("-due_at", "-id")
        rows = ScheduleOccurrence.objects.filter(schedule=self.get_object()).select_related("schedule")
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(OccurrenceSerializer(page, many=True).data)

    @extend_schema(responses=DueTimesSerializer, parameters=[COUNT])
    @action(detail=True, pagination_class=None, filterset_class=None)
    def preview(self, request: Any, name: str) -> Response:
        """The next due times, in UTC and in the schedule's zone."""
        schedule = self.get_object()
        count = read_count(request)
        due: list[dict[str, Any]] = []
        for moment in schedules.preview_due_times(schedule, min(count, MOST_DUE_TIMES)):
            due.append({"due_at": moment, "due_local": local(moment, schedule.timezone)})
        return Response(DueTimesSerializer({"timezone": schedule.timezone, "due": due}).data)

    @extend_schema(request=None, responses={202: OccurrenceSerializer})
    @action(detail=True, methods=["post"], pagination_class=None, filterset_class=None)
    def run_now(self, request: Any, name: str) -> Response:
        """Start it once now, in addition to its due times."""
        schedule = self.get_object()
        occurrence = schedules.run_now(schedule, by=request.user)
        self.audit("run_now", schedule)
        headers: dict[str, str] = {}
        # A due time that was refused has no run.
        if occurrence.run_id:
            headers["Location"] = reverse("run-detail", args=[occurrence.run_id])
        return Response(OccurrenceSerializer(occurrence).data, status=202, headers=headers)

    @extend_schema(request=None, responses=ScheduleSerializer)
    @action(detail=True, methods=["post"], pagination_class=None, filterset_class=None)
    def pause(self, request: Any, name: str) -> Response:
        """Start nothing until it is resumed."""
        schedule = schedules.set_enabled(self.get_object(), False, reason=f"paused by {request.user}")
        self.audit("paused", schedule)
        return Response(self.get_serializer(schedule).data)

    @extend_schema(request=None, responses=ScheduleSerializer)
    @action(detail=True, methods=["post"], pagination_class=None, filterset_class=None)
    def resume(self, request: Any, name: str) -> Response:
        """Continue with the next due time; skipped times are not made up for."""
        schedule = schedules.set_enabled(self.get_object(), True)
        self.audit("resumed", schedule)
        return Response(self.get_serializer(schedule).data)


def read_count(request: Any) -> int:
    """The number in `?count`. Raises Invalid."""
    count = request.query_params.get("count", "10")
    is_number = count.isascii() and count.isdigit() and len(count) < 6
    if not is_number or int(count) == 0:
        raise Invalid("“count” must be a whole number from 1.")
    return int(count)


class ShownOnce:
    """The secret of a new row is only included in the answer to POST."""

    new_serializer: Any
    # These answers are not stored for a repeated request with the same Idempotency-Key.
    secret_answers = ("create", "renew_secret")

    def get_serializer_class(self) -> Any:
        if self.action == "create":  # type: ignore[attr-defined]
            return self.new_serializer
        return self.serializer_class  # type: ignore[attr-defined]


@extend_schema(examples=[ON_RUN])
class TriggerViewSet(ShownOnce, NamedViewSet):
    """What starts runs besides time: signed calls, ends of runs, devices that come online."""

    model = Trigger
    scope = "triggers"
    queryset = Trigger.objects.none()
    serializer_class = TriggerSerializer
    new_serializer = NewTriggerSerializer
    bodiless = ("renew_secret",)
    filterset_fields = ["name", "kind", "enabled"]

    def get_queryset(self) -> QuerySet:
        triggers = super().get_queryset()
        return triggers.select_related("agent", "chain", "on_agent", "on_chain")

    @extend_schema(request=TriggerSerializer, responses={201: NewTriggerSerializer})
    def create(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return super().create(request, *args, **kwargs)

    @extend_schema(request=None, responses=NewTriggerSerializer)
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def renew_secret(self, request: Any, name: str) -> Response:
        """A new secret, shown once; calls signed with the old one are refused from now on."""
        trigger = self.get_object()
        trigger.secret = new_secret()
        trigger.save(update_fields=["secret", "updated_at"])
        self.audit("secret_renewed", trigger)
        context = self.get_serializer_context()
        return Response(NewTriggerSerializer(trigger, context=context).data)

    @extend_schema(responses=FiringSerializer(many=True))
    @action(detail=True, filterset_fields=None)
    def firings(self, request: Any, name: str) -> Response:
        """Each firing, newest first, with the run it started or the reason why not."""
        self.page_ordering = ("-id",)
        rows = TriggerFiring.objects.filter(trigger=self.get_object())
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(FiringSerializer(page, many=True).data)


class HookView(APIView):
    """A signed call from outside: the signature replaces an API key."""

    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []
    # Services add parameters of their own to the address.
    parameters = {"post": ANYTHING}

    @extend_schema(
        operation_id="hooks_call",
        auth=[],
        request=OpenApiTypes.OBJECT,
        parameters=[
            OpenApiParameter(name, str, OpenApiParameter.HEADER, required=True)
            for name in ("webhook-id", "webhook-timestamp", "webhook-signature")
        ],
        responses={202: FiringSerializer},
    )
    def post(self, request: Any, hook: Any) -> Response:
        """Start the trigger's target; the same webhook-id returns the same run."""
        body = request.body
        if len(body) > MAX_HOOK_BODY:
            raise TooLarge(
                f"A hook accepts at most {MAX_HOOK_BODY} bytes.", hint="Send a reference instead of the content."
            )
        firing = triggers.receive(hook, request.headers, body)
        return Response(FiringSerializer(firing).data, status=202)


class WebhookViewSet(ShownOnce, Tagged, Audited, viewsets.ModelViewSet):
    """Addresses that receive your own run events."""

    scope = "webhooks"
    queryset = Webhook.objects.none()
    serializer_class = WebhookSerializer
    new_serializer = NewWebhookSerializer
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]
    filterset_fields = ["enabled"]
    search_fields = ("url",)
    orderings = ("created_at", "updated_at")
    parameters = {"deliveries": ("state",)}
    bodiless = ("renew_secret", "send_again")

    def get_queryset(self) -> QuerySet:
        return Webhook.objects.visible_to(self.request.user)

    @extend_schema(request=WebhookSerializer, responses={201: NewWebhookSerializer})
    def create(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return super().create(request, *args, **kwargs)

    def perform_create(self, serializer: Any) -> None:
        if self.get_queryset().count() >= MAX_WEBHOOKS:
            hint = "Delete some; one webhook can receive many kinds of events."
            raise Conflict(f"You already have {MAX_WEBHOOKS} webhooks.", code="too_many_webhooks", hint=hint)
        with refusals("webhook"):
            webhook = serializer.save(owner=self.request.user)
            self.audit("created", webhook)

    def perform_update(self, serializer: Any) -> None:
        """A secret is not kept when the address changes."""
        with refusals("webhook"):
            lock_row(serializer.instance)
            before = serializer.instance.url
            webhook = serializer.save()
            # The receiver at the old address knows the secret.
            if webhook.url != before:
                webhook.secret = new_secret()
                webhook.save(update_fields=["secret"])
            self.audit("changed", webhook, fields=sorted(serializer.validated_data))

    def perform_destroy(self, webhook: Webhook) -> None:
        self.audit("deleted", webhook)
        webhook.delete()

    @extend_schema(request=None, responses=NewWebhookSerializer)
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def renew_secret(self, request: Any, pk: Any = None) -> Response:
        """A new secret, shown once."""
        webhook = self.get_object()
        webhook.secret = new_secret()
        webhook.updated_at = clock.near()
        webhook.save(update_fields=["secret", "updated_at"])
        self.audit("secret_renewed", webhook)
        return Response(NewWebhookSerializer(webhook).data)

    @extend_schema(responses=DeliverySerializer(many=True), parameters=[OpenApiParameter("state", str)])
    @action(detail=True, filterset_fields=None)
    def deliveries(self, request: Any, pk: Any = None) -> Response:
        """Deliveries, newest first; ?state=dead lists those that were given up."""
        self.page_ordering = ("-id",)
        rows = WebhookDelivery.objects.filter(webhook=self.get_object())
        state = request.query_params.get("state")
        if state:
            # The column holds nine letters; a longer text matches nothing.
            rows = rows.filter(state=state[:9])
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(DeliverySerializer(page, many=True).data)

    @extend_schema(request=None, responses={202: DeliverySerializer})
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def send_again(self, request: Any, pk: Any = None, delivery: Any = None) -> Response:
        """Take a delivery from the dead list and try it again."""
        row = WebhookDelivery.objects.filter(webhook=self.get_object(), pk=delivery).first()
        if row is None:
            raise NotFound("There is no such delivery.")
        sent = webhooks.send_again(row)
        return Response(DeliverySerializer(sent).data, status=202)
