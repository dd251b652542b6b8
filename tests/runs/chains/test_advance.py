"""Chains run durably: sequence, branches, joins, routers, loops, failures."""

from datetime import timedelta

import pytest

from agents.tools import ToolFailed, ToolResult
from plumbing import clock
from runs.intake import messages as intake
from runs.models import Run, RunEvent, StepRun, ToolCallRecord
from runs.queue import endings, leases
from runs.worker import recovery
from tests.chains import step_rows
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db


def answer(value):
    return ToolResult(ok=True, value=value)


def test_a_sequence_passes_results_on_and_stays_in_one_worker(make_chain, run_chain, functions):
    functions.answers += [answer({"mails": [1, 2]}), answer("two mails")]
    chain = make_chain(
        {"key": "fetch", "tool": "fetch", "input": {"box": "input.box"}},
        {"key": "tell", "tool": "tell", "input": {"count": "length(steps.fetch.output.mails)"}},
        strategy="sequential",
    )
    run = run_chain(chain, {"box": "inbox"})
    assert (run.status, run.output, run.attempt) == ("succeeded", "two mails", 1)
    assert [asked[:2] for asked in functions.asked] == [("fetch", {"box": "inbox"}), ("tell", {"count": 2})]
    told = list(RunEvent.objects.filter(run=run).values_list("type", flat=True))
    assert told[0] == "run.queued" and told[-1] == "run.finished"
    assert told.count("step.finished") == 2


def test_branches_fan_out_and_join(make_chain, run_chain, functions):
    functions.answers += [answer(1), answer(2), answer(3), answer(4)]
    chain = make_chain(
        {"key": "a", "tool": "one"},
        {"key": "b", "tool": "two", "needs": ["a"]},
        {"key": "c", "tool": "three", "needs": ["a"]},
        {"key": "d", "tool": "four", "needs": ["b", "c"], "input": {"x": "steps.b.output", "y": "steps.c.output"}},
    )
    run = run_chain(chain)
    assert run.status == "succeeded"
    assert functions.asked[-1][1] in ({"x": 2, "y": 3}, {"x": 3, "y": 2})
    assert len(functions.asked) == 4


def test_a_branch_that_fails_lets_its_sibling_end_and_fails_the_run(make_chain, run_chain, functions):
    def by_name(call, context):
        if call.name == "bad":
            raise ToolFailed("the disk is full", code="disk_full")
        return answer("good")

    functions.answers += [by_name] * 3
    chain = make_chain(
        {"key": "bad", "tool": "bad"},
        {"key": "good", "tool": "good"},
        {"key": "last", "tool": "late", "needs": ["bad", "good"]},
    )
    run = run_chain(chain)
    assert run.status == "failed"
    assert run.error == {"code": "disk_full", "message": "the disk is full", "step": "bad"}
    assert step_rows(run) == {"bad": "failed", "good": "succeeded"}


def test_a_router_runs_the_first_that_fits(make_chain, run_chain, functions):
    functions.answers += [answer("billing")]
    chain = make_chain(
        {"key": "billing", "tool": "bill", "when": "input.kind == 'bill'"},
        {"key": "rest", "tool": "rest"},
        strategy="router",
    )
    run = run_chain(chain, {"kind": "bill"})
    assert (run.status, run.output) == ("succeeded", "billing")
    assert step_rows(run) == {"billing": "succeeded", "rest": "skipped"}


def test_a_step_for_whoever_fits_keeps_whom_the_router_picked_and_why(make_chain, run_chain, make_agent):
    make_agent("cook", capabilities=["recipes"])
    chain = make_chain({"key": "ask", "target_kind": "router", "input": {"message": "input.text"}})
    run = run_chain(chain, {"text": "Two recipes, please"})
    assert run.status == "succeeded"
    route = run.children.get().route
    assert (route.agent.name, route.method, route.candidates[0]["agent"]) == ("cook", "capability", "cook")
    assert run.children.get().events.get(type="run.routed").data == route.as_json()
    run = run_chain(chain, {"text": "zzz"})
    assert run.error["code"] == "nobody_fits" and not run.children.exists()


