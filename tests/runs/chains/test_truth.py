"""No chain reports success for work that was not done."""

import pytest

from agents.graph import problems
from agents.spec import ChainSpec, StepSpec
from agents.tools import ToolFailed, ToolResult
from runs.models import Run, StepRun
from tests.chains import step_rows
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
READ = {"type": "object", "properties": {"path": {"type": "string"}}}
OFFLINE = ToolFailed("the laptop is not connected", code="device_offline")


def answer(value):
    return ToolResult(ok=True, value=value)


@pytest.fixture
def reader(make_agent, make_tool, stub_provider):
    """An agent with a tool that reads and one that writes."""
    tools = [make_tool("read", input_schema=READ, effect="read"), make_tool("keep", input_schema=READ, effect="write")]
    return make_agent("reader", tools=tools, provider=stub_provider)


def ask(**more):
    return {"key": "ask", "agent": "reader", "input": {"message": "input.q", "files": "input.files"}, **more}


GIVEN = {"q": "go", "files": ["a", "b"]}


def test_a_reply_after_calls_without_an_answer_is_no_success(make_chain, run_chain, functions, stub, reader):
    stub.script(calls(("read", {"path": "a"})), says("There is nothing to do."))
    functions.answers += [OFFLINE]
    run = run_chain(make_chain(ask()), GIVEN)
    assert (run.status, run.error["code"], run.error["step"]) == ("failed", "work_undone", "ask")
    assert "read (device_offline)" in run.error["message"]
    child = run.children.get()
    assert (child.status, child.error["code"]) == ("failed", "work_undone")


def test_if_some_calls_were_answered_the_run_is_partial(make_chain, run_chain, functions, stub, reader):
    stub.script(calls(("read", {"path": "a"})), calls(("read", {"path": "b"})), says("Read a."))
    functions.answers += [answer("text"), OFFLINE]
    run = run_chain(make_chain(ask()), GIVEN)
    assert (run.status, run.output) == ("partial", "Read a.")
    assert run.error["code"] == "work_undone" and run.error["step"] == "ask"
    assert step_rows(run) == {"ask": "partial"}


def test_a_call_that_is_made_again_with_an_answer_is_done(make_chain, run_chain, functions, stub, reader):
    stub.script(calls(("read", {"path": "a"})), calls(("read", {"path": "a"})), says("Read a."))
    functions.answers += [OFFLINE, answer("text")]
    run = run_chain(make_chain(ask()), GIVEN)
    assert run.status == "succeeded", run.error


def test_complete_is_no_way_around(make_chain, run_chain, functions, stub, reader):
    stub.script(calls(("read", {"path": "a"})), calls(("complete", {"result": "done"})))
    functions.answers += [OFFLINE]
    run = run_chain(make_chain(ask()), GIVEN)
    assert (run.status, run.error["code"]) == ("failed", "work_undone")


def test_a_write_that_was_refused_and_given_up_is_not_done(make_chain, run_chain, functions, stub, reader):
    stub.script(calls(("read", {"path": "a"})), calls(("keep", {"path": "a"})), says("Stored."))
    functions.answers += [answer("text"), ToolFailed("the disk is full", code="disk_full")]
    run = run_chain(make_chain(ask()), GIVEN)
    assert (run.status, run.error["code"]) == ("partial", "work_undone")
    assert "keep (disk_full)" in run.error["message"]


def test_a_message_of_a_person_is_answered_as_before(stub, reader, functions, worker, alice):
    from runs.intake import messages as intake

    stub.script(calls(("read", {"path": "a"})), says("The laptop is not connected."))
    functions.answers += [OFFLINE]
    with worker.capture(execute=True):
        run = intake.accept_message(user=alice, agent=reader, text="read a").run
    worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded", "its reader reads the reply"


def test_the_steps_that_ran_out_make_the_chain_partial(make_chain, run_chain, functions, stub, reader):
    stub.script(calls(("read", {"path": "a"})), says("So far."))
    functions.answers += [answer("text")]
    run = run_chain(make_chain(ask(max_turns=1)), GIVEN)
    assert (run.status, run.error["code"], run.output) == ("partial", "step_limit", "So far.")


def test_a_partial_item_makes_the_step_and_the_chain_partial(make_chain, run_chain, functions, stub, reader):
    step = ask(for_each="input.files", max_parallel=1, max_turns=1)
    stub.script(says("one"), calls(("read", {"path": "b"})), says("half of two"))
    functions.answers += [answer("text")]
    run = run_chain(make_chain(step), GIVEN)
    assert (run.status, run.output) == ("partial", ["one", "half of two"])
    row = StepRun.objects.get(run=run, item=-1)
    assert (row.status, row.error["code"]) == ("partial", "items_partial")
    assert [item["index"] for item in row.error["items"]] == [1]


