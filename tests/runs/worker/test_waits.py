"""A worker is killed when its run begins to wait."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.tools import ToolResult
from runs.calls import approvals
from runs.models import Approval, Run
from runs.worker import recovery, runner
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db


def test_a_yes_is_not_overlooked_if_the_worker_is_killed_when_the_run_begins_to_wait(
    worker, alice, make_agent, make_tool, stub_provider, stub, functions, monkeypatch
):
    agent = make_agent(tools=[make_tool("add"), make_tool("look")], provider=stub_provider)
    agent.grants.filter(tool__name="add").update(mode="ask")

    def decided_meanwhile(call, context):
        approvals.decide_approval(Approval.objects.get(), "approve", by=alice)
        return ToolResult(ok=True, value=1)

    def killed(run):
        raise KeyboardInterrupt

    functions.answers.append(decided_meanwhile)
    stub.script(calls(("add", {"a": 1, "b": 2}), ("look", {"a": 1, "b": 2})), says("done"))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(runner, "has_run_news", killed)
        worker.send_message(alice, "add", agent)
    Run.objects.filter(status="running").update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    with worker.capture(execute=True):
        recovery.tick_recovery()
    worker.work()
    assert Run.objects.get().status == "succeeded"
    assert [name for name, *_ in functions.asked] == ["look", "add"]