def test_a_mapping_to_nothing_fails_the_step_and_says_what_is_there(make_chain, run_chain, functions):
    functions.answers += [answer({"mails": []})]
    chain = make_chain(
        {"key": "a", "tool": "one"}, {"key": "b", "tool": "two", "needs": ["a"], "input": {"x": "steps.a.output.males"}}
    )
    run = run_chain(chain)
    assert run.status == "failed"
    assert run.error["code"] == "nothing_there"
    assert "steps.a.output has mails, and no “males”" in run.error["message"]


def test_for_each_gathers_results_in_order_and_errors_beside(make_chain, run_chain, functions, worker):
    def odd_fails(call, context):
        if call.arguments["n"] % 2:
            raise ToolFailed(f"{call.arguments['n']} is odd", code="odd")
        return answer(call.arguments["n"] * 10)

    functions.answers += [odd_fails] * 7
    chain = make_chain(
        {"key": "each", "tool": "one", "for_each": "input.numbers", "input": {"n": "item"}, "on_error": "continue"}
    )
    run = run_chain(chain, {"numbers": list(range(7))})
    assert run.status == "partial"
    assert run.output == [0, None, 20, None, 40, None, 60]
    row = StepRun.objects.get(run=run, item=-1)
    assert (row.status, row.done, row.failed, row.total) == ("partial", 7, 3, 7)
    assert row.error["items"][0] == {"index": 1, "code": "odd", "message": "1 is odd"}


def test_a_null_item_is_an_item_like_any_other(make_chain, run_chain, functions):
    functions.answers += [lambda call, context: answer(call.arguments)] * 3
    each = {"key": "each", "tool": "one", "for_each": "input.rows", "input": {"row": "item", "name": "item.name"}}
    run = run_chain(make_chain({**each, "max_parallel": 1}), {"rows": [{"name": "a"}, None, {"name": None}]})
    assert run.status == "succeeded"
    assert [(one["row"], one["name"]) for one in run.output] == [
        ({"name": "a"}, "a"), (None, None), ({"name": None}, None),
    ]  # fmt: skip


def test_a_condition_compares_with_another_field(make_chain, run_chain, functions):
    functions.answers += [answer(1)]
    chain = make_chain({"key": "a", "tool": "one", "when": "input.count > input.limit"})
    assert step_rows(run_chain(chain, {"count": 3, "limit": 5})) == {"a": "skipped"}
    assert step_rows(run_chain(chain, {"count": 9, "limit": 5})) == {"a": "succeeded"}
    run = run_chain(chain, {"count": 9, "limit": "5"})
    assert run.error["code"] == "not_comparable" and "a number ('9') with text ('5')" in run.error["message"]


def test_for_each_stops_at_the_first_failure_unless_told_to_continue(make_chain, run_chain, functions):
    functions.answers += [answer(0), ToolFailed("no", code="no")]
    chain = make_chain({"key": "each", "tool": "one", "for_each": "input.n", "input": {"n": "item"}, "max_parallel": 1})
    run = run_chain(chain, {"n": list(range(50))})
    assert (run.status, run.error["code"], run.error["step"]) == ("failed", "items_failed", "each")
    assert len(functions.asked) < 10
    assert StepRun.objects.filter(run=run, item__gte=0, status="cancelled").count() > 40


@pytest.mark.parametrize(
    ("input", "code"), [({"n": 3}, "not_a_list"), ({}, "nothing_there"), ({"n": [0] * 10_001}, "too_many_items")]
)
def test_for_each_over_the_wrong_thing_fails_with_the_reason(make_chain, run_chain, functions, input, code):
    run = run_chain(make_chain({"key": "each", "tool": "one", "for_each": "input.n"}), input)
    assert (run.status, run.error["code"]) == ("failed", code)
    assert functions.asked == []


def test_an_empty_for_each_is_done_at_once(make_chain, run_chain, functions):
    run = run_chain(make_chain({"key": "each", "tool": "one", "for_each": "input.n"}), {"n": []})
    assert (run.status, run.output) == ("succeeded", [])


