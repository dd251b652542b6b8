"""Schedules, occurrences, triggers, firings, webhooks and deliveries as JSON."""

from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.graph import MAX_PARAMETERS, Problem
from agents.http.strict import (
    Choice,
    LocalMoment,
    RowId,
    StrictModelSerializer,
    StrictSerializer,
    Text,
    Whole,
    Words,
)
from agents.http.viewsets import shared_serializer
from agents.mapping import MappingError, parse_expression, read_source
from agents.models import Agent, Chain
from agents.models.options import find_options
from agents.serializers.owned import OWNED, OwnedSerializer, find_by_name
from devices.models import Device
from plumbing.http.addresses import url_refusal
from plumbing.site_paths import reverse_without_prefix
from runs.events import outbox
from runs.events import record as events
from runs.models import Run, Schedule, ScheduleOccurrence, Trigger, TriggerFiring, Webhook, WebhookDelivery
from runs.rules.timing import TimingError, read_crontab, read_in_zone, split_line, zone_named
from runs.schedules import tick as schedules

from .messages import OptionsSerializer

# A schedule has exactly one of these.
TIMINGS = ("crontab", "interval", "at")
MOMENTS = ("at", "starts_at", "ends_at")
ZONED = "Without an offset it is a time of the schedule's time zone."


class IntervalField(StrictSerializer):
    every = Whole(min_value=1, max_value=1_000_000)
    period = Choice(choices=["seconds", "minutes", "hours", "days"])


@extend_schema_field(OptionsSerializer)
class OptionsField(serializers.JSONField):
    """Options of what it starts; a chain takes only `priority`."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        options = shared_serializer(OptionsSerializer).run_validation(data)
        # Null means the same as an option that is not there.
        return {name: value for name, value in options.items() if value is not None}


class TargetMixin(serializers.Serializer):
    """`agent` or `chain` by name, exactly one of them."""

    agent = Text(max_length=64, required=False, allow_null=True, source="agent.name", default=None)
    chain = Text(max_length=64, required=False, allow_null=True, source="chain.name", default=None)

    def targets(self, data: dict[str, Any]) -> dict[str, Any]:
        """The rows meant by the names. Raises ValidationError unless there is exactly one target."""
        user = self.context["request"].user
        instance = getattr(self, "instance", None)
        targets: dict[str, Any] = {}
        for field, model in (("agent", Agent), ("chain", Chain)):
            nested = data.pop(field, None)
            if nested is None:
                continue
            name = nested["name"]
            current = getattr(instance, field, None)
            targets[field] = find_by_name(model, user, name, current) if name else None
        # Naming one of them is enough to replace the other.
        if any(targets.values()) and len(targets) == 1:
            targets = {"agent": None, "chain": None, **targets}
        # A PATCH that names neither leaves the target as it is.
        merged = targets
        if not targets and instance:
            merged = {"agent": instance.agent, "chain": instance.chain}
        chosen = [row for row in merged.values() if row is not None]
        if len(chosen) != 1:
            raise serializers.ValidationError({"agent": "Name exactly one agent or chain."}, code="one_target")
        options = data.get("options", getattr(instance, "options", None)) or {}
        if merged["chain"] and options.keys() - {"priority"}:
            raise serializers.ValidationError({"options": "The only option of a chain is priority."}, code="invalid")
        return targets


class ScheduleSerializer(TargetMixin, OwnedSerializer):
    options = OptionsField(required=False)
    crontab = Text(
        max_length=300,
        required=False,
        allow_null=True,
        help_text="minute hour day month weekday, or words such as: every weekday at 9",
    )
    interval = IntervalField(required=False, allow_null=True)
    at = LocalMoment(required=False, allow_null=True, help_text=f"A single time. {ZONED}")
    starts_at = LocalMoment(required=False, allow_null=True, help_text=f"Start of the interval. {ZONED}")
    ends_at = LocalMoment(required=False, allow_null=True, help_text=f"Not due after this moment. {ZONED}")
    timezone = Text(max_length=64, required=False, help_text="IANA name.")
    next_due_local = serializers.SerializerMethodField()
    last_run_at = serializers.DateTimeField(read_only=True, allow_null=True, help_text="When its last run was created.")
    timing_in_words = serializers.CharField(read_only=True)
    why_not = serializers.SerializerMethodField(help_text="Why nothing starts, or when it will.")

    class Meta:
        model = Schedule
        fields = [
            "name", *find_options(Schedule), "at", "failures", "paused_reason", "next_due_at", "next_due_local",
            "last_due_at", "last_run_at", "timing_in_words", "why_not", *OWNED,
        ]  # fmt: skip
        read_only_fields = ["failures", "paused_reason", "next_due_at", "last_due_at"]

    def get_next_due_local(self, schedule: Schedule) -> str | None:
        if schedule.next_due_at is None:
            return None
        return local(schedule.next_due_at, schedule.timezone)

    def get_why_not(self, schedule: Schedule) -> str:
        return schedules.why_not(schedule)

    def to_representation(self, schedule: Schedule) -> dict[str, Any]:
        # A row that was just made has no annotation.
        if not hasattr(schedule, "last_run_at"):
            schedule.last_run_at = Schedule.objects.with_last_run().get(pk=schedule.pk).last_run_at
        shown = super().to_representation(_Shown(schedule))
        shown["crontab"] = shown["interval"] = shown["at"] = None
        if schedule.crontab:
            shown["crontab"] = format_crontab(schedule.crontab)
        if schedule.interval:
            shown["interval"] = {"every": schedule.interval.every, "period": schedule.interval.period}
        if schedule.clocked:
            shown["at"] = events.format_moment(schedule.clocked.clocked_time)
        return shown

    def validate_timezone(self, name: str) -> str:
        try:
            zone_named(name)
        except TimingError as error:
            raise serializers.ValidationError(str(error), code="unknown_zone")
        return name

    def validate_device(self, device_id: UUID | None) -> UUID | None:
        """A device of the schedule's owner, who is the principal of its runs."""
        owner = self.instance.owner if self.instance else self.context["request"].user
        if device_id and not Device.objects.has(owner, device_id):
            raise serializers.ValidationError("there is no such device", code="unknown_device")
        return device_id

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        data |= self.targets(data)
        zone = self.find_zone(data)
        for name in MOMENTS:
            if data.get(name):
                data[name] = read_in_zone(data[name], zone)
        timings = {name: data.pop(name) for name in TIMINGS if name in data}
        chosen = {name: value for name, value in timings.items() if value is not None}
        if len(chosen) > 1 or (not chosen and not self.partial):
            raise serializers.ValidationError(
                {"crontab": "Send exactly one of crontab, interval and at."}, code="one_timing"
            )
        # The row of a crontab holds the time zone as well: another zone needs another row.
        if not chosen and "timezone" in data and self.instance and self.instance.crontab:
            chosen = {"crontab": format_crontab(self.instance.crontab)}
        if chosen:
            data |= timing_rows(chosen, zone)
        return data

    def find_zone(self, data: dict[str, Any]) -> str:
        """The time zone of the schedule as it will be."""
        if data.get("timezone"):
            return str(data["timezone"])
        return self.instance.timezone if self.instance else "UTC"

    def create(self, validated: dict[str, Any]) -> Schedule:
        validated.setdefault("owner", self.context["request"].user)
        schedule = Schedule(**validated)
        return self.planned(schedule)

    def update(self, schedule: Schedule, validated: dict[str, Any]) -> Schedule:
        for name, value in validated.items():
            setattr(schedule, name, value)
        if validated.get("enabled"):
            schedule.paused_reason = ""
            schedule.failures = 0
        return self.planned(schedule)

    def planned(self, schedule: Schedule) -> Schedule:
        schedules.plan_next(schedule)
        schedule.save()
        return schedule


