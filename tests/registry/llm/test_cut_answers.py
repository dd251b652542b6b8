"""Answers that were cut off, for each kind of provider, with a listener and without: no call of them is made."""

import json

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from agents.models import Provider
from registry.exceptions import AttemptFailed
from registry.factory import live_agent
from registry.llm.chat import Question
from registry.llm.langchain_models import LangChainModel
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


# -- Google and Ollama: what their packages make of an answer ---------------------------------------------------------


class Package:
    """A chat model as the packages of Google and Ollama make it, with the chunks of one answer."""

    def __init__(self, *chunks):
        self.chunks = chunks

    def _stream(self, messages):
        yield from self.chunks

    def _generate(self, messages):
        """As Ollama's does: it streams, and adds up what it got."""
        whole = self.chunks[0]
        for chunk in self.chunks[1:]:
            whole = whole + chunk
        message = AIMessage(content=whole.text, tool_calls=whole.message.tool_calls)
        return ChatResult(generations=[ChatGeneration(message=message, generation_info=whole.generation_info)])


def model_of(*chunks):
    return LangChainModel(lambda name: Package(*chunks), takes_response_format=False, always_streams=True)


def called(arguments, **info):
    call = {"name": "add", "args": arguments, "id": "c", "type": "tool_call"}
    return ChatGenerationChunk(message=AIMessageChunk(content="", tool_calls=[call]), generation_info=info or None)


def ended(**info):
    return ChatGenerationChunk(message=AIMessageChunk(content=""), generation_info=info)


@HEARD
@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([called(ADD), ended(done=True, done_reason="stop")], [ADD]),
        ([called({}), ended(done=True, done_reason="stop")], [{}]),
        ([called(ADD), ended(done=True)], [ADD]),
        ([called(ADD), ended(done=True, done_reason="length")], []),
        ([called(ADD, finish_reason="STOP")], [ADD]),
        ([called(ADD), ended(finish_reason="MAX_TOKENS")], []),
        ([called(ADD), ended(finish_reason="MALFORMED_FUNCTION_CALL")], []),
        ([called(ADD), ended(finish_reason="SAFETY")], []),
    ],
)
def test_google_and_ollama(hear, chunks, expected):
    answer = ask(model_of(*chunks), hear)
    assert made(answer) == expected and len(answer.calls) == 1


@HEARD
def test_ollama_without_done(hear):
    with pytest.raises(AttemptFailed) as failure:
        ask(model_of(called(ADD)), hear)
    assert failure.value.code == "cut_stream"
