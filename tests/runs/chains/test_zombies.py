"""A worker that was stopped for longer than its lease starts nothing more for a chain that it lost."""

import pytest

from agents.tools import ToolResult
from runs.chains import advance
from runs.exceptions import LeaseLost, RunWaits
from runs.intake import chains as intake_chains
from runs.intake import messages as intake
from runs.models import Run, RunEvent, StepRun, ToolCallRecord
from runs.queue import claims, endings
from runs.queue.leases import Lease

pytestmark = pytest.mark.django_db(transaction=True)
ONE = [{"key": "a", "tool": "one"}]
TWO = [*ONE, {"key": "b", "tool": "two"}]


@pytest.fixture
def zombie(make_chain, make_agent, alice, worker):
    """A claimed run of a chain, and the lease of the worker that claimed it."""

    def make(*given):
        make_agent()
        run = claims.claim_run(str(intake.start_chain(user=alice, chain=make_chain(*given), input={}).pk))
        return run, Lease(run)

    return make


@pytest.mark.parametrize("given", [ONE, TWO, [{"key": "a", "agent": "helper", "input": {"message": "'Hi'"}}]])
def test_after_another_worker_took_the_run(zombie, functions, given):
    run, lease = zombie(*given)
    Run.objects.filter(pk=run.pk).update(attempt=run.attempt + 1)
    with pytest.raises(LeaseLost):
        advance.advance(run, lease)
    assert not StepRun.objects.filter(run=run).exists() and not Run.objects.filter(parent=run).exists()
    assert functions.asked == []


def test_after_the_run_was_cancelled(zombie, functions):
    run, lease = zombie(*ONE)
    endings.finish_run(Run.objects.get(pk=run.pk), "cancelled", error={"code": "cancelled", "message": "no"})
    with pytest.raises(LeaseLost):
        advance.advance(run, lease)
    assert functions.asked == [] and not StepRun.objects.filter(run=run).exists()


def test_a_run_that_has_ended_gets_no_children(zombie):
    run, _ = zombie(*ONE)
    endings.finish_run(Run.objects.get(pk=run.pk), "cancelled", error={"code": "cancelled", "message": "no"})
    with pytest.raises(LeaseLost):
        intake_chains.tell_parent(run, {"run": "0", "agent": "helper"})
    assert not RunEvent.objects.filter(run=run, type="child.started").exists()


def test_a_call_that_answers_after_another_worker_took_the_run_writes_nothing(zombie, functions):
    run, lease = zombie(*ONE, {"key": "b", "tool": "two", "needs": ["a"]})

    def answer_late(call, context):
        Run.objects.filter(pk=run.pk).update(attempt=run.attempt + 1)
        return ToolResult(ok=True, value=1)

    functions.answers.append(answer_late)
    with pytest.raises(LeaseLost):
        advance.advance(run, lease)
    assert ToolCallRecord.objects.get(run=run).outcome == ""
    assert StepRun.objects.get(run=run).status == "running"
    assert not RunEvent.objects.filter(run=run, type="tool.finished").exists()


def test_a_call_that_another_worker_has_begun_again_is_not_answered_by_the_first(zombie, functions):
    run, lease = zombie({"key": "a", "tool": "one", "retry": {"attempts": 2}})

    def answer_late(call, context):
        ToolCallRecord.objects.filter(pk=call.id).update(attempt=2)
        return ToolResult.failed("closed", "later")

    functions.answers.append(answer_late)
    with pytest.raises(RunWaits):
        advance.advance(run, lease)
    assert ToolCallRecord.objects.get(run=run).outcome == ""
    assert StepRun.objects.get(run=run).status == "running"
