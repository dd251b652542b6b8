"""What a model writes as JSON: nested too deeply, not a number, or with characters that no database stores."""

import json

import pytest

from runs.rules import replies
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
DEEP = "[" * 100_000 + "]" * 100_000
ANY: dict = {"type": ["object", "array"]}


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    return make_agent(tools=[make_tool()], provider=stub_provider)


@pytest.mark.parametrize("text", [DEEP, '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', '{"a": "\\u0000"}',
                                  '{"a": "\\ud800"}', '{"a": ' + "9" * 5000 + "}"])  # fmt: skip
def test_an_answer_that_cannot_be_stored_is_repaired_like_any_other(
    worker, alice, make_agent, stub_provider, stub, text
):
    agent = make_agent(provider=stub_provider, output_schema=ANY)
    stub.script(says(text), says('{"a": 1}'))
    run = worker.send_message(alice, "hi", agent)
    run.refresh_from_db()
    assert (run.status, run.output) == ("succeeded", {"a": 1}), run.error
    assert replies.parse_reply_json(text, ANY)[1] is not None


def test_a_text_of_many_brackets_is_given_up_soon():
    from registry.llm.schema_calls import find_json_objects

    assert list(find_json_objects('[0,{"a":' * 50_000)) == []
    assert list(find_json_objects("[" * 100_000 + json.dumps({"name": "a"}))) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "a\0b", "\ud800", {"\0": 1}])
def test_arguments_that_cannot_be_stored_are_told_to_the_model(worker, alice, agent, stub, value):
    stub.script(calls(("add", {"a": value, "b": 2})), says("I was wrong."))
    run = worker.send_message(alice, "add", agent)
    run.refresh_from_db()
    assert run.status == "succeeded", run.error
    call = run.tool_calls.get()
    assert (call.outcome, call.arguments, call.error["code"]) == ("failed", {}, "invalid_arguments")


def test_arguments_that_are_edited_in_an_approval_are_read_as_strictly(alice):
    from runs.models import Approval
    from studio.decisions.approvals import read_arguments

    row = Approval(arguments={"a": 1})
    assert read_arguments('{"a": 2}', row) == {"a": 2} and read_arguments('{"a": 1}', row) is None
    for typed in (DEEP, '{"a": NaN}', '{"a": "\\u0000"}', '{"a": "\\ud800"}', "[1]", "{"):
        with pytest.raises(ValueError):
            read_arguments(typed, row)
