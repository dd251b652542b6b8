"""Answers that were cut off, for each kind of provider, with a listener and without: no call of them is made."""

import json

import pytest

from agents.models import Provider
from registry.exceptions import AttemptFailed
from registry.factory import live_agent
from registry.llm.answer_builder import AnswerBuilder
from registry.llm.chat import Question
from registry.llm.google import Google
from registry.llm.ollama import Ollama
from registry.llm.watch import Watch
from tests.fakes import Turn, calls
from tests.live_agents import user

pytestmark = pytest.mark.django_db
ADD = {"a": 1, "b": 2}
HEARD = pytest.mark.parametrize("hear", [None, str], ids=["whole", "streamed"])


def ask(model, hear, tools=()):
    return model.ask(Question("claude-haiku-4-5", user("Add 1 and 2"), tuple(tools), None, hear, Watch()))


def made(answer):
    return [call.arguments for call in answer.calls if not call.problem]


# -- OpenAI and compatible servers ------------------------------------------------------------------------------------


@pytest.fixture
def openai(make_agent, make_tool, stub_provider):
    return live_agent(make_agent(tools=[make_tool()], provider=stub_provider))


@HEARD
@pytest.mark.parametrize("finish", ["length", "content_filter"])
@pytest.mark.parametrize("arguments", [ADD, '{"a": 1, "b": 2', ""])
def test_openai(openai, stub, hear, finish, arguments):
    stub.script(calls(("add", ADD), ("add", arguments), finish=finish))
    reply = openai.reply(user("Add"), on_delta=hear)
    assert [(call.name, call.arguments, call.is_cut_off) for call in reply.tool_calls] == [("add", {}, True)] * 2


@HEARD
def test_openai_with_arguments_that_were_cut_off(openai, stub, hear):
    stub.script(calls(("add", '{"a": 1, "b": 2')))
    (call,) = openai.reply(user("Add"), on_delta=hear).tool_calls
    assert call.arguments == {} and "not valid JSON" in call.problem


# -- Anthropic --------------------------------------------------------------------------------------------------------


@pytest.fixture
def anthropic(alice, stub, make_agent, make_tool):
    base_url = stub.url.removesuffix("/v1")
    provider = Provider.objects.create(owner=alice, name="ant", kind="anthropic", base_url=base_url, api_key="sk-ant")
    return live_agent(make_agent(provider=provider, tools=[make_tool()], model_name="claude-haiku-4-5"))


@pytest.mark.parametrize(("finish", "expected"), [("tool_use", [ADD]), ("max_tokens", []), ("refusal", [])])
def test_a_whole_answer_of_anthropic(anthropic, stub, finish, expected):
    stub.script(calls(("add", ADD), finish=finish))
    assert made(ask(anthropic.model, None, anthropic.tools.values())) == expected


def anthropic_events(finish):
    usage = {"input_tokens": 11, "output_tokens": 7}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
               "stop_sequence": None, "usage": usage}  # fmt: skip
    events = [{"type": "message_start", "message": message}]
    for index, pieces in enumerate((['{"a": 1,', ' "b": 2}'], [""])):
        block = {"type": "tool_use", "id": f"toolu_{index}", "name": "add", "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        for piece in pieces:
            delta = {"type": "input_json_delta", "partial_json": piece}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": finish, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})
    return [*events, {"type": "message_stop"}]


def anthropic_stream(events):
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    return Turn(raw=(head + "".join(lines)).encode())


@pytest.mark.parametrize(("finish", "expected"), [("tool_use", [ADD, {}]), ("max_tokens", []), ("refusal", [])])
def test_a_streamed_answer_of_anthropic(anthropic, stub, finish, expected):
    stub.script(anthropic_stream(anthropic_events(finish)))
    answer = ask(anthropic.model, str, anthropic.tools.values())
    assert made(answer) == expected and len(answer.calls) == 2


def test_a_stream_of_anthropic_that_ends_early(anthropic, stub):
    """Its package takes a closed connection for the end; only `stop_reason` is one."""
    events = anthropic_events("tool_use")
    for number in range(1, len(events) - 1):
        stub.script(anthropic_stream(events[:number]))
        with pytest.raises(AttemptFailed) as failure:
            ask(anthropic.model, str, anthropic.tools.values())
        assert failure.value.code == "cut_stream" and failure.value.is_retryable
    stub.script(anthropic_stream(events[:-1]))
    assert made(ask(anthropic.model, str, anthropic.tools.values())) == [ADD, {}]


# -- Google and Ollama ------------------------------------------------------------------------------------------------


def read(dialect, *events):
    builder = AnswerBuilder()
    for event in events:
        dialect.read(builder, event)
    return builder.build()


GOOGLE, OLLAMA = Google("http://127.0.0.1:9", "key", {}), Ollama("http://127.0.0.1:9", "", {})


def candidate(arguments, finish=None):
    parts = [{"functionCall": {"name": "add", "args": arguments}}]
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}]}


def line(arguments=None, **end):
    calls = [] if arguments is None else [{"function": {"name": "add", "arguments": arguments}}]
    return {"message": {"role": "assistant", "content": "", "tool_calls": calls}, **end}


@pytest.mark.parametrize(
    ("dialect", "events", "expected"),
    [
        (OLLAMA, [line(ADD), line(done=True, done_reason="stop")], [ADD]),
        (OLLAMA, [line({}), line(done=True, done_reason="stop")], [{}]),
        (OLLAMA, [line(ADD, done=True)], [ADD]),
        (OLLAMA, [line(ADD), line(done=True, done_reason="length")], []),
        (GOOGLE, [candidate(ADD, "STOP")], [ADD]),
        (GOOGLE, [candidate({}, "STOP")], [{}]),
        (GOOGLE, [candidate(ADD), {"candidates": [{"finishReason": "MAX_TOKENS"}]}], []),
        (GOOGLE, [candidate(ADD, "MALFORMED_FUNCTION_CALL")], []),
        (GOOGLE, [candidate(ADD, "SAFETY")], []),
    ],
)
def test_google_and_ollama(dialect, events, expected):
    answer = read(dialect, *events)
    assert made(answer) == expected and len(answer.calls) == 1


@pytest.mark.parametrize(("dialect", "event"), [(OLLAMA, line(ADD)), (GOOGLE, candidate(ADD))])
def test_google_and_ollama_without_an_end(dialect, event):
    with pytest.raises(AttemptFailed) as failure:
        read(dialect, event)
    assert failure.value.code == "cut_stream"
