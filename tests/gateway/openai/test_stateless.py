"""What a request says holds, every time: OpenAI's APIs are stateless, and SDKs rely on it.

The bodies are those of openai-agents, the AI SDK, pydantic-ai, LangChain, instructor and Codex CLI.
"""

import base64
from types import SimpleNamespace

import openai
import pytest

from agents.exceptions import Invalid
from agents.models import StoredFile
from gateway.openai import chat, responses
from runs.models import InputRequest, Message, Run
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
PIXEL = "data:image/png;base64,iVBORw0KGgo="
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "name": "weather", "parameters": PARAMETERS}
CLOCK = {"type": "function", "name": "clock", "parameters": {"type": "object", "properties": {}}}
USER = {"role": "user", "content": "the weather?"}
ASKS = calls(("weather", {"city": "Oslo"}))


def in_chat(tool):
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}


CHAT_WEATHER, CHAT_CLOCK = in_chat(WEATHER), in_chat(CLOCK)


@pytest.fixture
def helper(make_agent, make_tool, stub_provider):
    agent = make_agent("helper", tools=[make_tool("add")], provider=stub_provider)
    agent.grants.update(mode="allow")
    return agent


@pytest.fixture
def request_of(alice):
    return SimpleNamespace(user=alice, auth=None, headers={}, META={})


@pytest.fixture
def work(worker, stub):
    def work_on(start, *turns):
        stub.script(*turns)
        with worker.capture(execute=True):
            turn = start()
        worker.work()
        stub.turns.clear()
        return turn

    return work_on


@pytest.fixture
def complete(work, request_of, helper):
    """The answer of a chat completion."""

    def ask(messages, *turns, **more):
        body = {"model": "helper", "messages": messages, **more}
        turn = work(
            lambda: chat.start_chat_turn(request_of, chat.parse_chat_request(body), {}, is_watched=False), *turns
        )
        return chat.answer_chat_completion(turn, "helper").data

    return ask


@pytest.fixture
def respond(work, request_of, helper):
    """The response to an input."""

    def ask(input, *turns, **more):
        body = {"model": "helper", "input": input, **more}
        read = responses.parse_response_request(body, request_of.user)
        turn = work(lambda: responses.start_response_turn(request_of, body, read, is_watched=False), *turns)
        return responses.response_json(turn)

    return ask


def message_in(completion):
    return completion["choices"][0]["message"]


def told(message, content="rain"):
    """The results of the calls in a message."""
    return [{"role": "tool", "tool_call_id": call["id"], "content": content} for call in message["tool_calls"]]


def output(call, text="rain"):
    return {"type": "function_call_output", "call_id": call["call_id"], "output": text}


def text_in(response):
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


def said(stub):
    """Roles and texts of the model's last request, without instructions."""
    return [(one["role"], one["content"]) for one in stub.requests[-1]["messages"] if one["role"] != "system"]


# -- how tools are used -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        ({"type": "function", "function": {"name": "clock"}}, {"type": "function", "function": {"name": "clock"}}),
    ],
)
def test_a_demanded_call_reaches_the_model_each_time(complete, stub, choice, sent):
    tools = [CHAT_WEATHER, CHAT_CLOCK]
    first = message_in(complete([USER], calls(("clock", {})), tools=tools, tool_choice=choice))
    assert stub.requests[-1]["tool_choice"] == sent
    complete([USER, first, *told(first)], calls(("clock", {})), tools=tools, tool_choice=choice)
    assert stub.requests[-1]["tool_choice"] == sent
    complete([USER, first, *told(first)], says("done"), tools=tools)
    assert "tool_choice" not in stub.requests[-1]


def test_a_call_is_demanded_until_one_of_the_callers_tools_is_called(complete, stub, functions):
    turns = [calls(("add", {"a": 1, "b": 2})), ASKS]
    message = message_in(complete([USER], *turns, tools=[CHAT_WEATHER], tool_choice="required"))
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["weather"]
    assert [one["tool_choice"] for one in stub.requests] == ["required", "required"]


def test_the_last_step_may_make_the_demanded_call(complete, helper, alice, stub, functions):
    helper.max_steps = 1
    helper.save()
    helper.publish(author=alice)
    message = message_in(
        complete([USER], calls(("add", {"a": 1, "b": 2})), ASKS, tools=[CHAT_WEATHER], tool_choice="required")
    )
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["weather"]
    assert [tool["function"]["name"] for tool in stub.requests[-1]["tools"]] == ["weather"]


def test_one_call_at_a_time(complete, stub):
    turn = calls(("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"}))
    message = message_in(complete([USER], turn, tools=[CHAT_WEATHER], parallel_tool_calls=False))
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == ['{"city":"Oslo"}']
    assert stub.requests[-1]["parallel_tool_calls"] is False


