"""A run whose model's answer was cut off: its calls are refused, the model is told and may try again."""

import json

import pytest

from runs.events import record as events
from runs.models import Run, ToolCallRecord
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
HALF = '{"a": 10, "b": 10'


@pytest.fixture(params=[False, True], ids=["nobody listens", "somebody listens"])
def agent(request, make_agent, make_tool, stub_provider, monkeypatch):
    monkeypatch.setattr(events, "has_watchers", lambda run: request.param)
    return make_agent(tools=[make_tool("add", effect="write")], provider=stub_provider)


@pytest.mark.parametrize(
    ("turn", "code"),
    [
        (calls(("add", HALF), finish="length"), "answer_cut_off"),
        (calls(("add", {"a": 1, "b": 2}), finish="length"), "answer_cut_off"),
        (calls(("add", ""), finish="content_filter"), "answer_cut_off"),
        (calls(("add", HALF)), "invalid_arguments"),
        (calls(("add", '"text"')), "invalid_arguments"),
    ],
)
def test_the_model_is_told_and_may_try_again(worker, alice, agent, stub, functions, turn, code):
    stub.script(turn, calls(("add", {"a": 1, "b": 2})), says("Done."))
    run = worker.send_message(alice, "Add", agent)
    assert run.status == Run.Status.SUCCEEDED
    assert [arguments for _, arguments, _ in functions.asked] == [{"a": 1, "b": 2}]
    refused, _ = ToolCallRecord.objects.order_by("pk")
    assert (refused.outcome, refused.error["code"], refused.arguments) == ("failed", code, {})
    told = json.loads(stub.requests[1]["messages"][-1]["content"])
    assert told["error"]["code"] == code and stub.requests[1]["messages"][-1]["role"] == "tool"


def test_a_model_that_gives_up_has_executed_nothing(worker, alice, agent, stub, functions):
    stub.script(calls(("add", HALF), finish="length"), says("I gave up."))
    run = worker.send_message(alice, "Add", agent)
    assert run.status == Run.Status.SUCCEEDED and functions.asked == []


SCHEMA = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}


@pytest.mark.parametrize(
    ("turn", "code", "words"),
    [
        (says('{"sum": 3', finish="length"), "output_invalid", "cut off"),
        (says("I cannot help with that.", finish="content_filter"), "output_invalid", "declined"),
        (says("", finish="length"), "empty_reply", "max_tokens"),
        (says("", finish="content_filter"), "empty_reply", "declined"),
    ],
)
def test_a_reply_that_was_cut_off_is_not_paid_twice(worker, alice, make_agent, stub_provider, stub, turn, code, words):
    """A second answer would end in the same way, so none is asked for."""
    stub.script(turn, says('{"sum": 3}'))
    run = worker.send_message(alice, "Add", make_agent(provider=stub_provider, output_schema=SCHEMA))
    assert (run.status, run.error["code"], len(stub.requests)) == ("failed", code, 1)
    assert words in run.error["message"]