def test_a_step_repeats_until_its_condition_holds(make_chain, run_chain, functions):
    functions.answers += [answer({"left": 2}), answer({"left": 1}), answer({"left": 0})]
    step = {
        "key": "drain", "tool": "drain", "repeat_until": {"condition": "output.left == `0`", "limit": 5},
        "input": {"before": {"path": "previous.left", "default": None}, "round": "round"},
    }  # fmt: skip
    run = run_chain(make_chain(step))
    assert (run.status, run.output) == ("succeeded", {"left": 0})
    assert [asked[1] for asked in functions.asked] == [
        {"before": None, "round": 0}, {"before": 2, "round": 1}, {"before": 1, "round": 2}
    ]  # fmt: skip


def test_a_loop_that_never_ends_is_stopped_at_its_limit(make_chain, run_chain, functions):
    step = {"key": "drain", "tool": "drain", "repeat_until": {"condition": "output.done", "limit": 3}}
    run = run_chain(make_chain(step))
    assert (run.status, run.error["code"], len(functions.asked)) == ("failed", "repeat_limit", 3)


def test_a_fallback_takes_the_failed_steps_place(make_chain, run_chain, functions):
    functions.answers += [ToolFailed("down", code="down"), answer("second best"), answer("done")]
    chain = make_chain(
        {"key": "a", "tool": "one", "on_error": "fallback", "fallback": "spare"},
        {"key": "spare", "tool": "two", "input": {"why": "steps.a.error.code"}},
        {"key": "b", "tool": "three", "needs": ["a"], "input": {"x": "steps.a.output"}},
    )
    run = run_chain(chain)
    assert (run.status, run.output) == ("succeeded", "done")
    assert [asked[1] for asked in functions.asked] == [{}, {"why": "down"}, {"x": "second best"}]


def test_a_failed_attempt_waits_and_is_tried_again(make_chain, run_chain, functions, worker):
    functions.answers += [ToolFailed("busy", code="busy"), answer("at last")]
    chain = make_chain({"key": "a", "tool": "one", "retry": {"attempts": 3, "backoff_s": 30, "jitter": 0}})
    run = run_chain(chain)
    assert (run.status, run.waiting_for) == ("waiting", "timer")
    row = StepRun.objects.get(run=run)
    assert row.status == "ready" and abs((row.wake_at - row.started_at).total_seconds() - 30) < 25
    assert abs((run.wake_at - row.wake_at).total_seconds()) < 1
    run = ring(worker, run)
    assert (run.status, run.output) == ("succeeded", "at last")


@pytest.mark.parametrize("ahead_s", [-100, 100])
def test_a_wait_before_a_repetition_goes_by_the_clock_of_the_database(
    make_chain, run_chain, functions, monkeypatch, ahead_s
):
    functions.answers += [ToolFailed("busy", code="busy")]
    theirs = clock.now() - timedelta(seconds=ahead_s)
    monkeypatch.setattr(clock, "now", lambda: theirs)
    run = run_chain(make_chain({"key": "a", "tool": "one", "retry": {"attempts": 2, "backoff_s": 30, "jitter": 0}}))
    assert StepRun.objects.get(run=run).wake_at == theirs + timedelta(seconds=30)


def ring(worker, run):
    """The clock reaches every timer of this run."""
    from datetime import timedelta

    from django.utils import timezone

    from runs.worker import recovery

    before = timezone.now() - timedelta(seconds=1)
    StepRun.objects.filter(run=run, wake_at__isnull=False).update(wake_at=before)
    Run.objects.filter(pk=run.pk).update(wake_at=before)
    with worker.capture(execute=True):
        recovery.tick_recovery()
    worker.work(limit=500)
    return Run.objects.get(pk=run.pk)


def test_an_agent_step_is_a_child_run_under_the_steps_policy(
    make_chain, run_chain, make_agent, make_tool, functions, alice
):
    make_agent("helper", tools=[make_tool("add")])
    chain = make_chain(
        {
            "key": "ask",
            "agent": "helper",
            "input": {"message": "input.question"},
            "policy": {"allowed": ["add"], "blocked": []},
        },
        output="steps.ask.output",
    )
    run = run_chain(chain, {"question": "add 19 and 23"})
    assert run.status == "succeeded", run.error
    child = Run.objects.get(parent=run)
    assert (child.trigger, child.agent.name, child.policy["step"]) == ("chain", "helper", "ask")
    assert "42" in run.output