def test_an_answer_ends_at_a_stop(complete, stub):
    assert message_in(complete([USER], says("Thought: x\nObservation: y"), stop=["Observation:"]))["content"] == (
        "Thought: x\n"
    )
    assert stub.requests[-1]["stop"] == ["Observation:"]


def test_tools_that_are_no_functions_are_left_out_of_the_answer_too(respond, stub):
    tools = [WEATHER, {"type": "web_search"}, {"type": "custom", "name": "apply_patch", "format": {"type": "text"}}]
    response = respond("hi", says("hello"), tools=tools, client_metadata={"a": "b"}, include=["x"], store=False)
    assert [tool["name"] for tool in response["tools"]] == ["weather"]
    assert [tool["function"]["name"] for tool in stub.requests[-1]["tools"]] == ["add", "weather"]


# -- requests that end in results ---------------------------------------------------------------------------------------


def test_the_same_request_goes_on_in_the_same_run(complete):
    first = message_in(complete([USER], ASKS, tools=[CHAT_WEATHER]))
    answer = complete([USER, first, *told(first)], says("It rains."), tools=[CHAT_WEATHER])
    assert message_in(answer)["content"] == "It rains." and Run.objects.count() == 1
    assert InputRequest.objects.get().value == "rain"


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [{"role": "system", "content": "PROMPT-B"}]},
        {"tools": [CHAT_CLOCK]},
        {"temperature": 0.5},
        {"tool_choice": "none", "tools": [CHAT_WEATHER]},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": PARAMETERS}}},
    ],
    ids=str,
)
def test_what_a_request_with_results_says_holds(complete, stub, change):
    """A handoff of openai-agents goes on with another prompt, an output tool of pydantic-ai with another format."""
    first = message_in(complete([{"role": "system", "content": "PROMPT-A"}, USER], ASKS, tools=[CHAT_WEATHER]))
    change = {"tools": [CHAT_WEATHER], "messages": [{"role": "system", "content": "PROMPT-A"}], **change}
    messages = [*change.pop("messages"), USER, first, *told(first)]
    complete(messages, says('{"city": "Oslo"}'), **change)
    request = stub.requests[-1]
    prompt = request["messages"][0]["content"]
    if messages[0]["content"] == "PROMPT-B":
        assert "PROMPT-B" in prompt and "PROMPT-A" not in prompt
    if "temperature" in change:
        assert request["temperature"] == 0.5
    if "response_format" in change:
        assert request["response_format"]["json_schema"]["schema"] == PARAMETERS
    if change["tools"] == [CHAT_CLOCK]:
        assert [tool["function"]["name"] for tool in request["tools"]] == ["add", "clock"]
    assert request["messages"][-1]["content"].count("rain") == 1


@pytest.mark.parametrize("place", ["earlier text", "its own call", "its own words"])
def test_a_changed_history_is_what_the_model_reads(complete, stub, place):
    asks = calls(("weather", {"city": "Oslo"}))
    first = message_in(complete([USER], asks, tools=[CHAT_WEATHER]))
    user = {**USER, "content": "CHANGED"} if place == "earlier text" else USER
    if place == "its own words":
        first = {**first, "content": "CHANGED"}
    if place == "its own call":
        second = message_in(complete([USER, first, *told(first)], asks, tools=[CHAT_WEATHER]))
        complete([USER, first, *told(first, "CHANGED"), second, *told(second)], says("x"), tools=[CHAT_WEATHER])
    else:
        complete([user, first, *told(first)], says("x"), tools=[CHAT_WEATHER])
    assert "CHANGED" in str(stub.requests[-1]["messages"])


def test_a_transcript_whose_calls_were_made_elsewhere_is_taken(complete, respond, stub):
    made = {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    messages = [USER, {"role": "assistant", "content": "I look.", "tool_calls": [made]}]
    complete([*messages, {"role": "tool", "tool_call_id": "call_a", "content": "sun"}], says("Sunny."))
    roles = [role for role, _ in said(stub)]
    assert roles == ["user", "assistant", "tool"] and said(stub)[1][1] == "I look." and "sun" in said(stub)[2][1]
    item = {"type": "function_call", "call_id": "call_a", "name": "weather", "arguments": "{}"}
    assert text_in(respond([USER, item, output(item, "sun")], says("Sunny."))) == "Sunny."
    custom = {"type": "custom_tool_call", "call_id": "call_c", "name": "apply_patch", "input": "*** Begin"}
    done = {**output(custom, "ok"), "type": "custom_tool_call_output"}
    respond([USER, custom, done, {"role": "user", "content": "and?"}], says("Done."))
    assert "*** Begin" in str(stub.requests[-1])


def test_no_empty_message_of_the_assistant_reaches_the_model(complete, stub):
    complete([USER, {"role": "assistant", "content": ""}, {"role": "assistant", "content": None}, USER], says("x"))
    assert all(content for role, content in said(stub) if role == "assistant")


def test_a_call_without_its_result_is_refused_at_once(complete, respond):
    made = [{"id": f"call_{id}", "type": "function", "function": {"name": "weather", "arguments": "{}"}} for id in "ab"]
    first = {"role": "assistant", "content": None, "tool_calls": made}
    with pytest.raises(Invalid) as refused:
        complete([USER, first, *told(first)[:1]], tools=[CHAT_WEATHER])
    assert refused.value.code == "missing_result"
    asked = respond([USER], ASKS, tools=[WEATHER])
    with pytest.raises(Invalid) as refused:
        respond([USER], tools=[WEATHER], previous_response_id=asked["id"])
    assert refused.value.code == "missing_result"


@pytest.mark.live
def test_one_of_two_results_is_refused_at_once(client, model):
    model.script(calls(("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"})))
    asked = client.responses.create(model="plain", input="the weather?", tools=[WEATHER])
    for more in ({"previous_response_id": asked.id}, {}):
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(
                model="plain", input=[output(asked.output[0].model_dump())], tools=[WEATHER], **more
            )
        assert refused.value.code == "missing_result"


