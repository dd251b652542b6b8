"""One table: what becomes of each parameter that an SDK may send by itself."""

import pytest

from agents.exceptions import Invalid
from gateway.openai import chat, responses

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
OTHER = {"type": "function", "function": {"name": "time", "parameters": {"type": "object"}}}
FLAT = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
ACCEPTED = [
    {"seed": 7}, {"reasoning_effort": "high"}, {"reasoning": {"effort": "low", "summary": "auto"}}, {"verbosity": "low"},
    {"include": ["reasoning.encrypted_content"]}, {"truncation": "auto"}, {"truncation": "disabled"}, {"stop": None},
    {"stop": []}, {"parallel_tool_calls": True}, {"parallel_tool_calls": False}, {"logprobs": False},
    {"top_logprobs": 0}, {"service_tier": "flex"}, {"tool_choice": "auto"}, {"tool_choice": {"type": "auto"}},
    {"tool_choice": "none"}, {"tool_choice": None}, {"logit_bias": {}}, {"n": 1}, {"user": "u"}, {"prediction": None},
    {"stream_options": {"include_obfuscation": False}}, {"max_tokens": 5}, {"temperature": 0},
    {"stop": ["END"]}, {"stop": "END"}, {"client_metadata": {"session": "s"}}, {"tools": []},
]  # fmt: skip
REFUSED = [
    {"n": 2}, {"logprobs": True}, {"top_logprobs": 3}, {"logit_bias": {"1": 5}},
    {"max_tool_calls": 1}, {"tool_choice": {"type": "web_search"}}, {"modalities": ["audio"]}, {"truncation": "middle"},
]  # fmt: skip


def read_chat(**more):
    return chat.parse_chat_request({"model": "helper", "messages": [{"role": "user", "content": "hi"}], **more})


def read_response(**more):
    return responses.parse_response_request({"model": "helper", "input": "hi", **more})


BOTH = pytest.mark.parametrize("read", [read_chat, read_response])


@BOTH
@pytest.mark.parametrize("parameter", ACCEPTED, ids=str)
def test_a_parameter_is_accepted(read, parameter):
    assert read(**parameter).model == "helper"


@BOTH
@pytest.mark.parametrize("parameter", REFUSED, ids=str)
def test_a_parameter_that_would_deceive_is_refused(read, parameter):
    with pytest.raises(Invalid) as refusal:
        read(**parameter)
    assert refusal.value.code == "unsupported_parameter"


@BOTH
def test_a_parameter_that_does_not_exist_is_refused(read):
    with pytest.raises(Invalid) as refusal:
        read(temprature=1)
    assert refusal.value.code == "unknown_parameter"


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("auto", ["weather", "time"]),
        ("none", []),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"function": {"name": "time"}}]}}, ["time"]),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "time"}]}, ["time"]),
    ],
)  # fmt: skip
def test_a_choice_of_tools_is_followed(choice, names):
    assert [tool["name"] for tool in read_chat(tools=[TOOL, OTHER], tool_choice=choice).tools] == names


FORCED = [
    ("required", "required", ["weather", "time"]),
    ({"type": "function", "function": {"name": "time"}}, "time", ["weather", "time"]),
    ({"type": "function", "name": "time"}, "time", ["weather", "time"]),
    (
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"name": "time"}]}},
        "required",
        ["time"],
    ),
]


@pytest.mark.parametrize(("choice", "demanded", "names"), FORCED)
def test_a_demanded_call_is_asked_for(choice, demanded, names):
    prompt = read_chat(tools=[TOOL, OTHER], tool_choice=choice)
    assert (prompt.tool_choice, [tool["name"] for tool in prompt.tools]) == (demanded, names)


@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        ([], "required"),
        ([TOOL], {"type": "function", "function": {"name": "time"}}),
        ([{"type": "web_search"}], "required"),
        ([TOOL], {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}),
    ],
)
def test_a_call_that_cannot_be_made_is_not_promised(tools, choice):
    with pytest.raises(Invalid):
        read_chat(tools=tools, tool_choice=choice)


@pytest.mark.parametrize("kind", ["web_search", "custom", "local_shell", "mcp", "namespace", "of_next_year"])
def test_a_tool_that_is_no_function_is_left_out(kind):
    assert [tool["name"] for tool in read_response(tools=[{"type": kind}, FLAT]).tools] == ["weather"]


def test_one_call_at_a_time_is_asked_for():
    assert read_chat(tools=[TOOL], parallel_tool_calls=False).is_one_call
    assert not read_chat(tools=[TOOL], parallel_tool_calls=True).is_one_call


@BOTH
def test_a_tool_without_a_type_is_refused(read):
    with pytest.raises(Invalid):
        read(tools=[{"name": "weather"}])
