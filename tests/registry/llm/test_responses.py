"""Answers of the Responses API, as its servers vary them, and what goes back."""

import json

import pytest

from registry.exceptions import AttemptFailed
from registry.llm.answer_builder import AnswerBuilder
from registry.llm.history import normalise
from registry.llm.responses import Responses
from registry.llm.wire import Endpoint
from registry.llm.wire_model import Request, find_refusal

DIALECT = Responses(Endpoint("https://api.openai.com/v1/responses", {}), {}, is_openai=True)
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": '{"a": 1}'}
COMPLETED = {"type": "response.completed", "response": {"status": "completed", "output": [], "usage": {}}}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}


def read(*events, hear=None):
    builder = AnswerBuilder(hear)
    for event in events:
        DIALECT.read(builder, event)
    return builder.build()


def added(item, index=0):
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(item, index=0):
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def delta(text, index=0):
    return {"type": "response.function_call_arguments.delta", "output_index": index, "delta": text}


FINISHED = {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": CALL["arguments"]}
STREAMS = {
    "pieces": [added({**CALL, "arguments": ""}), delta('{"a"'), delta(": 1}"), FINISHED, done(CALL)],
    "only pieces": [added({**CALL, "arguments": ""}), delta('{"a"'), delta(": 1}")],
    "only its end": [done(CALL)],
    "begun as a whole": [added(CALL), done(CALL)],
    "begun as a whole, then in pieces": [added(CALL), delta('{"a"'), delta(": 1}"), FINISHED, done(CALL)],
    "without places": [
        {"type": "response.output_item.added", "item": {**CALL, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "delta": CALL["arguments"]},
        {"type": "response.function_call_arguments.done", "arguments": CALL["arguments"]},
        {"type": "response.output_item.done", "item": CALL},
    ],
    "arguments once": [added({**CALL, "arguments": ""}), FINISHED],
    "nothing but the end": [],
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_call_is_read_once_however_it_comes(name):
    end = {**COMPLETED, "response": {**COMPLETED["response"], "output": [CALL]}}
    answer = read(*STREAMS[name], end)
    assert [(call.id, call.name, call.arguments, call.problem) for call in answer.calls] == [
        ("call_1", "add", {"a": 1}, "")
    ]


def test_a_call_of_an_incomplete_response_is_not_made():
    ended = {"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": None}}
    [call] = read(done(CALL), ended).calls
    assert call.is_cut_off


@pytest.mark.parametrize(
    ("error", "code", "is_retryable"),
    [
        ({"code": "server_error", "message": "Something went wrong"}, "model_unavailable", True),
        ({"code": "rate_limit_exceeded", "message": "Slow down"}, "model_rate_limited", True),
        ({"code": "insufficient_quota", "message": "You exceeded your current quota"}, "model_rate_limited", False),
        ({"code": "context_length_exceeded", "message": "Your input exceeds the context window"}, "context_overflow", False),
        ({"code": "invalid_prompt", "message": "Flagged by a policy"}, "model_refused", False),
    ],
)  # fmt: skip
def test_a_response_that_failed_is_told_as_its_error(error, code, is_retryable):
    with pytest.raises(AttemptFailed) as failure:
        read({"type": "response.failed", "response": {"status": "failed", "error": error}})
    assert (failure.value.code, failure.value.is_retryable) == (code, is_retryable)


def test_a_response_that_is_not_ready_is_no_answer():
    with pytest.raises(AttemptFailed):
        read({"object": "response", "status": "queued", "output": []})


def test_thoughts_go_back_in_their_places():
    second = {**CALL, "id": "fc_2", "call_id": "call_2"}
    other = {**THOUGHT, "id": "rs_2"}
    said = {
        "type": "message",
        "id": "msg_1",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "Hm."}],
    }
    items = [THOUGHT, CALL, other, said, second]
    answer = read({"object": "response", "status": "completed", "output": items, "usage": {}})
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in answer.calls]
    kept = json.loads(json.dumps({"by": "1/gpt", **answer.kept}))
    results = [{"role": "tool", "tool_call_id": call["id"], "name": "add", "content": "1"} for call in calls]
    spoken = {"role": "assistant", "content": answer.text, "tool_calls": calls, "kept": kept}
    messages = [{"role": "user", "content": "Add"}, spoken, *results]
    sent = DIALECT.write(Request("gpt", normalise(messages, account="1/gpt"), (), None, is_streamed=False))["input"]
    assert sent[1:6] == [
        THOUGHT,
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'},
        other,
        {"role": "assistant", "content": "Hm.", "phase": "commentary"},
        {"type": "function_call", "call_id": "call_2", "name": "add", "arguments": '{"a":1}'},
    ]
    plain = DIALECT.write(Request("gpt", normalise(messages, account="2/gpt"), (), None, is_streamed=False))["input"]
    assert [item.get("type", item.get("role")) for item in plain] == [
        "user", "assistant", "function_call", "function_call", "function_call_output", "function_call_output",
    ]  # fmt: skip


def test_a_model_without_reasoning_is_asked_without_it():
    error = AttemptFailed("model_refused", "400: Encrypted content is not supported with this model.", status=400)
    name = find_refusal(error, frozenset())
    request = Request("gpt-4o", [{"role": "user", "content": "Hello"}], (), None, is_streamed=False)
    assert "include" in DIALECT.write(request)
    request = Request("gpt-4o", request.messages, (), None, is_streamed=False, refused=frozenset([name]))
    assert "include" not in DIALECT.write(request)