@pytest.mark.parametrize("is_named", [True, False])
def test_the_same_results_sent_again_are_answered_again(respond, stub, is_named):
    asked = respond([USER], ASKS, tools=[WEATHER])
    more = {"tools": [WEATHER], **({"previous_response_id": asked["id"]} if is_named else {})}
    for text in ("Rain.", "Rain again.", "And again."):
        assert text_in(respond([output(asked["output"][0])], says(text), **more)) == text
        assert [role for role, _ in said(stub)] == ["user", "assistant", "tool"]


def test_a_long_conversation_is_read_whole(complete, stub, helper):
    turns = [
        {"role": role, "content": f"{role} {place} {'x' * 400}"}
        for place in range(60)
        for role in ("user", "assistant")
    ]
    complete([*turns, USER], says("ok"))
    assert len(said(stub)) == 121


# -- previous_response_id -----------------------------------------------------------------------------------------------


def test_a_response_can_be_continued_twice(respond, stub):
    first = respond("one", says("ONE"))
    respond("two A", says("TWO-A"), previous_response_id=first["id"])
    second = respond("two B", says("TWO-B"), previous_response_id=first["id"])
    assert said(stub) == [("user", "one"), ("assistant", "ONE"), ("user", "two B")]
    respond("three", says("x"), previous_response_id=second["id"])
    assert [text for _, text in said(stub)] == ["one", "ONE", "two B", "TWO-B", "three"]


def test_a_response_with_calls_can_be_continued_in_another_way(respond, stub):
    asked = respond([USER], ASKS, tools=[WEATHER])
    call = asked["output"][0]
    respond([output(call)], says("It rains."), tools=[WEATHER], previous_response_id=asked["id"])
    respond([output(call, "sun")], says("x"), tools=[CLOCK], instructions="PROMPT-B", previous_response_id=asked["id"])
    request = stub.requests[-1]
    assert "PROMPT-B" in request["messages"][0]["content"] and "sun" in request["messages"][-1]["content"]
    assert [tool["function"]["name"] for tool in request["tools"]] == ["add", "clock"]
    respond(
        [output(call), {"role": "user", "content": "in French"}], says("Il pleut."), previous_response_id=asked["id"]
    )
    assert [role for role, _ in said(stub)][:3] == ["user", "assistant", "tool"] and "in French" in said(stub)[-1][1]


def test_a_run_that_was_left_behind_is_ended_and_its_response_stays_complete(respond, request_of):
    asked = respond([USER], ASKS, tools=[WEATHER])
    respond([output(asked["output"][0])], says("x"), tools=[CLOCK], previous_response_id=asked["id"])
    first = Run.objects.order_by("created_at").first()
    assert first.status == "cancelled"
    assert responses.response_json(responses.load_response_turn(request_of.user, asked["id"]))["status"] == "completed"


# -- items --------------------------------------------------------------------------------------------------------------


def test_the_agents_own_calls_are_calls_of_the_server(respond, stub, functions):
    response = respond("1 + 2?", calls(("add", {"a": 1, "b": 2})), says("3."))
    assert [item["type"] for item in response["output"]] == ["mcp_call", "message"]
    call = response["output"][0]
    assert (call["name"], call["arguments"], call["server_label"]) == ("add", '{"a":1,"b":2}', "muster")
    respond(["x"] and [{"role": "user", "content": "1 + 2?"}, *response["output"], USER], says("x"))
    assert [role for role, _ in said(stub)] == ["user", "assistant", "tool", "assistant", "user"]


