"""Chat completions, through OpenAI's SDK."""

import json

import openai
import pytest

from tests.fakes import calls, says
from tests.gateway.openai.bodies import CHAT_TOOL

pytestmark = pytest.mark.live


def test_a_chat_completion(client, model):
    model.script(says("Hello there."))
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "My name is Alice."},
        {"role": "assistant", "content": "Hello Alice."},
        {"role": "user", "content": "Say hello."},
    ]
    answer = client.chat.completions.create(model="plain", messages=history)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("Hello there.", "stop")
    assert answer.usage.total_tokens == 18
    system, *said = model.requests[0]["messages"]
    assert "Be brief." in system["content"]
    assert [one["content"] for one in said] == ["My name is Alice.", "Hello Alice.", "Say hello."]


def test_a_streamed_chat_completion_with_usage(client, model):
    model.script(says("One two three four.", pause_s=0.05))
    chunks = list(
        client.chat.completions.create(
            model="plain",
            messages=[{"role": "user", "content": "count"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert "".join(pieces) == "One two three four." and len(pieces) > 1
    assert chunks[-1].usage.completion_tokens == 7


@pytest.mark.parametrize("stream", [False, True])
def test_the_caller_executes_its_tool_in_a_chat(client, model, stream):
    model.script(calls(("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"})), says("Rain, and sun."))
    messages = [{"role": "user", "content": "the weather?"}]
    with client.chat.completions.stream(model="plain", messages=messages, tools=[CHAT_TOOL]) as events:
        for _ in events:
            pass
        choice = events.get_final_completion().choices[0]
    assert choice.finish_reason == "tool_calls"
    asked = choice.message.tool_calls
    assert [json.loads(call.function.arguments)["city"] for call in asked] == ["Oslo", "Rome"]
    messages.append(choice.message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
    messages += [{"role": "tool", "tool_call_id": call.id, "content": '{"sky": "rain"}'} for call in asked]
    answer = client.chat.completions.create(model="plain", messages=messages, tools=[CHAT_TOOL], stream=stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in answer) if stream else None
    assert (text or answer.choices[0].message.content) == "Rain, and sun."
    model.script(
        says("Rain again.")
    )  # the API is stateless: sent again, as after a broken connection, it is done again
    again = client.chat.completions.create(model="plain", messages=messages, tools=[CHAT_TOOL])
    assert again.choices[0].message.content == "Rain again."


def test_a_structured_answer(client, model):
    model.script(says('{"city": "Oslo"}'))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    answer = client.chat.completions.create(
        model="plain",
        messages=[{"role": "user", "content": "where?"}],
        response_format={"type": "json_schema", "json_schema": {"name": "place", "schema": schema}},
    )
    assert json.loads(answer.choices[0].message.content) == {"city": "Oslo"}


def test_sampling_parameters_reach_the_model(client, model):
    model.script(says("Hot."), says("Hot."))
    said = [{"role": "user", "content": "hi"}]
    client.chat.completions.create(model="plain", messages=said, temperature=0.3, max_completion_tokens=50)
    answer = client.responses.create(model="plain", input="hi", top_p=0.5, max_output_tokens=40)
    sent = [{name: one.get(name) for name in ("temperature", "top_p", "max_tokens")} for one in model.requests]
    assert sent == [
        {"temperature": 0.3, "top_p": None, "max_tokens": 50},
        {"temperature": None, "top_p": 0.5, "max_tokens": 40},
    ]
    assert (answer.top_p, answer.max_output_tokens) == (0.5, 40)


@pytest.mark.parametrize(
    ("more", "param", "code"),
    [
        ({"temperature": 3}, "temperature", "invalid_options"),
        ({"stop": [1]}, "stop", "invalid_value"),
        ({"n": 2}, "n", "unsupported_parameter"),
        ({"extra_body": {"temprature": 1}}, "temprature", "unknown_parameter"),
        ({"tools": ["x"]}, "tools.0.type", "invalid_value"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"tools": [CHAT_TOOL], "tool_choice": {"type": "web_search"}}, "tool_choice", "unsupported_parameter"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role", "invalid_value"),
    ],
)
def test_what_muster_does_not_have_is_refused_by_name(client, model, more, param, code):
    body = {"model": "plain", "messages": [{"role": "user", "content": "hi"}], **more}
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**body)
    assert (refused.value.param, refused.value.code) == (param, code)
    assert refused.value.type == "invalid_request_error" and model.requests == []


def test_a_failing_model_is_an_error_and_not_an_answer(client, model):
    model.script(says("", status=400), says("", status=400))
    with pytest.raises(openai.APIStatusError) as failed:
        client.chat.completions.create(model="plain", messages=[{"role": "user", "content": "hi"}])
    assert failed.value.status_code >= 500


def test_a_failed_run_is_not_started_again_by_the_retries_of_the_sdk(client, model):
    def requests(most):
        model.turns.clear()
        model.requests.clear()
        model.script(*[says("", status=400)] * 12)
        with pytest.raises(openai.APIStatusError):
            client.with_options(max_retries=most).chat.completions.create(
                model="plain", messages=[{"role": "user", "content": "hi"}]
            )
        model.turns.clear()
        return len(model.requests)

    assert requests(0) == requests(2)
