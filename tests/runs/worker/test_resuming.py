"""A restored site does nothing before `resume`, and `resume` repeats nothing that may have been done."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from agents.http.credential_checks import CredentialCheck
from agents.models import AuditEvent, SiteHold, Tool
from plumbing import clock
from runs.chains import execution
from runs.intake import messages as intake
from runs.models import Run, ScheduleOccurrence, Trigger, TriggerFiring, Webhook, WebhookDelivery
from runs.queue import claims
from runs.schedules import tick as schedules
from runs.schedules import triggers
from runs.worker import external_runs, recovery, webhooks
from runs.worker.resuming import plan_resumption

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def queue_run(alice, worker, make_agent, make_tool):
    """A queued run of an agent whose only tool has this effect."""

    def queue_run(effect, **more):
        agent = make_agent(f"does-{effect}", tools=[make_tool(f"do_{effect}", effect=effect)])
        return intake.accept_message(user=alice, agent=agent, text="go", **more).run

    return queue_run


@pytest.fixture
def hold(queue_run):
    """Requested after the rows of the backup: they were there when it was restored."""

    def hold():
        return SiteHold.objects.create(snapshot_at=clock.near() - HOUR, reason="restored from a backup")

    return hold


def resume(*options):
    said = StringIO()
    call_command("resume", *options, stdout=said)
    return said.getvalue()


def status_of(run):
    return Run.objects.get(pk=run.pk).status


def test_no_run_is_taken_on_hold(queue_run, hold):
    queued, running = queue_run("read"), queue_run("idempotent")
    assert claims.take_run(running.pk, "a worker of before")
    Run.objects.filter(pk=running.pk).update(lease_expires_at=timezone.now() - HOUR)
    hold()
    assert claims.take_run(queued.pk, "a worker") is None
    assert claims.take_run(running.pk, "a worker") is None
    assert recovery.tick_recovery() == {}
    assert [status_of(queued), status_of(running)] == ["queued", "running"]


def test_nothing_is_started_or_delivered_on_hold(alice, make_schedule, make_agent, hold, worker):
    schedule = make_schedule()
    trigger = Trigger.objects.create(owner=alice, name="t", kind="webhook", agent=make_agent("a"))
    firing = TriggerFiring.objects.create(trigger=trigger, key="k")
    webhook = Webhook.objects.create(owner=alice, url="https://example.org/")
    due = timezone.now() - HOUR
    delivery = WebhookDelivery.objects.create(webhook=webhook, type="run.finished", body={}, next_attempt_at=due)
    hold()
    assert schedules.tick_schedules() == {"claimed": 0, "started": 0, "settled": 0}
    assert (triggers.tick_triggers(), webhooks.send_due()) == (0, 0)
    webhooks.deliver(str(delivery.pk))
    for row in (schedule, firing, delivery):
        row.refresh_from_db()
    assert not schedule.occurrences.exists()
    assert (firing.outcome, delivery.attempts, worker.sent) == ("pending", 0, type(worker.sent)())


def test_an_outside_program_claims_nothing_on_hold(queue_run, hold, alice):
    run = queue_run("write", trigger=Run.Trigger.EXTERNAL)
    hold()
    with pytest.raises(external_runs.NotClaimable, match="on hold"):
        external_runs.claim_external_run(run, executor="mine", standing=CredentialCheck())


def test_no_step_is_executed_on_hold(hold, monkeypatch):
    hold()
    monkeypatch.setattr(execution.checks, "require_shared", lambda *_: pytest.fail("it was begun"))
    execution.execute_step("0198c5b0-0000-7000-8000-000000000000")


def test_resume_ends_what_may_do_something_twice_and_continues_the_rest(queue_run, hold, worker):
    harmless, in_doubt = queue_run("read"), queue_run("sends_out")
    hold()
    later = queue_run("write")  # sent to the restored site
    said = resume()
    assert f"1 runs end as failed (code restored): they may do something a second time\n  {in_doubt.pk}" in said
    assert f"1 runs continue\n  {harmless.pk}" in said
    assert (status_of(in_doubt), Run.objects.get(pk=in_doubt.pk).error["code"]) == ("failed", "restored")
    assert claims.take_run(harmless.pk, "a worker") and claims.take_run(later.pk, "a worker")
    assert not SiteHold.objects.exists()
    assert AuditEvent.objects.filter(action="site.resumed").count() == 1


def test_an_agent_that_calls_one_that_sends_is_in_doubt(alice, worker, make_agent, make_tool, hold):
    make_agent("sender", tools=[make_tool("send", effect="sends_out")])
    boss = make_agent("boss", tools=[Tool.objects.get(kind="agent", owner=alice)])
    run = intake.accept_message(user=alice, agent=boss, text="go").run
    assert [one.pk for one in plan_resumption(hold()).ending] == [run.pk]


def test_plan_changes_nothing_and_run_all_continues_everything(queue_run, hold):
    run = queue_run("write")
    hold()
    assert "1 runs end" in resume("--plan")
    assert SiteHold.objects.exists() and status_of(run) == "queued"
    assert "0 runs end" in resume("--run-all")
    assert claims.take_run(run.pk, "a worker")


def test_due_times_and_events_of_the_lost_time_are_not_started(alice, make_schedule, make_agent, hold, worker):
    schedule = make_schedule(missed_policy="all")
    trigger = Trigger.objects.create(owner=alice, name="t", kind="webhook", agent=make_agent("a"))
    firing = TriggerFiring.objects.create(trigger=trigger, key="k")
    hold()
    resume()
    schedules.tick_schedules()
    triggers.tick_triggers()
    firing.refresh_from_db()
    schedule.refresh_from_db()
    assert firing.outcome == "refused" and schedule.next_due_at > timezone.now()
    assert set(ScheduleOccurrence.objects.values_list("outcome", flat=True)) == {"skipped"}
    assert not Run.objects.exists()


def test_the_lost_time_does_not_count_against_a_deadline(queue_run, hold, monkeypatch):
    run = queue_run("read")
    before = timezone.now() - timedelta(minutes=1)
    Run.objects.filter(pk=run.pk).update(deadline=before)
    resumed_at = hold().snapshot_at + HOUR
    monkeypatch.setattr(clock, "near", lambda: resumed_at)
    resume()
    assert Run.objects.get(pk=run.pk).deadline == before + HOUR


def test_resume_without_a_hold_says_so(db):
    assert resume() == "The site is not on hold.\n"
