"""What may have been done is not done again in silence, and a worker that lost its run writes nothing more."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import ToolGrant
from agents.spec import GrantSpec
from agents.tools import ToolResult
from functions.sandbox.conversation import Conversation
from functions.sandbox.limits import Limits
from registry import factory
from runs.calls import approvals, resumption
from runs.calls.executor import ToolCallExecutor
from runs.events import record as events
from runs.exceptions import LeaseLost
from runs.models import Approval, Run, RunEvent, ToolCallRecord
from runs.queue import claims
from runs.queue.leases import Lease, hold_lease
from runs.worker import recovery, runner
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
OK = ToolResult(ok=True, value="sent")


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    """A function that only reads, as its author says, and a tool that writes."""
    outer = make_tool("outer", effect="read", input_schema={"type": "object"})
    send = make_tool("send", effect="write", input_schema={"type": "object"})
    return make_agent(tools=[outer, send], provider=stub_provider)


def crashed(worker, person, agent):
    """The worker vanished; another takes the run over."""
    with pytest.raises(KeyboardInterrupt):
        worker.send_message(person, "Go", agent)
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    recovery.tick_recovery()
    worker.work()
    return ToolCallRecord.objects.get(name="outer")


def sends_then(then):
    def answer(call, context):
        context.call_tool("send", {})
        if isinstance(then, BaseException):
            raise then
        return then

    return answer


def asked(functions, name):
    return [one for one in functions.asked if one[0] == name]


def test_a_function_that_has_written_through_a_callback_is_not_repeated_after_a_crash(
    worker, alice, agent, stub, functions
):
    functions.answers.extend([sends_then(KeyboardInterrupt()), OK])
    stub.script(calls(("outer", {})), says("I do not know whether it was sent."))
    record = crashed(worker, alice, agent)
    assert (record.outcome, len(asked(functions, "send"))) == ("unknown", 1)


def test_a_callback_that_was_under_way_in_a_crash_is_settled_with_its_call(worker, alice, agent, stub, functions):
    functions.answers.extend([sends_then(OK), KeyboardInterrupt()])
    stub.script(calls(("outer", {})), says("I do not know."))
    crashed(worker, alice, agent)
    assert set(ToolCallRecord.objects.values_list("name", "outcome")) == {("outer", "unknown"), ("send", "unknown")}


def test_a_function_that_only_read_through_callbacks_is_repeated(
    worker, alice, make_agent, make_tool, stub_provider, stub, functions
):
    tools = [make_tool(name, effect="read", input_schema={"type": "object"}) for name in ("outer", "send")]
    functions.answers.extend([sends_then(KeyboardInterrupt()), OK, OK])
    stub.script(calls(("outer", {})), says("done"))
    record = crashed(worker, alice, make_agent(tools=tools, provider=stub_provider))
    assert (record.outcome, record.attempt) == ("ok", 2)


@pytest.mark.parametrize("code", ["timeout", "function_crashed", "out_of_memory"])
def test_a_step_s_retry_does_not_repeat_a_function_that_was_cut_short_after_a_write(
    make_chain, run_chain, make_tool, functions, code
):
    make_tool("outer", effect="write", input_schema={"type": "object"})
    functions.answers.extend([ToolResult.failed(code, "cut short")] * 3)
    run = run_chain(make_chain({"key": "go", "tool": "outer", "retry": {"attempts": 3, "backoff_s": 0}}))
    assert (run.status, len(functions.asked)) == ("failed", 1)
    assert ToolCallRecord.objects.get(run=run).outcome == "unknown"


def test_a_step_s_retry_repeats_a_function_that_only_reads(make_chain, run_chain, make_tool, functions):
    make_tool("outer", effect="read", input_schema={"type": "object"})
    functions.answers.extend([ToolResult.failed("timeout", "cut short"), OK])
    run = run_chain(make_chain({"key": "go", "tool": "outer", "retry": {"attempts": 3, "backoff_s": 0}}))
    assert (run.status, len(functions.asked)) == ("succeeded", 2)


def test_a_worker_that_lost_its_run_writes_no_result_and_no_event(worker, alice, agent, stub, functions):
    def answer(call, context):
        Run.objects.update(lease_owner="another", attempt=7)
        return OK

    functions.answers.append(answer)
    stub.script(calls(("outer", {})))
    run = worker.send_message(alice, "Go", agent)
    assert (run.status, run.lease_owner) == ("running", "another")
    assert ToolCallRecord.objects.get().outcome == ""
    assert not RunEvent.objects.filter(type__in=["tool.finished", "run.finished"]).exists()


def test_a_call_that_was_settled_as_unknown_stays_so_and_its_late_result_is_kept_aside(
    worker, alice, agent, stub, functions
):
    def answer(call, context):
        ToolCallRecord.objects.update(outcome="unknown")
        return OK

    functions.answers.append(answer)
    stub.script(calls(("outer", {})), says("done"))
    worker.send_message(alice, "Go", agent)
    record = ToolCallRecord.objects.get()
    assert (record.outcome, record.details["late"]["value"]) == ("unknown", "sent")


def test_no_event_follows_the_end_of_a_run(alice, make_agent):
    run = Run.objects.create(principal=alice, agent=make_agent(), status="succeeded")
    events.record_event(run, "tool.log", {"message": "too late"})
    assert not RunEvent.objects.filter(run=run).exists()


def test_a_worker_does_not_claim_what_it_holds_itself(worker, alice, agent, stub):
    run = Run.objects.create(principal=alice, agent=agent, version=agent.published)
    held = claims.take_run(run.pk, claims.worker_name())
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(hours=1))  # its clock stepped
    with hold_lease(Lease(held)):
        runner.execute_run(str(run.pk))
        assert Run.objects.get().attempt == held.attempt


def test_a_process_that_somebody_killed_did_not_run_out_of_memory():
    conversation = Conversation.__new__(Conversation)
    conversation._limits = Limits(memory_mb=100)
    assert [conversation._signalled(9, usage(kb))[0] for kb in (10_000, 99_000)] == ["crash", "memory"]


def usage(peak_kb):
    return type("Usage", (), {"peak_kb": peak_kb, "cpu_s": 0.1, "status": 9})()


def test_of_two_workers_that_go_on_with_an_approved_call_one_starts_it(
    worker, alice, make_agent, make_tool, stub_provider, stub, functions
):
    tool = make_tool("send", effect="write", input_schema={"type": "object"})
    agent = make_agent(tools=[tool], provider=stub_provider)
    ToolGrant.objects.update(mode="ask")
    stub.script(calls(("send", {})))
    run = worker.send_message(alice, "Go", agent)
    approvals.decide_approval(Approval.objects.get(run=run), "approve", by=alice)
    slept = claims.take_run(run.pk, "slept")
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert claims.take_run(run.pk, "awake") is not None
    executor = ToolCallExecutor(
        slept, Lease(slept), {"send": factory.tool_spec(tool, GrantSpec(tool="send", tool_id=tool.pk))}
    )
    executor.read_grants()
    with pytest.raises(LeaseLost):
        resumption.resume_calls(executor, list(ToolCallRecord.objects.filter(run=run)))
    assert functions.asked == [] and ToolCallRecord.objects.get().waiting_for == "approval"
