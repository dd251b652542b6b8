"""OpenAI's own SDK, unchanged, against a running Muster: chat completions and responses."""

import base64
import json

import httpx
import openai
import pytest

from tests.fakes import calls, says
from tests.gateway.live_agents import new_key
from tests.live import wait_for

pytestmark = pytest.mark.live
WEATHER = {
    "name": "weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CHAT_TOOL = {"type": "function", "function": WEATHER}
TOOL = {"type": "function", **WEATHER}
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 20).decode()


@pytest.fixture
def client(agents, model):
    live, _ = agents
    model.turns.clear()
    model.requests.clear()
    return openai.OpenAI(base_url=f"{live.url}/v1", api_key=live.key, max_retries=0, timeout=60)


def test_the_models_are_the_agents(client):
    names = [model.id for model in client.models.list()]
    assert {"plain", "clerk", "router"} <= set(names)
    assert client.models.retrieve("plain").object == "model"
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("nobody")
    assert refused.value.code == "model_not_found"


def test_a_model_may_name_a_version(client, model):
    assert client.models.retrieve("plain@1").id == "plain@1"
    model.script(says("One."))
    answer = client.chat.completions.create(model="plain@1", messages=[{"role": "user", "content": "hi"}])
    assert (answer.choices[0].message.content, answer.model) == ("One.", "plain@1")
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="plain@99", input="hi")
    assert refused.value.code == "unknown_version"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("plain@99")


def test_embeddings_of_the_offline_provider(client):
    answer = client.embeddings.create(model="assistant", input=["a cat", "a cat"])
    one, two = (entry.embedding for entry in answer.data)
    assert one == two and len(one) == 256 and isinstance(one[0], float) and answer.usage.total_tokens > 0
    with pytest.raises(openai.NotFoundError) as refused:
        client.embeddings.create(model="text-embedding-3-small", input="x")
    assert refused.value.code == "model_not_found"


# -- chat completions -------------------------------------------------------------------------------------------------


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
    with pytest.raises(openai.ConflictError) as refused:  # the results are taken once
        client.chat.completions.create(model="plain", messages=messages)
    assert refused.value.code == "already_answered"


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
    sent = [
        {name: one.get(name) for name in ("temperature", "top_p", "max_completion_tokens")} for one in model.requests
    ]
    assert sent == [
        {"temperature": 0.3, "top_p": None, "max_completion_tokens": 50},
        {"temperature": None, "top_p": 0.5, "max_completion_tokens": 40},
    ]
    assert (answer.top_p, answer.max_output_tokens) == (0.5, 40)