class _Shown:
    """A schedule whose timing is empty: `to_representation` writes it, because the fields of the same names expect
    text and numbers and not rows.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.crontab = self.interval = self.at = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schedule, name)


def format_crontab(row: CrontabSchedule) -> str:
    return f"{row.minute} {row.hour} {row.day_of_month} {row.month_of_year} {row.day_of_week}"


def local(moment: Any, zone: str) -> str:
    try:
        return moment.astimezone(ZoneInfo(zone)).isoformat(timespec="seconds")
    # The last day of the calendar, in a zone where it has already ended.
    except OverflowError:
        return moment.isoformat(timespec="seconds")


def timing_rows(chosen: dict[str, Any], zone: str) -> dict[str, Any]:
    """The row of django-celery-beat for this timing, shared with other schedules; the other two
    columns are cleared.
    """
    rows: dict[str, Any] = {"crontab": None, "interval": None, "clocked": None}
    if "crontab" in chosen:
        # Words such as “every weekday at 9” become the five fields.
        try:
            minute, hour, day, month, weekday = split_line(chosen["crontab"])
            read_crontab(minute, hour, day, month, weekday, zone)
        except TimingError as error:
            raise serializers.ValidationError({"crontab": str(error)}, code="invalid_crontab")
        fields = {"minute": minute, "hour": hour, "day_of_month": day, "month_of_year": month, "day_of_week": weekday}
        rows["crontab"] = get_shared_timing(CrontabSchedule, **fields, timezone=zone)
    elif "interval" in chosen:
        rows["interval"] = get_shared_timing(IntervalSchedule, **chosen["interval"])
    else:
        rows["clocked"] = get_shared_timing(ClockedSchedule, clocked_time=chosen["at"])
    return rows


def get_shared_timing(model: Any, **fields: Any) -> Any:
    row = model.objects.filter(**fields).first()
    return row or model.objects.create(**fields)


class OccurrenceSerializer(serializers.ModelSerializer):
    run = serializers.UUIDField(source="run_id", allow_null=True)
    due_local = serializers.SerializerMethodField()

    class Meta:
        model = ScheduleOccurrence
        fields = [
            "id", "due_at", "due_local", "start_at", "outcome", "reason", "run", "is_manual", "count", "attempts",
            "settled_at",
        ]  # fmt: skip

    def get_due_local(self, occurrence: ScheduleOccurrence) -> str:
        return local(occurrence.due_at, occurrence.schedule.timezone)


class DueSerializer(serializers.Serializer):
    due_at = serializers.DateTimeField()
    due_local = serializers.CharField(help_text="In the schedule's time zone.")


class DueTimesSerializer(serializers.Serializer):
    timezone = serializers.CharField()
    due = DueSerializer(many=True)


class TriggerSerializer(TargetMixin, OwnedSerializer):
    options = OptionsField(required=False)
    input = serializers.JSONField(required=False, allow_null=True, help_text="Parameter → JMESPath over {event}.")
    on_agent = Text(max_length=64, required=False, allow_null=True, source="on_agent.name", default=None)
    on_chain = Text(max_length=64, required=False, allow_null=True, source="on_chain.name", default=None)
    url = serializers.SerializerMethodField(help_text="Address for the webhook's calls.")
    echoed = ("secret",)

    class Meta:
        model = Trigger
        fields = ["name", *find_options(Trigger), "last_fired_at", "url", *OWNED]
        read_only_fields = ["last_fired_at"]

    def get_url(self, trigger: Trigger) -> str | None:
        if trigger.kind != Trigger.Kind.WEBHOOK:
            return None
        return settings.PUBLIC_URL + reverse_without_prefix("hook", trigger.hook)

    def validate_input(self, value: Any) -> Any:
        """A mapping whose expressions are valid."""
        if value is None:
            return None
        if not isinstance(value, dict):
            raise serializers.ValidationError("Send an object: parameter → JMESPath.", code="invalid")
        if len(value) > MAX_PARAMETERS:
            raise serializers.ValidationError(f"Map at most {MAX_PARAMETERS} values.", code="too_many_parameters")
        for name, source in value.items():
            problem = mapping_problem(name, source)
            if problem:
                raise serializers.ValidationError(problem.message, code=problem.code)
        return value

    def validate_on_status(self, words: list[str]) -> list[str]:
        unknown = sorted(set(words) - set(Run.DONE))
        if unknown:
            raise serializers.ValidationError(
                f"{', '.join(unknown)}: not a status that a run can end with.", code="unknown"
            )
        return words

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        data |= self.targets(data)
        user = self.context["request"].user
        for field, model in (("on_agent", Agent), ("on_chain", Chain)):
            if field not in data:
                continue
            nested = data[field] or {}
            name = nested.get("name")
            current = getattr(self.instance, field, None)
            data[field] = find_by_name(model, user, name, current) if name else None
        return data


def mapping_problem(name: str, source: Any) -> Problem | None:
    """What is wrong with the source of one parameter. A fixed value cannot be wrong."""
    if isinstance(source, dict) and "value" in source:
        return None
    try:
        expression = read_source(source)[0]
        parse_expression(expression)
    except MappingError as error:
        return Problem("", error.code, f"“{name}”: {error}", error.hint)
    return None


class NewTriggerSerializer(TriggerSerializer):
    secret = serializers.CharField(read_only=True, help_text="Copy it now: it is shown only once.")

    class Meta(TriggerSerializer.Meta):
        fields = [*TriggerSerializer.Meta.fields, "secret"]


class FiringSerializer(serializers.ModelSerializer):
    run = serializers.UUIDField(source="run_id", allow_null=True)

    class Meta:
        model = TriggerFiring
        fields = ["id", "key", "outcome", "reason", "run", "created_at"]


@extend_schema_field({"type": "array", "items": {"type": "string", "enum": sorted(outbox.TOLD | outbox.NOTICES)}})
class EventNames(Words):
    pass


class WebhookSerializer(StrictModelSerializer):
    id = RowId(read_only=True)
    url = Text(max_length=1000, help_text="A public http or https address.")
    events = EventNames(required=False, each=32, help_text="Empty: run.finished.")
    echoed = ("secret",)

    class Meta:
        model = Webhook
        fields = ["id", "url", "events", "enabled", "created_at", "updated_at"]

    def validate_url(self, url: str) -> str:
        refusal = url_refusal(url, settings.PRIVATE_HOSTS_ALLOWED)
        if refusal:
            raise serializers.ValidationError(refusal, code="private_address")
        return url

    def validate_events(self, names: list[str]) -> list[str]:
        unknown = sorted(set(names) - outbox.TOLD - outbox.NOTICES)
        if unknown:
            raise serializers.ValidationError(f"Unknown: {', '.join(unknown)}.", code="unknown_event")
        # Each once, in the order in which they were sent.
        return list(dict.fromkeys(names))


class NewWebhookSerializer(WebhookSerializer):
    secret = serializers.CharField(read_only=True, help_text="Copy it now: it is shown only once.")

    class Meta(WebhookSerializer.Meta):
        fields = [*WebhookSerializer.Meta.fields, "secret"]


class DeliverySerializer(serializers.ModelSerializer):
    class Meta:
        model = WebhookDelivery
        fields = [
            "id", "type", "state", "attempts", "next_attempt_at", "last_status", "last_error", "created_at",
            "delivered_at",
        ]  # fmt: skip
