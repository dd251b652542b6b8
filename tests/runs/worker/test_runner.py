"""The one loop, driven through the one door against a stub that speaks OpenAI's protocol."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Tool
from agents.tools import CallPending, ToolFailed, ToolResult
from runs.calls import approvals
from runs.exceptions import RunDone, RunEnded, RunWaits
from runs.intake import messages as intake
from runs.loop.conversation import Conversation
from runs.models import Approval, Budget, Message, Run, ToolCallRecord
from runs.queue import claims, endings
from runs.worker import recovery, runner
from tests.fakes import Turn, calls, fails, says

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    return make_agent(tools=[make_tool()], provider=stub_provider)


def types_of(run):
    return list(run.events.values_list("type", flat=True))


def grant_mode(agent, mode):
    agent.grants.update(mode=mode)


def test_a_model_call_starts_when_the_model_is_asked_not_when_it_answers(worker, alice, agent, stub):
    stub.script(Turn(text="Hello Alice", silent_s=0.3))
    run = worker.send_message(alice, "Hello", agent)
    call = run.model_calls.get()
    assert call.wall_ms >= 300
    assert call.started_at + timedelta(milliseconds=call.wall_ms) <= run.finished_at


def test_a_plain_message_gets_a_reply(worker, alice, agent, stub):
    stub.script(says("Hello Alice"))
    run = worker.send_message(alice, "Hello", agent)
    assert run.status == "succeeded"
    assert [message.text for message in run.messages.order_by("seq")] == ["Hello", "Hello Alice"]
    assert types_of(run) == ["run.queued", "run.started", "model.finished", "run.finished"]
    assert run.input_tokens > 0


def test_a_tool_call_is_recorded_made_and_shown_to_the_model(worker, alice, agent, stub, functions):
    stub.script(calls(("add", {"a": 40, "b": 2})), says("It is 42"))
    run = worker.send_message(alice, "What is 40 + 2?", agent)
    assert run.status == "succeeded" and run.turns == 2
    record = run.tool_calls.get()
    assert (record.name, record.outcome, record.result, record.attempt) == ("add", "ok", {"sum": 42}, 1)
    assert functions.asked == [("add", {"a": 40, "b": 2}, str(record.pk))]
    assert types_of(run) == [
        "run.queued", "run.started", "model.finished", "tool.called", "tool.finished", "model.finished", "run.finished",
    ]  # fmt: skip
    assert [event.seq for event in run.events.all()] == list(range(1, 8))


def test_a_second_message_remembers_the_first_and_its_calls(worker, alice, agent, stub, functions):
    stub.script(calls(("add", {"a": 1, "b": 2})), says("It is 42"), says("You asked for 1 + 2"))
    first = worker.send_message(alice, "What is 1 + 2?", agent)
    worker.send_message(alice, "What did I ask?", agent, session=first.session)
    roles = [message["role"] for message in stub.requests[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_invalid_arguments_go_back_to_the_model(worker, alice, agent, stub, functions):
    stub.script(calls(("add", {"a": "many"})), calls(("add", {"a": 1, "b": 2})), says("done"))
    run = worker.send_message(alice, "add", agent)
    assert run.status == "succeeded"
    assert [record.outcome for record in run.tool_calls.all()] == ["failed", "ok"]
    assert len(functions.asked) == 1


def test_an_unknown_tool_is_denied_and_the_run_goes_on(worker, alice, agent, stub, functions):
    stub.script(calls(("fly", {})), says("I cannot fly"))
    run = worker.send_message(alice, "fly", agent)
    assert run.status == "succeeded"
    assert run.tool_calls.get().outcome == "denied"


def test_a_grant_changed_to_deny_reaches_a_run_at_work(worker, alice, agent, stub, functions):
    grant_mode(agent, "deny")
    stub.script(calls(("add", {"a": 1, "b": 2})), says("sorry"))
    run = worker.send_message(alice, "add", agent)
    assert functions.asked == []
    assert run.tool_calls.get().outcome == "denied"


def test_it_asks_and_waits_without_a_worker_then_goes_on(worker, alice, agent, stub, functions):
    grant_mode(agent, "ask")
    stub.script(calls(("add", {"a": 1, "b": 2})), says("done"))
    run = worker.send_message(alice, "add", agent)
    assert (run.status, run.waiting_for, run.lease_owner) == ("waiting", "approval", "")
    assert functions.asked == []
    with worker.capture(execute=True):
        approvals.decide_approval(run.approvals.get(), "approve", by=alice, arguments={"a": 5, "b": 6})
    worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert functions.asked[0][1] == {"a": 5, "b": 6}
    assert "run.resumed" in types_of(run)


def test_a_denied_call_is_never_made(worker, alice, agent, stub, functions):
    grant_mode(agent, "ask")
    stub.script(calls(("add", {"a": 1, "b": 2})), says("then not"))
    run = worker.send_message(alice, "add", agent)
    with worker.capture(execute=True):
        approvals.decide_approval(run.approvals.get(), "deny", by=alice, note="no")
    worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded" and functions.asked == []
    assert run.tool_calls.get().outcome == "denied"


def test_nobody_answers_and_the_default_does(worker, alice, agent, stub, functions):
    grant_mode(agent, "ask")
    stub.script(calls(("add", {"a": 1, "b": 2})), says("nobody answered"))
    run = worker.send_message(alice, "add", agent)
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with worker.capture(execute=True):
        recovery.tick_recovery()
    worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert run.approvals.get().status == "expired"
    assert functions.asked == []


def test_an_approval_dies_with_its_run(worker, alice, agent, stub, functions):
    grant_mode(agent, "ask")
    stub.script(calls(("add", {"a": 1, "b": 2})))
    run = worker.send_message(alice, "add", agent)
    with worker.capture(execute=True):
        endings.cancel_run(run, by=alice, reason="changed my mind")
    run.refresh_from_db()
    assert run.status == "cancelled" and run.error["message"] == "changed my mind"
    assert run.approvals.get().status == "void"
    assert run.tool_calls.get().outcome == "denied"


def test_out_of_steps_one_last_answer_is_asked_for_without_tools(
    worker, alice, make_agent, make_tool, stub_provider, stub, functions
):
    agent = make_agent(tools=[make_tool()], provider=stub_provider, max_steps=2)
    stub.script(calls(("add", {"a": 1, "b": 2})), calls(("add", {"a": 1, "b": 3})), says("this far I came"))
    run = worker.send_message(alice, "add for ever", agent)
    assert (run.status, run.error["code"]) == ("partial", "step_limit")
    assert not stub.requests[-1].get("tools")
    assert run.messages.get(role="assistant").text == "this far I came"


def test_the_output_schema_is_kept_after_one_repair(worker, alice, make_agent, stub_provider, stub):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agent = make_agent(provider=stub_provider, output_schema=schema)
    stub.script(says("three"), says('Here: ```json\n{"n": 3}\n```'))
    run = worker.send_message(alice, "how many?", agent)
    assert (run.status, run.output) == ("succeeded", {"n": 3})


def test_a_reply_that_never_fits_is_a_typed_failure(worker, alice, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider, output_schema={"type": "integer"})
    stub.script(says("three"), says("four"))
    run = worker.send_message(alice, "how many?", agent)
    assert (run.status, run.error["code"]) == ("failed", "output_invalid")
    assert "four" in run.error["message"]


def test_a_failing_tool_is_told_to_the_model(worker, alice, agent, stub, functions):
    functions.answers.append(ToolFailed("the shop is closed", code="closed"))
    stub.script(calls(("add", {"a": 1, "b": 2})), says("the shop is closed"))
    run = worker.send_message(alice, "buy", agent)
    assert run.status == "succeeded"
    assert run.tool_calls.get().error["code"] == "closed"


def test_a_crash_in_a_call_with_effect_makes_its_outcome_unknown(worker, alice, agent, stub, functions):
    functions.answers.append(KeyboardInterrupt())
    stub.script(calls(("add", {"a": 1, "b": 2})), says("I do not know whether it happened"))
    with pytest.raises(KeyboardInterrupt):
        worker.send_message(alice, "send it", agent)
    run = Run.objects.get()
    assert run.status == "running"
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    recovery.tick_recovery()
    worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded" and "run.recovered" in types_of(run)
    assert run.tool_calls.get().outcome == "unknown"
    assert len(functions.asked) == 1
    assert "run.recovered" in types_of(run)


def test_a_crash_in_a_reading_call_repeats_it_under_the_same_id(
    worker, alice, make_agent, make_tool, stub_provider, stub, functions
):
    agent = make_agent(tools=[make_tool(effect="read")], provider=stub_provider)
    functions.answers.append(KeyboardInterrupt())
    stub.script(calls(("add", {"a": 1, "b": 2})), says("42"))
    with pytest.raises(KeyboardInterrupt):
        worker.send_message(alice, "read it", agent)
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    recovery.tick_recovery()
    worker.work()
    record = ToolCallRecord.objects.get()
    assert (record.outcome, record.attempt) == ("ok", 2)
    assert {asked[2] for asked in functions.asked} == {str(record.pk)} and len(functions.asked) == 2


def test_two_workers_claim_one_run_and_one_wins(worker, alice, agent, stub):
    stub.script(says("hi"))
    with worker.capture(execute=True):
        from runs.intake import messages as intake

        taken = intake.accept_message(user=alice, text="hi", agent=agent)
    assert claims.take_run(taken.run.pk, "one") is not None
    assert claims.take_run(taken.run.pk, "two") is None


def test_a_pending_device_call_waits_and_is_asked_again(worker, alice, agent, stub, functions):
    functions.answers += [CallPending("device"), ToolResult(ok=True, value="from the laptop")]
    stub.script(calls(("add", {"a": 1, "b": 2})), says("got it"))
    run = worker.send_message(alice, "look", agent)
    assert (run.status, run.waiting_for) == ("waiting", "device")
    with worker.capture(execute=True):
        endings.wake(run.pk)
    worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert run.tool_calls.get().attempt == 1


def test_a_model_that_fails_for_good_is_a_typed_ending(worker, alice, agent, stub):
    stub.script(*[fails(500)] * 10)
    run = worker.send_message(alice, "hi", agent)
    assert run.status == "failed" and run.error["code"]
    assert "model.failed" in types_of(run)


def test_a_used_up_budget_ends_the_run_before_the_model_is_asked(worker, alice, agent, stub):
    Budget.objects.create(user=alice, period="day", max_runs=1)
    stub.script(says("one"), says("two"))
    assert worker.send_message(alice, "hi", agent).status == "succeeded"
    run = worker.send_message(alice, "hi", agent)
    assert (run.status, run.error["code"]) == ("failed", "budget_exhausted")
    assert len(stub.requests) == 1


@pytest.mark.circles
def test_a_run_that_repeats_itself_is_warned_then_stopped(worker, alice, agent, stub, functions):
    stub.script(*[calls(("add", {"a": 1, "b": 2}))] * 8)
    run = worker.send_message(alice, "loop", agent)
    assert (run.status, run.error["code"]) == ("failed", "stuck")
    assert "stuck.warned" in types_of(run) and run.turns == 4


@pytest.mark.circles
def test_agents_that_send_each_other_to_and_fro_are_stopped_though_the_run_waits_for_each(
    worker, alice, make_agent, stub_provider, stub
):
    asked = [make_agent(name, provider=stub_provider) for name in ("ann", "ben")]
    tools = [Tool.objects.get(kind="agent", source={"agent": agent.pk}) for agent in asked]
    boss = make_agent("boss", provider=stub_provider, tools=tools)
    for turn in range(8):
        stub.script(calls((("ann", "ben")[turn % 2], {"task": "Refund it"})), says(f"Ask {('ben', 'ann')[turn % 2]}."))
    run = worker.send_message(alice, "Refund it", boss)
    assert (run.status, run.error["code"], run.turns) == ("failed", "stuck", 4)
    assert types_of(run).count("stuck.warned") == 1


@pytest.mark.circles
def test_a_run_that_waits_still_knows_that_it_was_warned(worker, alice, agent, stub, functions):
    look = calls(("add", {"a": 1, "b": 2}))
    stub.script(look, look, look, calls(("add", {"a": 3, "b": 4})), says("done"))
    functions.answers.extend([ToolResult(ok=True, value={"sum": 3})] * 3 + [CallPending("timer", until=timezone.now())])
    run = worker.send_message(alice, "add", agent)
    with worker.capture(execute=True):
        endings.wake(run.pk)
    worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    told = [message["content"] for message in stub.requests[-1]["messages"] if message["role"] == "user"]
    assert [text for text in told if "circles" in text] == [run.policy["warned"]["reason"]]


@pytest.mark.circles
def test_a_worker_that_vanishes_after_the_warning_takes_no_chance_away(
    worker, alice, make_agent, make_tool, stub_provider, stub, functions, monkeypatch
):
    agent = make_agent(tools=[make_tool(effect="read")], provider=stub_provider)
    functions.answers.extend(ToolResult(ok=True, value=thrown) for thrown in (2, 3, 5, 1))
    stub.script(*[calls(("add", {"a": 1, "b": 2}))] * 4, says("It is one"))
    ask, asked = Conversation.ask, []

    def vanish_at_the_fifth(self, **more):
        asked.append(self.run.turns)
        if len(asked) == 5:
            raise KeyboardInterrupt
        return ask(self, **more)

    monkeypatch.setattr(Conversation, "ask", vanish_at_the_fifth)
    with pytest.raises(KeyboardInterrupt):
        worker.send_message(alice, "throw", agent)
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    recovery.tick_recovery()
    worker.work()
    run = Run.objects.get()
    assert (run.status, run.policy["warned"]["turn"]) == ("succeeded", 4)
    assert stub.requests[-1]["messages"][-1]["content"] == run.policy["warned"]["reason"]


def test_a_message_behind_a_busy_one_follows_it(worker, alice, agent, stub, functions):
    grant_mode(agent, "ask")
    stub.script(calls(("add", {"a": 1, "b": 2})), says("first"), says("second"))
    first = worker.send_message(alice, "one", agent)
    second = worker.send_message(alice, "two", agent, session=first.session, on_busy="enqueue")
    assert second.status == "queued" and second.after_id == first.pk
    with worker.capture(execute=True):
        approvals.decide_approval(first.approvals.get(), "approve", by=alice)
    worker.work()
    second.refresh_from_db()
    assert second.status == "succeeded"
    texts = [message.text for message in Message.objects.filter(session=first.session).order_by("seq")]
    assert texts[-1] == "second"


def test_an_interrupting_message_cancels_the_one_at_work(worker, alice, agent, stub, functions):
    grant_mode(agent, "ask")
    stub.script(calls(("add", {"a": 1, "b": 2})), says("second"))
    first = worker.send_message(alice, "one", agent)
    second = worker.send_message(alice, "two", agent, session=first.session, on_busy="interrupt")
    first.refresh_from_db()
    assert (first.status, second.status) == ("cancelled", "succeeded")


def test_a_run_past_its_deadline_expires(worker, alice, agent, stub, functions):
    grant_mode(agent, "ask")
    stub.script(calls(("add", {"a": 1, "b": 2})))
    run = worker.send_message(alice, "one", agent)
    Run.objects.update(deadline=timezone.now() - timedelta(seconds=1))
    recovery.tick_recovery()
    run.refresh_from_db()
    assert (run.status, run.error["code"]) == ("expired", "deadline")


@pytest.mark.parametrize(("crashes", "ending"), [(2, ("succeeded", 0)), (5, ("succeeded", 0)), (6, ("failed", 6))])
def test_workers_that_vanish_before_a_turn_is_done_are_counted(worker, alice, agent, stub, functions, crashes, ending):
    stub.script(calls(("add", {"a": 1, "b": 2})), says("done"))
    with worker.capture(execute=True):
        run = intake.accept_message(user=alice, text="go", agent=agent).run
    Run.objects.filter(pk=run.pk).update(crashes=crashes)
    worker.work()
    run.refresh_from_db()
    assert (run.status, run.crashes) == ending
    assert run.error is None or run.error["code"] == "worker_lost"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("outcome", [RunEnded("failed", "broken", "it broke"), RunWaits("timer"), RunDone()])
def test_a_worker_that_lost_its_run_puts_it_down(worker, alice, agent, monkeypatch, outcome):
    """Even if it notices that only when it writes how its work came out."""

    def stopped_meanwhile(run, lease):
        Run.objects.filter(pk=run.pk).update(attempt=run.attempt + 1)
        raise outcome

    monkeypatch.setattr(runner, "work_on_run", stopped_meanwhile)
    run = worker.send_message(alice, "Hello", agent)
    assert (run.status, run.attempt) == ("running", 2) and "run.finished" not in types_of(run)
