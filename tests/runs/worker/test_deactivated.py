"""A deactivated account: its runs end, those at work before their next call."""

import pytest

from agents.models import Agent
from agents.tools import ToolResult
from runs.intake import messages as intake
from runs.models import Approval, Run, RunEvent
from runs.worker import deactivated
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    return make_agent(tools=[make_tool()], provider=stub_provider)


def deactivate(person):
    type(person).objects.filter(pk=person.pk).update(is_active=False)


def test_a_run_at_work_makes_no_further_call(worker, alice, agent, stub, functions):
    def deactivated_meanwhile(call, context):
        deactivate(alice)
        with worker.capture(execute=True):
            assert deactivated.stop_deactivated_accounts() == 1
        return ToolResult(ok=True, value=1)

    functions.answers.append(deactivated_meanwhile)
    stub.script(calls(("add", {"a": 1, "b": 2})), says("never said"))
    run = worker.send_message(alice, "add", agent)
    assert (run.status, run.error) == ("cancelled", {"code": "cancelled", "message": deactivated.REASON})
    assert len(stub.requests) == 1 and run.tool_calls.get().outcome in ("ok", "unknown")
    events = list(RunEvent.objects.filter(run=run).values_list("type", flat=True))
    assert "run.cancel_requested" in events and events[-1] == "run.finished"


def test_what_waits_and_what_is_queued_ends_too_and_others_go_on(worker, alice, bob, agent, stub):
    agent.grants.update(mode="ask")
    stub.script(calls(("add", {"a": 1, "b": 2})))
    waiting = worker.send_message(alice, "add", agent)
    queued = intake.accept_message(user=alice, text="add", agent=agent).run
    Agent.objects.update(owner=None)
    other = intake.accept_message(user=bob, text="add", agent=Agent.objects.get()).run
    assert deactivated.stop_deactivated_accounts() == 0
    deactivate(alice)
    assert deactivated.stop_deactivated_accounts() == 2
    statuses = dict(Run.objects.values_list("pk", "status"))
    assert statuses == {waiting.pk: "cancelled", queued.pk: "cancelled", other.pk: "queued"}
    assert Approval.objects.get().status == "void"
    assert deactivated.stop_deactivated_accounts() == 0