@pytest.mark.parametrize(
    ("more", "param", "code"),
    [
        ({"temperature": 3}, "temperature", "invalid_options"),
        ({"seed": 3}, "seed", "unsupported_parameter"),
        ({"n": 2}, "n", "unsupported_parameter"),
        ({"extra_body": {"temprature": 1}}, "temprature", "unknown_parameter"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools.0.type", "unsupported_parameter"),
        ({"tool_choice": "required"}, "tool_choice", "unsupported_parameter"),
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


def test_an_unknown_key_and_an_unknown_agent(agents, client):
    stranger = openai.OpenAI(base_url=f"{agents[0].url}/v1", api_key="mk_none.none", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.models.list()
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "hi"}])


# -- responses --------------------------------------------------------------------------------------------------------


def test_a_response_and_the_next_one_in_its_conversation(client, model):
    model.script(says("Hello Alice."), says("Alice."))
    first = client.responses.create(model="plain", input="I am Alice.", instructions="Be brief.", metadata={"a": "b"})
    assert (first.status, first.output_text, first.metadata) == ("completed", "Hello Alice.", {"a": "b"})
    assert first.usage.total_tokens == 18 and first.instructions == "Be brief."
    second = client.responses.create(model="plain", input="Who am I?", previous_response_id=first.id)
    assert second.output_text == "Alice." and second.previous_response_id == first.id
    assert [one["content"] for one in model.requests[1]["messages"]][1:] == ["I am Alice.", "Hello Alice.", "Who am I?"]
    assert client.responses.retrieve(first.id).output_text == "Hello Alice."
    items = client.responses.input_items.list(second.id).data
    assert [item.content[0].text for item in items] == ["Who am I?"]


def test_the_agents_own_calls_are_items_and_the_stream_is_in_order(client, model):
    model.script(calls(("calculate", {"expression": "6 * 7"})), says("It is 42.", pause_s=0.02))
    with client.responses.stream(model="clerk", input="6 * 7?") as stream:
        events = list(stream)
        final = stream.get_final_response()
    last = -1  # a piece of text counts as many as it has characters
    for event in events:
        last += len(event.delta) if event.type == "response.output_text.delta" else 1
        assert event.sequence_number == last
    names = [event.type for event in events]
    assert names[:2] == ["response.created", "response.in_progress"] and names[-1] == "response.completed"
    assert "response.function_call_arguments.done" in names and "response.output_text.delta" in names
    assert [item.type for item in final.output] == ["function_call", "function_call_output", "message"]
    assert final.output[0].call_id == final.output[1].call_id and final.output[1].output[0].text == "42"
    again = client.responses.retrieve(final.id)
    assert [item.id for item in again.output] == [item.id for item in final.output]
    assert again.output_text == final.output_text == "It is 42."


@pytest.mark.parametrize("is_over", [True, False])
def test_a_stream_that_was_cut_off_continues_inside_the_text(client, model, is_over):
    model.script(says("One two three four.", pause_s=0.05))
    got, id = [], ""
    for event in client.responses.create(model="plain", input="count", stream=True, background=True):
        got.append(event)
        id = event.response.id if event.type == "response.created" else id
        if not is_over and event.type == "response.output_text.delta":
            break
    after = next(one for one in got if one.type == "response.output_text.delta").sequence_number + 1
    rest = list(client.responses.retrieve(id, stream=True, starting_after=after))
    deltas = [event.delta for event in rest if event.type == "response.output_text.delta"]
    first = next(one.delta for one in got if one.type == "response.output_text.delta")
    assert first + "One two three four."[len(first)] + "".join(deltas) == "One two three four."
    assert rest[-1].type == "response.completed" and rest[0].sequence_number > after


def test_files_are_those_of_muster(client, model, agents):
    live, _ = agents
    made = client.files.create(file=("notes.txt", b"The code word is heron."), purpose="user_data")
    assert (made.filename, made.bytes, made.object) == ("notes.txt", 23, "file")
    assert client.files.retrieve(made.id) == made and made.id in [one.id for one in client.files.list(limit=1)]
    assert client.files.content(made.id).read() == b"The code word is heron."
    model.script(says("heron"))
    part = {"type": "input_file", "file_id": made.id}
    said = {"role": "user", "content": [{"type": "input_text", "text": "the code word?"}, part]}
    assert client.responses.create(model="plain", input=[said]).output_text == "heron"
    assert "The code word is heron." in json.dumps(model.requests[0]["messages"])
    stranger = openai.OpenAI(
        base_url=f"{live.url}/v1",
        api_key=new_key(live, "mallory-files", "messages:read", "messages:write"),
        max_retries=0,
    )
    for attempt in (stranger.files.retrieve, stranger.files.content, stranger.files.delete):
        with pytest.raises(openai.NotFoundError):
            attempt(made.id)
    assert made.id not in [one.id for one in stranger.files.list()]
    with pytest.raises(openai.BadRequestError):
        client.files.create(file=("x.jsonl", b"{}"), purpose="batch")
    assert client.files.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(made.id)


def test_the_caller_executes_its_tool(client, model):
    model.script(calls(("weather", {"city": "Oslo"})), says("It rains."))
    first = client.responses.create(model="plain", input="the weather?", tools=[TOOL])
    assert first.status == "completed" and [item.type for item in first.output] == ["function_call"]
    result = {"type": "function_call_output", "call_id": first.output[0].call_id, "output": "rain"}
    second = client.responses.create(model="plain", input=[result], previous_response_id=first.id, tools=[TOOL])
    assert (second.status, second.output_text) == ("completed", "It rains.")
    assert client.responses.retrieve(first.id).output_text == ""  # each response keeps its own items
    assert client.responses.retrieve(second.id).output_text == "It rains."


def test_an_approval_is_asked_and_answered(agents, client, model):
    live, key = agents
    decider = openai.OpenAI(base_url=f"{live.url}/v1", api_key=key)
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("Two."))
    first = client.responses.create(model="careful", input="1 + 1?")
    request = first.output[-1]
    assert (request.type, request.name) == ("mcp_approval_request", "calculate")
    decision = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
    with pytest.raises(openai.PermissionDeniedError):  # only a key that may decide
        client.responses.create(model="careful", input=[decision], previous_response_id=first.id)
    second = decider.responses.create(model="careful", input=[decision], previous_response_id=first.id)
    assert (second.status, second.output_text) == ("completed", "Two.")


def test_in_the_background_and_cancelled(client, model):
    model.script(says("late", silent_s=20))
    begun = client.responses.create(model="plain", input="take your time", background=True)
    assert begun.status in ("queued", "in_progress")
    cancelled = client.responses.cancel(begun.id)
    assert wait_for(lambda: client.responses.retrieve(begun.id).status == "cancelled", within=20)
    assert cancelled.id == begun.id and client.responses.cancel(begun.id).status == "cancelled"


def test_pictures_and_structured_output(client, model):
    model.script(says('{"colour": "red"}'))
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}
    content = [{"type": "input_text", "text": "which colour?"}, picture]
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
    answer = client.responses.create(
        model="plain",
        input=[{"role": "user", "content": content}],
        text={"format": {"type": "json_schema", "name": "colour", "schema": schema}},
    )
    assert json.loads(answer.output_text) == {"colour": "red"}
    assert PIXEL in json.dumps(model.requests[0]["messages"])