def test_a_chain_runs_another_chain(make_chain, run_chain, functions):
    functions.answers += [answer("inner")]
    make_chain({"key": "a", "tool": "one", "input": {"x": "input.x"}}, name="inner")
    outer = make_chain({"key": "sub", "chain": "inner", "input": {"x": {"value": 5}}}, name="outer")
    run = run_chain(outer)
    assert (run.status, run.output) == ("succeeded", "inner")
    assert functions.asked[0][1] == {"x": 5}


def test_for_each_over_agents_starts_only_so_many_at_once(make_chain, run_chain, make_agent, functions, worker):
    make_agent("helper")
    chain = make_chain(
        {"key": "each", "agent": "helper", "for_each": "input.names", "input": {"message": "item"}, "max_parallel": 2}
    )
    with worker.capture(execute=True):
        from runs.intake import messages as intake

        run = intake.start_chain(user=chain.owner, chain=chain, input={"names": ["ann", "ben", "cem"]})
    worker.work(limit=1)
    assert Run.objects.filter(parent=run).count() == 2
    worker.work(limit=100)
    run.refresh_from_db()
    assert run.status == "succeeded", run.error
    assert len(run.output) == 3


def test_a_denied_tool_is_never_called(make_chain, run_chain, functions):
    run = run_chain(make_chain({"key": "a", "tool": "one"}, grants={"one": "deny"}))
    assert (run.status, run.error["code"], functions.asked) == ("failed", "denied", [])


def test_a_step_policy_narrows_the_grant(make_chain, run_chain, functions):
    run = run_chain(make_chain({"key": "a", "tool": "one", "policy": {"blocked": ["one"]}}))
    assert (run.status, run.error["code"], functions.asked) == ("failed", "denied", [])


def test_output_that_breaks_the_chains_schema_fails_the_run(make_chain, run_chain, functions):
    functions.answers += [answer("text")]
    run = run_chain(make_chain({"key": "a", "tool": "one"}, output_schema={"type": "object"}))
    assert (run.status, run.error["code"]) == ("failed", "output_invalid")


def test_input_that_breaks_the_chains_schema_starts_nothing(make_chain, run_chain, functions):
    from runs.exceptions import BrokenInput

    chain = make_chain({"key": "a", "tool": "one"}, input_schema={"type": "object", "required": ["box"]})
    with pytest.raises(BrokenInput):
        run_chain(chain, {})
    assert Run.objects.count() == 0


def test_a_cancel_in_the_middle_of_a_step_keeps_what_was_done_and_starts_no_more(make_chain, run_chain, functions):
    def cancelled_meanwhile(call, context):
        run = Run.objects.get(pk=context.run_id)
        endings.cancel_run(run, by=run.principal, reason="enough")
        leases.tell_cancelled(run.pk)
        assert context.is_cancelled()
        return answer("done")

    functions.answers += [answer(1), cancelled_meanwhile]
    chain = make_chain(*({"key": key, "tool": key} for key in ("one", "two", "three")), strategy="sequential")
    run = run_chain(chain)
    assert (run.status, run.error["message"]) == ("cancelled", "enough")
    assert step_rows(run) == {"one": "succeeded", "two": "succeeded"}
    assert [call.outcome for call in ToolCallRecord.objects.filter(run=run)] == ["ok", "ok"]
    assert len(functions.asked) == 2


def test_a_cancel_in_the_middle_of_a_for_each_leaves_the_rest_out(make_chain, run_chain, functions):
    def cancelled_meanwhile(call, context):
        run = Run.objects.get(pk=context.run_id)
        endings.cancel_run(run, by=run.principal, reason="enough")
        leases.tell_cancelled(run.pk)
        return answer("done")

    functions.answers += [answer(0), cancelled_meanwhile]
    chain = make_chain({"key": "each", "tool": "one", "for_each": "input.n", "input": {"n": "item"}})
    run = run_chain(chain, {"n": list(range(50))})
    assert run.status == "cancelled"
    assert len(functions.asked) == 2
    assert not StepRun.objects.filter(run=run, finished_at=None).exists()


