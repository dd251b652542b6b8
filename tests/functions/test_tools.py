import pytest

from agents.models import Tool
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolSpec
from functions import execution, store
from functions.models import Execution
from functions.tools import FunctionToolset
from tests.functions.library import ADD, publish

RUN = "0190a000-0000-7000-8000-000000000001"
CALL = "0190a000-0000-7000-8000-000000000002"


def spec_of(name, **changes):
    tool = Tool.objects.get(name=name)
    fields = {
        "id": tool.pk, "name": tool.name, "kind": tool.kind, "description": tool.description, "effect": tool.effect,
        "input_schema": tool.input_schema, "output_schema": tool.output_schema, "source": tool.source,
        "definition_hash": tool.definition_hash, **changes,
    }  # fmt: skip
    return ToolSpec(**fields)


def call(name, arguments, user, context=None, **changes):
    tool = spec_of(name, **changes)
    return FunctionToolset().call(tool, ToolCall(CALL, name, arguments), context or ToolContext(user.pk, run_id=RUN))


def test_a_tool_call_is_an_execution_of_the_run_kept_with_its_result(alice):
    publish(alice)
    result = call("add", {"a": 1}, alice)
    assert (result.ok, result.value) == (True, 3)
    result.keep()
    kept = Execution.objects.get()
    assert (str(kept.run), str(kept.call), kept.principal) == (RUN, CALL, alice)
    assert result.details["execution"] == str(kept.pk)


def test_wrong_arguments_are_the_models_to_mend(alice):
    publish(alice)
    with pytest.raises(RetryTool, match="/a"):
        call("add", {"a": "x"}, alice)


def test_a_failing_function_is_a_result_with_its_error(alice):
    publish(alice, "def f(a: int):\n    return 1 / a\n", "f")
    result = call("f", {"a": 0}, alice)
    assert not result.ok
    assert (result.error["code"], result.error["type"], result.error["line"]) == (
        "function_error",
        "ZeroDivisionError",
        2,
    )


def test_a_pinned_grant_stays_with_its_version(alice):
    function = publish(alice)
    function.source = ADD.replace("a + b", "a - b")
    store.save_function(function, user=alice)
    store.publish_function(function, user=alice)
    assert call("add", {"a": 5}, alice).value == 3
    assert call("add", {"a": 5}, alice, pinned_version=1).value == 7
    with pytest.raises(ToolFailed):
        call("add", {"a": 5}, alice, pinned_version=9)


def test_a_function_that_is_gone_fails_with_a_reason(alice):
    function = publish(alice)
    spec = spec_of("add")
    store.delete_function(function, user=alice)
    execution.ready.cache_clear()  # as in a process that never ran it
    with pytest.raises(ToolFailed, match="was deleted"):
        FunctionToolset().call(spec, ToolCall(CALL, "add", {"a": 1}), ToolContext(alice.pk))


def test_its_callbacks_go_through_the_runner(alice):
    publish(alice, "def f(ctx):\n    return ctx.call('other', x=1)\n", "f")
    made = []

    def call_tool(name, arguments):
        made.append((name, arguments))
        return "answer"

    context = ToolContext(alice.pk, run_id=RUN, call_tool=call_tool, tool_names=("other", "f"))
    assert call("f", {}, alice, context).value == "answer"
    assert made == [("other", {"x": 1})]
    alone = ToolContext(alice.pk, run_id=RUN)
    assert call("f", {}, alice, alone).error["type"] == "CallFailed"


def test_a_result_from_the_web_is_a_strangers_word(alice):
    publish(alice, allowed_hosts=["example.com"])
    assert Tool.objects.get(name="add").untrusted
    assert call("add", {"a": 1}, alice, untrusted=True).untrusted