def test_a_response_that_is_not_stored_cannot_be_read_again(client, model):
    model.script(says("gone"))
    answer = client.responses.create(model="plain", input="hi", store=False)
    assert answer.output_text == "gone" and answer.store is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answer.id)


def test_another_person_neither_reads_continues_nor_cancels_a_response(agents, client, model, stranger_key):
    model.script(calls(("weather", {"city": "Oslo"})), says("It rains."))
    mine = client.responses.create(model="plain", input="mine", tools=[TOOL])
    other = openai.OpenAI(base_url=f"{agents[0].url}/v1", api_key=stranger_key, max_retries=0)
    with pytest.raises(openai.NotFoundError):
        other.responses.retrieve(mine.id)
    with pytest.raises(openai.NotFoundError):
        other.responses.cancel(mine.id)
    with pytest.raises(openai.NotFoundError):
        other.responses.create(model="router", input="hi", previous_response_id=mine.id)
    result = {"type": "function_call_output", "call_id": mine.output[0].call_id, "output": "lie"}
    with pytest.raises(openai.BadRequestError):
        other.responses.create(model="router", input=[result])
    assert client.responses.cancel(mine.id).status == "cancelled"


@pytest.fixture(scope="module")
def stranger_key(agents):
    """A key of somebody who has nothing."""
    return new_key(agents[0], "stranger", "*")


def test_errors_have_openais_form(agents):
    said = httpx.post(
        f"{agents[0].url}/v1/responses", json={"model": "plain"}, headers={"Authorization": f"Bearer {agents[0].key}"}
    )
    assert said.status_code == 400 and said.json()["error"].keys() == {"message", "type", "param", "code"}
    assert httpx.post(f"{agents[0].url}/v1/responses", json={}).status_code == 401


# -- compaction, and responses over a WebSocket ---------------------------------------------------------------------


def test_a_compacted_conversation_goes_on_from_its_summary(client, model):
    model.script(says("Hello Alice."), says("The user is Alice."), says("You are Alice."))
    first = client.responses.create(model="plain", input="My name is Alice.")
    compacted = client.responses.compact(model="plain", previous_response_id=first.id)
    assert compacted.object == "response.compaction" and compacted.usage.total_tokens > 0
    asked, item = compacted.output
    assert (asked.type, asked.content[0].text, item.type) == ("message", "My name is Alice.", "compaction")
    assert "Alice" not in item.encrypted_content
    assert "Summarise this conversation" in model.requests[1]["messages"][0]["content"]
    assert [one["content"] for one in model.requests[1]["messages"][1:3]] == ["My name is Alice.", "Hello Alice."]

    items = [one.model_dump(exclude_none=True, warnings=False) for one in compacted.output]  # “input_text” in an output
    answer = client.responses.create(model="plain", input=[*items, {"role": "user", "content": "Who am I?"}])
    assert answer.output_text == "You are Alice."
    said = [one["content"] for one in model.requests[2]["messages"][1:]]
    assert "The user is Alice." in said[1] and said[-1] == "Who am I?"


def test_a_summary_is_for_its_own_person_and_only_as_muster_made_it(client, agents, model):
    live, _ = agents
    model.script(says("A secret."))
    items = [{"role": "user", "content": "Remember this."}]
    item = client.responses.compact(model="plain", input=items).output[-1].model_dump(exclude_none=True)
    other = openai.OpenAI(base_url=f"{live.url}/v1", api_key=new_key(live, "compact-stranger", "*"), max_retries=0)
    for who, content in ((other, item["encrypted_content"]), (client, "gAAAAAforged"), (client, "")):
        sent = [{**item, "encrypted_content": content}, {"role": "user", "content": "Tell me."}]
        with pytest.raises(openai.BadRequestError) as refused:
            who.responses.create(model="router", input=sent)
        assert refused.value.code == "invalid_encrypted_content"
    with pytest.raises(openai.NotFoundError):
        other.responses.compact(model="router", previous_response_id="resp_" + "0" * 32)
    with pytest.raises(openai.BadRequestError):
        client.responses.compact(model="plain")


@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")  # OpenAI's own use
def test_responses_over_a_websocket(client, model):
    model.script(says("Hello there."), says("Again."))
    with client.responses.connect() as socket:
        socket.response.create(model="plain", input="Say hello.", store=False)
        events = until_completed(socket)
        assert [event.type for event in events][:2] == ["response.created", "response.in_progress"]
        first = events[-1].response
        assert (first.output_text, [event.sequence_number for event in events][0]) == ("Hello there.", 0)
        socket.response.create(model="plain", input="Again.", previous_response_id=first.id, store=False)
        assert until_completed(socket)[-1].response.output_text == "Again."
        assert [one["content"] for one in model.requests[1]["messages"][1:]] == ["Say hello.", "Hello there.", "Again."]
        socket.response.create(model="nobody", input="Hi")
        assert json.loads(socket.recv_bytes())["error"]["type"] == "not_found_error"
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)  # `store` was false


def until_completed(socket):
    events = []
    while not events or events[-1].type not in ("response.completed", "response.failed", "error"):
        events.append(socket.recv())
    return events