def test_a_step_that_takes_too_long_ends_with_its_time_out(make_chain, run_chain, make_agent, worker, functions):
    make_agent("helper")
    chain = make_chain({"key": "ask", "agent": "helper", "input": {"message": "input.q"}, "timeout_s": 100})
    with worker.capture(execute=True):
        run = intake.start_chain(user=chain.owner, chain=chain, input={"q": "hello"})
    worker.work(limit=1)
    child = Run.objects.get(parent=run)
    assert (child.deadline - child.created_at).total_seconds() == pytest.approx(100, abs=30)
    worker.sent.clear()
    recovery.tick_recovery(child.deadline + timedelta(seconds=1))
    child.refresh_from_db()
    assert child.status == "queued", "the time in the queue is no time of the step"
    with worker.capture(execute=True):
        recovery.tick_recovery(child.deadline + recovery.LONGEST_QUEUE + timedelta(seconds=1))
    worker.work()
    run.refresh_from_db()
    assert (run.status, run.error["code"], run.error["step"]) == ("failed", "timeout", "ask")
    child.refresh_from_db()
    assert child.status == "expired"


def test_an_agent_ends_its_step_by_complete_and_hands_the_result_on(
    make_chain, run_chain, make_agent, make_tool, functions, stub, stub_provider
):
    stub.script(calls(("add", {"a": 1, "b": 2})), calls(("complete", {"result": {"sum": 3}})), says("never asked for"))
    functions.answers += [answer(3), answer("stored")]
    make_agent("helper", tools=[make_tool("add")], provider=stub_provider)
    chain = make_chain(
        {"key": "ask", "agent": "helper", "input": {"message": "input.q"}},
        {"key": "store", "tool": "keep", "input": {"n": "steps.ask.output.sum"}, "needs": ["ask"]},
    )
    run = run_chain(chain, {"q": "add 1 and 2"})
    assert (run.status, run.output) == ("succeeded", "stored"), run.error
    assert StepRun.objects.get(run=run, key="ask").output == {"sum": 3}
    assert functions.asked[1][:2] == ("keep", {"n": 3})
    assert len(stub.requests) == 2
    assert "complete" in [tool["function"]["name"] for tool in stub.requests[0]["tools"]]


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize(
    ("file", "n", "code"), [("7", 1, "unknown_source"), ("", "x", "input_invalid"), ("", 1, "not_published")]
)
def test_an_agent_step_that_cannot_begin_fails_and_does_not_go_round_for_ever(
    worker, alice, make_agent, make_chain, attempts, file, n, code
):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    agent = make_agent(input_schema=schema)
    given = {"message": "input.text", "n": "input.n"}
    retry = {"attempts": attempts, "backoff_s": 0}
    context = [{"source": "file", "id": "input.file"}] if file else []
    chain = make_chain({"key": "ask", "agent": "helper", "input": given, "retry": retry, "context": context})
    if code == "not_published":
        type(agent).objects.update(enabled=False)
    with worker.capture(execute=True):
        run = intake.start_chain(user=alice, chain=chain, input={"text": "Hi", "n": n, "file": file})
    worker.work(limit=20)
    run.refresh_from_db()
    assert (run.status, run.error and run.error["code"]) == ("failed", code)
    row = run.steps.get()
    assert row.status == "failed" and 1 <= row.attempt <= attempts and not run.children.exists()


def test_a_chain_step_whose_input_breaks_that_chains_schema_fails_with_the_reason(make_chain, run_chain):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    make_chain({"key": "two", "tool": "add"}, name="inner", input_schema=schema)
    run = run_chain(make_chain({"key": "one", "chain": "inner", "input": {"n": "input.n"}}, name="outer"), {"n": "x"})
    assert (run.status, run.error["code"]) == ("failed", "input_invalid"), run.error
    assert not run.children.exists() and run.steps.get().status == "failed"