def test_items_are_known_by_their_ids(respond, stub, bob):
    """The AI SDK sends references in place of items that a server keeps."""
    asked = respond([USER], ASKS, tools=[WEATHER])
    call = asked["output"][0]
    refer = [{"type": "item_reference", "id": call["id"]}]
    told = respond([USER, *refer, output(call)], says("It rains."), tools=[WEATHER])
    assert text_in(told) == "It rains." and Run.objects.count() == 1
    refer = [*refer, output(call), {"type": "item_reference", "id": told["output"][0]["id"]}]
    respond([USER, *refer, {"role": "user", "content": "and?"}], says("x"), tools=[WEATHER])
    assert [role for role, _ in said(stub)] == ["user", "assistant", "tool", "assistant", "user"]
    with pytest.raises(Invalid) as refused:
        responses.parse_response_request({"model": "helper", "input": refer}, bob)
    assert refused.value.code == "item_not_found"


def test_each_call_of_a_model_is_counted_once(complete, respond):
    first = complete([USER], ASKS, tools=[CHAT_WEATHER])
    message = message_in(first)
    second = complete([USER, message, *told(message)], says("It rains."), tools=[CHAT_WEATHER])
    assert [one["usage"]["total_tokens"] for one in (first, second)] == [18, 18]
    asked = respond([USER], ASKS, tools=[WEATHER])
    last = respond([output(asked["output"][0])], says("x"), tools=[WEATHER], previous_response_id=asked["id"])
    assert [one["usage"]["total_tokens"] for one in (asked, last)] == [18, 18]


@pytest.mark.parametrize("is_named", [True, False])
def test_pictures_in_results_arrive(respond, stub, is_named):
    asked = respond([USER], ASKS, tools=[WEATHER])
    call = asked["output"][0]
    parts = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PIXEL}]
    if is_named:
        respond([output(call, parts)], says("x"), tools=[WEATHER], previous_response_id=asked["id"])
    else:
        respond([USER, call, output(call, parts)], says("x"), tools=[WEATHER])
    assert PIXEL in str(stub.requests[-1]["messages"][-1]) and "see" in str(stub.requests[-1]["messages"])
    assert Run.objects.order_by("created_at").last().has_untrusted


def test_pictures_in_results_of_a_chat_arrive(complete, stub):
    first = message_in(complete([USER], ASKS, tools=[CHAT_WEATHER]))
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    complete([USER, first, *told(first, parts)], says("x"), tools=[CHAT_WEATHER])
    assert PIXEL in str(stub.requests[-1]["messages"][-1])


FILE_DATA = "data:text/plain;base64," + base64.b64encode(b"The code word is heron.").decode()


def test_a_file_that_a_conversation_brings_along_is_kept_once(complete, respond, stub, alice):
    for _ in range(2):
        part = {"type": "file", "file": {"filename": "notes.txt", "file_data": FILE_DATA}}
        complete([{"role": "user", "content": [{"type": "text", "text": "the word?"}, part]}], says("x"))
        part = {"type": "input_file", "filename": "notes.txt", "file_data": FILE_DATA}
        respond([{"role": "user", "content": [{"type": "input_text", "text": "the word?"}, part]}], says("x"))
        assert "The code word is heron." in str(stub.requests[-1]["messages"])
    assert "The code word is heron." in str(stub.requests[-2]["messages"])
    assert [(row.name, row.owner) for row in StoredFile.objects.all()] == [("notes.txt", alice)]
    assert Run.objects.order_by("created_at").last().has_untrusted


@pytest.mark.parametrize(
    "file", [{"file_data": "data:text/plain;base64,%%%"}, {"file_data": 7}, {"file_url": "https://example.org/a.pdf"}]
)
def test_a_file_that_cannot_be_read_is_refused(respond, file):
    with pytest.raises(Invalid) as refused:
        respond([{"role": "user", "content": [{"type": "input_file", "filename": "x", **file}]}])
    assert refused.value.details[0]["field"] == "input.0.content.0"
    assert not StoredFile.objects.exists()


def test_json_without_a_schema_may_be_asked_for_in_two_forms(respond, stub):
    for format in ({"type": "json_object"}, {"type": "json_schema"}):
        assert text_in(respond("x", says('{"a": 1}'), text={"format": format})) == '{"a": 1}'
    with pytest.raises(Invalid):
        respond("x", text={"format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}})


def test_an_empty_stop_is_none(complete):
    for stop in ("", [""], []):
        assert message_in(complete([USER], says("It rains."), stop=stop))["content"] == "It rains."


def test_a_branch_keeps_the_mark_of_what_strangers_wrote(respond):
    asked = respond([USER], ASKS, tools=[WEATHER])
    respond([output(asked["output"][0])], says("x"), tools=[CLOCK], previous_response_id=asked["id"])
    run = Run.objects.order_by("created_at").last()
    assert run.has_untrusted and run.session.has_untrusted
    assert Message.objects.filter(session=run.session, untrusted=True).exists()