def test_a_partial_run_of_an_inner_chain_is_a_partial_step(make_chain, run_chain, functions):
    each = {"key": "each", "tool": "one", "for_each": "input.n", "input": {"n": "item"}, "on_error": "continue"}
    make_chain(each, name="inner")
    functions.answers += [answer(1), OFFLINE]
    run = run_chain(
        make_chain({"key": "sub", "chain": "inner", "input": {"n": "input.n"}}, name="outer"), {"n": [1, 2]}
    )
    assert (run.status, run.output, run.error["step"]) == ("partial", [1, None], "sub")


def test_where_nothing_was_done_at_all_a_tolerated_failure_fails_the_run(make_chain, run_chain, functions):
    functions.answers += [OFFLINE, OFFLINE]
    each = {"key": "each", "tool": "one", "for_each": "input.n", "input": {"n": "item"}, "on_error": "continue"}
    run = run_chain(make_chain(each), {"n": [1, 2]})
    assert (run.status, run.error["code"], run.error["step"]) == ("failed", "items_failed", "each")


def test_a_retry_does_partial_items_again(make_chain, run_chain, functions, stub, reader, alice_api, worker):
    step = ask(for_each="input.files", max_parallel=1, max_turns=1)
    stub.script(says("one"), calls(("read", {"path": "b"})), says("half of two"), says("all of two"))
    functions.answers += [answer("text")]
    run = run_chain(make_chain(step), GIVEN)
    with worker.capture(execute=True):
        again = alice_api.post(f"/api/v1/runs/{run.pk}/retry", {}).json()["id"]
    worker.work()
    again = Run.objects.get(pk=again)
    assert (again.status, again.output) == ("succeeded", ["one", "all of two"])
    assert again.children.count() == 1, "only what was partial"


# -- covers --------------------------------------------------------------------------------------

BY_CALLS = {"values": "input.files", "by": "calls[?name=='read' && !(result.next)].arguments.path"}


@pytest.mark.parametrize(
    ("read", "answers", "missing"),
    [
        ("ab", [answer({}), answer({})], None),
        ("a", [answer({})], ["b"]),
        ("", [], ["a", "b"]),
        ("ab", [answer({}), answer({"next": 7})], ["b"]),  # read only in part
        ("abb", [answer({}), answer({"next": 7}), answer({"next": None})], None),
        ("ab", [answer({}), ToolFailed("a picture", code="binary")], None),  # the tool answered
    ],
)
def test_covers_counts_what_the_calls_dealt_with(
    make_chain, run_chain, functions, stub, reader, read, answers, missing
):
    stub.script(*(calls(("read", {"path": path})) for path in read), says("All read."))
    functions.answers += answers
    run = run_chain(make_chain(ask(covers=BY_CALLS)), GIVEN)
    if missing is None:
        assert run.status == "succeeded", run.error
    else:
        assert (run.status, run.error["code"], run.error["missing"]) == ("partial", "not_covered", missing)
        assert run.output == "All read."


def test_covers_counts_what_the_output_names(make_chain, run_chain, stub, reader):
    schema = {"type": "object", "additionalProperties": {"type": "array"}}
    step = ask(covers={"values": "input.files", "by": "values(output)[]"}, output_schema=schema)
    stub.script(says('{"x": ["a"]}'), says('{"x": ["a"], "y": ["b", "c"]}'))
    chain = make_chain(step)
    first, second = run_chain(chain, GIVEN), run_chain(chain, GIVEN)
    assert (first.status, first.error["missing"], first.output) == ("partial", ["b"], {"x": ["a"]})
    assert second.status == "succeeded"


def test_covers_over_something_else_than_lists_is_no_success(make_chain, run_chain, stub, reader):
    stub.script(says("fine"))
    run = run_chain(make_chain(ask(covers={"values": "input.files", "by": "output"})), GIVEN)
    assert (run.status, run.error["code"]) == ("partial", "not_a_list")


@pytest.mark.parametrize(
    ("covers", "target", "code"),
    [
        ({"values": "steps.a.output", "by": "output"}, "agent", "unknown_root"),
        ({"values": "input[", "by": "output"}, "agent", "invalid_expression"),
        ({"values": "input.x", "by": "output"}, "tool", "covers_a_tool"),
    ],
)
def test_covers_is_checked_at_publishing(covers, target, code):
    spec = ChainSpec(name="c", steps=[StepSpec(key="s", target="t", target_kind=target, covers=covers)])
    assert problems(spec)[0].code == code
