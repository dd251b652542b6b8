"""Tool calls of small models that can only keep to a schema, against a server that refuses native ones."""

import json

import pytest

from agents.models import Provider
from registry.factory import live_agent
from registry.llm import attempts
from tests.fakes import StubOpenAI, fails, says
from tests.live_agents import user

pytestmark = pytest.mark.django_db


@pytest.fixture
def small(settings, monkeypatch):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    monkeypatch.setattr(attempts, "BACKOFF_S", 0.01)
    with StubOpenAI(only_response_format=True) as server:
        yield server


@pytest.fixture
def live(alice, small, make_agent, make_tool):
    provider = Provider.objects.create(
        owner=alice, name="small", kind="openai-compatible", base_url=small.url, tool_calling="schema"
    )
    return live_agent(make_agent(provider=provider, tools=[make_tool()]))


def choice(tool, **arguments):
    return json.dumps({"tool": tool, "arguments": arguments})


def test_a_choice_becomes_a_call(live, small):
    small.script(says(choice("add", a=1, b=2)))
    reply = live.reply(user("Add 1 and 2"))
    assert [(call.name, call.arguments, call.problem) for call in reply.tool_calls] == [("add", {"a": 1, "b": 2}, "")]
    assert reply.text == ""


def test_it_constrains_the_choice_and_shows_an_example(live, small):
    small.script(says(choice("add", a=1, b=2)))
    live.reply(user("Add"))
    options = small.requests[0]["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [option["properties"]["tool"]["const"] for option in options] == ["add", "answer"]
    assert 'Example: {"tool": "add", "arguments": {"a": 0, "b": 0}}' in small.requests[0]["messages"][0]["content"]
    assert "tools" not in small.requests[0]


def test_an_answer_is_text(live, small):
    small.script(says('{"tool": "answer", "text": "Three."}'))
    heard = []
    reply = live.reply(user("Add"), on_delta=heard.append)
    assert reply.text == "Three." and heard == ["Three."] and reply.tool_calls == ()


def test_calls_and_results_are_spelled_out(live, small):
    small.script(says('{"tool": "answer", "text": "3"}'))
    call = {"id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}}
    live.reply(
        [
            *user("Add 1 and 2"),
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "3"},
        ]
    )
    sent = small.requests[0]["messages"]
    assert sent[2] == {"role": "assistant", "content": choice("add", a=1, b=2)}
    assert sent[3] == {"role": "user", "content": "Result of add: 3"}


def test_prose_is_the_answer(live, small):
    small.script(says("I think it is three."))
    assert live.reply(user("Add")).text == "I think it is three."


@pytest.mark.parametrize(
    "written",
    [
        f"```json\n{choice('add', a=1, b=2)}\n```",
        f"Let me add them: {choice('add', a=1, b=2)} There.",
        json.dumps({"name": "add", "arguments": '{"a": 1, "b": 2}'}),
        json.dumps({"tool_calls": [{"function": {"name": "add", "arguments": {"a": 1, "b": 2}}}]}),
        json.dumps({"function": "add", "parameters": {"a": 1, "b": 2}}),
    ],
)
def test_usual_slips_are_read(live, small, written):
    small.script(says(written))
    (call,) = live.reply(user("Add")).tool_calls
    assert (call.name, call.arguments, call.problem) == ("add", {"a": 1, "b": 2}, "")


@pytest.mark.parametrize("glue", ["\n", "[{}, {}]"])
def test_two_calls_are_two_calls(live, small, glue):
    one, two = choice("add", a=1, b=2), choice("add", a=3, b=4)
    small.script(says(f"[{one}, {two}]" if "[" in glue else one + glue + two))
    reply = live.reply(user("Add"))
    assert [call.arguments for call in reply.tool_calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert len({call.id for call in reply.tool_calls}) == 2


def test_an_unknown_tool_is_a_call_with_a_problem(live, small):
    small.script(says(choice("subtract", a=1)))
    (call,) = live.reply(user("Subtract")).tool_calls
    assert call.name == "subtract" and "There is no tool “subtract”" in call.problem


def test_arguments_that_are_no_object_are_a_problem(live, small):
    small.script(says('{"tool": "add", "arguments": [1, 2]}'))
    assert "must be a JSON object" in live.reply(user("Add")).tool_calls[0].problem


def test_a_server_that_refuses_the_schema_is_asked_without(live, small):
    small.script(fails(400), says(choice("add", a=1, b=2)))
    reply = live.reply(user("Add"))
    assert reply.tool_calls and "response_format" not in small.requests[1]


def test_an_output_schema_constrains_the_answer(live, small):
    small.script(says('{"tool": "answer", "text": {"sum": 3}}'))
    schema = {"type": "object", "properties": {"sum": {"type": "number"}}}
    reply = live.reply(user("Add"), output_schema=schema)
    assert json.loads(reply.text) == {"sum": 3}


def test_without_tools_nothing_is_wrapped(live, small):
    small.script(says("Hello."))
    assert live.reply(user("Hi"), tool_names=()).text == "Hello."
    assert "response_format" not in small.requests[0]


CALL = '{"tool": "add", "arguments": {"a": 1, "b": 2}}'


@pytest.mark.parametrize(
    "text",
    [
        f'{{"tool": "other", "arguments": {{"inner": {CALL}',
        f'[{{"tool": "other", "arguments": {{}}, "next": {CALL}, "text": "and then',
        f'{{"tool": "other", "arguments": {CALL}',
    ],
)
def test_what_stands_inside_of_a_call_that_has_no_end_is_no_call(live, small, text):
    small.script(says(text))
    assert live.reply(user("Add")).tool_calls == ()


def test_no_call_of_a_text_that_was_cut_off_is_made(live, small):
    small.script(says(f"{CALL}\n{{", finish="length"))
    (call,) = live.reply(user("Add")).tool_calls
    assert call.is_cut_off and call.arguments == {} and "cut off" in call.problem
