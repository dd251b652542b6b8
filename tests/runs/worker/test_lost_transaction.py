"""PostgreSQL fails over to a replica that lacks the last transaction: the run neither hangs nor repeats its call.

What else vanished with the claim itself nobody can know: such a run is queued again (docs/howto/production.md).
"""

import pytest

from agents.tools import ToolResult
from runs.intake import messages as intake
from runs.models import ModelCall, Run, RunEvent, ToolCallRecord
from runs.worker import runner
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db


class Failover:
    """A tool that sends; while its first call is at work, what was written since `keep` vanishes."""

    def __init__(self):
        self.sent = []
        self.kept = None
        self.lose = lambda: None

    def call(self, tool, call, context):
        self.sent.append(call.arguments)
        if len(self.sent) == 1:
            self.lose()
        return ToolResult(ok=True, value={"sent": True})


@pytest.fixture
def sending(monkeypatch):
    from registry import toolsets

    made = Failover()
    monkeypatch.setitem(toolsets.TOOLSETS, "function", made)
    return made


@pytest.fixture
def run(alice, make_agent, make_tool, stub_provider, stub, worker):
    stub.script(calls(("send", {"a": 1, "b": 2})), says("done"), says("done again"))
    make_agent("sender", provider=stub_provider, tools=[make_tool("send", effect="sends_out")])
    return intake.accept_message(user=alice, agent="sender", text="send it").run


def test_the_record_of_a_call_vanishes_while_it_is_made(run, sending, worker):
    def lose():
        events = RunEvent.objects.filter(run=run)
        first = events.filter(type="tool.called").order_by("seq").first().seq
        events.filter(seq__gte=first).delete()
        ToolCallRecord.objects.filter(run=run).delete()
        Run.objects.filter(pk=run.pk).update(last_event=first - 1)

    sending.lose = lose
    runner.execute_run(str(run.pk))
    worker.work()
    assert len(sending.sent) == 1
    assert Run.objects.get(pk=run.pk).is_done
    numbers = list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_claim_itself_vanishes(run, sending, worker):
    """The worker that made the call stops working on the run and changes nothing of it: it is queued, as the rows say."""
    before = {name: getattr(run, name) for name in ("lease_owner", "attempt", "turns")}

    def lose():
        RunEvent.objects.filter(run=run, seq__gt=run.last_event).delete()
        ToolCallRecord.objects.filter(run=run).delete()
        ModelCall.objects.filter(run=run).delete()
        row = Run.objects.get(pk=run.pk)
        row.change(Run.Status.QUEUED, where={"status": "running"}, lease_expires_at=None, **before)
        Run.objects.filter(pk=run.pk).update(last_event=run.last_event)

    sending.lose = lose
    runner.execute_run(str(run.pk))
    stored = Run.objects.get(pk=run.pk)
    assert stored.status == "queued" and len(sending.sent) == 1
