"""No table grows for ever: each is pruned, goes with a row that is, or holds what a person keeps."""

from datetime import timedelta
from io import StringIO
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection, models
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule

from agents.models import Agent
from devices.models import DeviceCall
from runs.management.commands import prune as prune_command
from runs.models import Schedule, ScheduleOccurrence, Trigger, TriggerFiring, Webhook, WebhookDelivery
from runs.worker import pruning

pytestmark = pytest.mark.django_db
PAST = timezone.now() - timedelta(days=1000)

# What people make and delete themselves, or what stays small. Each with its reason.
KEPT = {
    "agents.AgentVersion": "published versions are kept as long as their agent",
    "agents.Agent": "authored",
    "agents.Chain": "authored",
    "agents.Hook": "authored",
    "agents.Prompt": "authored",
    "agents.Provider": "authored",
    "agents.Secret": "authored",
    "agents.SiteHold": "one row while a restored site is on hold",
    "agents.Starter": "one row for each starter definition",
    "agents.Team": "made by people",
    "agents.Tool": "authored",
    "agents.ToolGrant": "part of an agent or a chain",
    "agents.User": "people",
    "auth.Group": "the roles",
    "auth.Permission": "made by migrations",
    "connectors.Connection": "made by people",
    "contenttypes.ContentType": "made by migrations",
    "django_celery_beat.ClockedSchedule": "timings of schedules",
    "django_celery_beat.CrontabSchedule": "timings of schedules",
    "django_celery_beat.IntervalSchedule": "timings of schedules",
    "django_celery_beat.PeriodicTask": "timings of schedules",
    "django_celery_beat.PeriodicTasks": "one row",
    "django_celery_beat.SolarSchedule": "timings of schedules",
    "functions.FunctionVersion": "published versions are kept as long as their function",
    "functions.StoredFunction": "authored",
    "knowledge.Collection": "made by people",
    "knowledge.Skill": "authored",
    "knowledge.SkillVersion": "published versions are kept as long as their skill",
    "oauth2_provider.IDToken": "never made: OpenID Connect is off",
    "runs.Budget": "made by people",
    "runs.Duty": "one row for each recurring duty",
    "runs.Schedule": "made by people",
    "runs.Trigger": "made by people",
    "runs.Worker": "forgotten a day after it was last seen",
    "sessions.Session": "not used: logins are agents.BrowserSession",
}


def owners_of(model):
    """The models whose rows take those of this model with them."""
    for field in model._meta.get_fields():
        if isinstance(field, models.ForeignKey) and field.remote_field.on_delete is models.CASCADE and not field.null:
            yield field.related_model


def test_every_table_has_a_rule():
    pruned = {rows.model._meta.label for _, rows in pruning.find_prunable_rows(timezone.now())}
    without_a_rule = []
    for model in apps.get_models(include_auto_created=False):
        label = model._meta.label
        is_real = model._meta.managed and not model._meta.proxy
        if is_real and label not in pruned and label not in KEPT and not any(owners_of(model)):
            without_a_rule.append(label)
    assert without_a_rule == []
    assert sorted(pruned & KEPT.keys() - {"agents.AgentVersion"}) == []


@pytest.fixture
def webhook(alice):
    return Webhook.objects.create(owner=alice, url="https://example.org/hook")


@pytest.fixture
def trigger(alice, make_agent):
    return Trigger.objects.create(owner=alice, name="arrival", kind="webhook", agent=make_agent())


@pytest.fixture
def schedule(alice, make_agent):
    interval = IntervalSchedule.objects.create(every=1, period="days")
    return Schedule.objects.create(owner=alice, name="daily", interval=interval, agent=make_agent(), text="Begin.")


def count_after_pruning(rows, **changes):
    """How many rows are left when all of them are this old."""
    rows.update(**changes)
    pruning.prune()
    return rows.count()


@pytest.mark.parametrize(("state", "left"), [("delivered", 0), ("dead", 0), ("pending", 1)])
def test_deliveries_of_webhooks_go_when_they_are_settled(webhook, state, left):
    WebhookDelivery.objects.create(webhook=webhook, type="run.finished", body={}, state=state, next_attempt_at=PAST)
    assert count_after_pruning(WebhookDelivery.objects.all(), created_at=PAST) == left


@pytest.mark.parametrize(("outcome", "left"), [("started", 0), ("refused", 0), ("pending", 1)])
def test_firings_of_triggers_go_when_they_are_settled(trigger, outcome, left):
    TriggerFiring.objects.create(trigger=trigger, key="a", outcome=outcome)
    assert count_after_pruning(TriggerFiring.objects.all(), created_at=PAST) == left


def test_a_firing_stays_as_long_as_its_request_could_be_repeated(trigger, settings):
    settings.KEEP_DAYS = settings.KEEP_DAYS | {"runs": 0}
    TriggerFiring.objects.create(trigger=trigger, key="a", outcome="started")
    yesterday = timezone.now() - timedelta(days=1)
    assert count_after_pruning(TriggerFiring.objects.all(), created_at=yesterday) == 1


@pytest.mark.parametrize(("outcome", "left"), [("succeeded", 0), ("missed", 0), ("waiting_device", 1)])
def test_occurrences_of_schedules_go_when_they_are_over(schedule, outcome, left):
    ScheduleOccurrence.objects.create(schedule=schedule, due_at=PAST, start_at=PAST, outcome=outcome)
    assert count_after_pruning(ScheduleOccurrence.objects.all(), created_at=PAST) == left


@pytest.mark.parametrize(("finished_at", "left"), [(PAST, 0), (None, 1)])
def test_calls_to_devices_go_when_they_are_answered(alice, finished_at, left):
    DeviceCall.objects.create(owner=alice, tool="files_read", deadline=PAST, finished_at=finished_at)
    assert count_after_pruning(DeviceCall.objects.all(), created_at=PAST) == left


@pytest.mark.django_db(transaction=True)
def test_compacting_gives_room_back(alice):
    said = StringIO()
    call_command("prune", "--compact", stdout=said)
    last = said.getvalue().strip().splitlines()[-1]
    assert "kB, now" in last if connection.vendor == "sqlite" else "VACUUM FULL" in last


@pytest.mark.django_db(transaction=True)
def test_compacting_without_room_is_refused_before_it_begins(monkeypatch):
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL's VACUUM needs no room")
    monkeypatch.setattr(prune_command.shutil, "disk_usage", lambda path: SimpleNamespace(free=1))
    with pytest.raises(CommandError, match="compacting needs"):
        call_command("prune", "--compact", stdout=StringIO())


def test_a_dry_run_compacts_nothing(alice):
    said = StringIO()
    call_command("prune", "--dry-run", "--compact", stdout=said)
    assert "kB, now" not in said.getvalue()
    assert Agent.objects.count() == 0
