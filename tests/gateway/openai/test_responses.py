"""Responses, through OpenAI's SDK."""

import json

import openai
import pytest

from tests.fakes import calls, says
from tests.gateway.live_agents import new_key
from tests.gateway.openai.bodies import PIXEL, TOOL
from tests.live import wait_for

pytestmark = pytest.mark.live


# -- responses -----------------------------------------------------------------------------------------------------------


def test_a_response_and_the_next_one_in_its_conversation(client, model):
    model.script(says("Hello Alice."), says("Alice."))
    first = client.responses.create(model="plain", input="I am Alice.", instructions="Be brief.", metadata={"a": "b"})
    assert (first.status, first.output_text, first.metadata) == ("completed", "Hello Alice.", {"a": "b"})
    assert first.usage.total_tokens == 18 and first.instructions == "Be brief."
    second = client.responses.create(model="plain", input="Who am I?", previous_response_id=first.id)
    assert second.output_text == "Alice." and second.previous_response_id == first.id
    assert [one["content"] for one in model.requests[1]["messages"]] == ["I am Alice.", "Hello Alice.", "Who am I?"]
    assert client.responses.retrieve(first.id).output_text == "Hello Alice."
    items = client.responses.input_items.list(second.id).data
    with pytest.raises(openai.BadRequestError, match="“limit”"):  # zeros before it raise no bound
        client.responses.input_items.list(second.id, extra_query={"limit": "0000010000"})
    assert [item.content[0].text for item in items] == ["Who am I?"]


def test_the_agents_own_calls_are_items_and_the_stream_is_in_order(client, model):
    model.script(calls(("calculate", {"expression": "6 * 7"})), says("It is 42.", pause_s=0.02))
    with client.responses.stream(model="clerk", input="6 * 7?") as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    names = [event.type for event in events]
    assert names[:2] == ["response.created", "response.in_progress"] and names[-1] == "response.completed"
    assert "response.mcp_call.completed" in names and "response.output_text.delta" in names
    assert [item.type for item in final.output] == ["mcp_call", "message"]
    assert (final.output[0].name, final.output[0].output, final.output[0].error) == ("calculate", "42", None)
    again = client.responses.retrieve(final.id)
    assert [item.id for item in again.output] == [item.id for item in final.output]
    assert again.output_text == final.output_text == "It is 42."


def test_a_refused_call_of_the_callers_tool_is_no_item(client, model):
    """The caller would execute it, with half of its arguments or none."""
    model.script(calls((TOOL["name"], '{"city": "Os'), finish="length"), says("I do not know."))
    with client.responses.stream(model="plain", input="the weather?", tools=[TOOL]) as events:
        for _ in events:
            pass
        final = events.get_final_response()
    assert [item.type for item in final.output] == ["message"] and final.output_text == "I do not know."


@pytest.mark.parametrize("is_over", [True, False])
def test_a_stream_that_was_cut_off_continues_inside_the_text(client, model, is_over):
    model.script(says("One two three four.", pause_s=0.05))
    got, id = [], ""
    for event in client.responses.create(model="plain", input="count", stream=True, background=True):
        got.append(event)
        id = event.response.id if event.type == "response.created" else id
        if not is_over and event.type == "response.output_text.delta":
            break
    after = next(one for one in got if one.type == "response.output_text.delta").sequence_number
    rest = list(client.responses.retrieve(id, stream=True, starting_after=after))
    deltas = [event.delta for event in rest if event.type == "response.output_text.delta"]
    first = next(one.delta for one in got if one.type == "response.output_text.delta")
    assert first + "".join(deltas) == "One two three four."
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


def test_a_client_that_repeats_its_conversation_decides_one_approval_after_another(agents, model):
    """As the AI SDK does: requests are named by reference, and decisions of before stand in each request."""
    live, key = agents
    decider = openai.OpenAI(base_url=f"{live.url}/v1", api_key=key)
    model.turns.clear()
    model.script(
        calls(("calculate", {"expression": "1 + 1"})), calls(("calculate", {"expression": "2 + 2"})), says("4.")
    )
    items = [{"role": "user", "content": "1 + 1, then 2 + 2?"}]
    for _ in range(2):
        request = decider.responses.create(model="careful", input=items).output[-1]
        assert request.type == "mcp_approval_request"
        items.append({"type": "item_reference", "id": request.id})
        items.append({"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True})
    assert decider.responses.create(model="careful", input=items).output_text == "4."


def test_a_decision_and_a_result_are_sent_together(agents, model):
    live, key = agents
    decider = openai.OpenAI(base_url=f"{live.url}/v1", api_key=key)
    model.turns.clear()
    model.script(calls(("calculate", {"expression": "1 + 1"}), ("weather", {"city": "Oslo"})), says("2, and rain."))
    first = decider.responses.create(model="careful", input="1 + 1, and the weather?", tools=[TOOL])
    call, request = sorted(first.output, key=lambda item: item.type)
    assert (call.type, request.type) == ("function_call", "mcp_approval_request")
    answers = [
        {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True},
        {"type": "function_call_output", "call_id": call.call_id, "output": "rain"},
    ]
    second = decider.responses.create(model="careful", input=answers, previous_response_id=first.id, tools=[TOOL])
    assert second.output_text == "2, and rain."


def test_in_the_background_and_cancelled(client, model):
    model.script(says("late", silent_s=20))
    begun = client.responses.create(model="plain", input="take your time", background=True)
    assert begun.status in ("queued", "in_progress")
    cancelled = client.responses.cancel(begun.id)
    assert wait_for(lambda: client.responses.retrieve(begun.id).status == "cancelled")
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
    with pytest.raises(openai.BadRequestError) as refused:
        other.responses.create(model="router", input="hi", previous_response_id=mine.id)
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")
    result = {"type": "function_call_output", "call_id": mine.output[0].call_id, "output": "lie"}
    with pytest.raises(openai.BadRequestError):
        other.responses.create(model="router", input=[result])
    assert client.responses.cancel(mine.id).status == "cancelled"


# -- compaction, and responses over a WebSocket --------------------------------------------------------------------------


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
        assert [one["content"] for one in model.requests[1]["messages"]] == ["Say hello.", "Hello there.", "Again."]
        socket.response.create(model="nobody", input="Hi")
        assert json.loads(socket.recv_bytes())["error"]["type"] == "not_found_error"
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)  # `store` was false


@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")
def test_the_next_turn_of_a_socket_is_taken_at_once(client, model):
    model.script(*[says(f"{number}.") for number in range(20)])
    with client.responses.connect() as socket:
        previous = {}
        for number in range(20):
            socket.response.create(model="plain", input="next", store=False, **previous)
            events = until_completed(socket)
            assert events[-1].type == "response.completed", events[-1]
            assert [event.sequence_number for event in events] == list(range(len(events)))
            previous = {"previous_response_id": events[-1].response.id}
            assert events[-1].response.output_text == f"{number}."


@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")
def test_a_failed_continuation_ends_its_chain(client, model):
    model.script(says("One."), says("Two."))
    with client.responses.connect() as socket:
        socket.response.create(model="plain", input="one", store=False)
        first = until_completed(socket)[-1].response
        socket.response.create(model="plain", input="two", store=False, previous_response_id=first.id)
        second = until_completed(socket)[-1].response
        socket.response.create(model="plain", input="x", temperature=9, previous_response_id=second.id)
        assert json.loads(socket.recv_bytes())["status"] == 400
        for id in (second.id, first.id):
            socket.response.create(model="plain", input="again", previous_response_id=id)
            refused = json.loads(socket.recv_bytes())
            assert (refused["status"], refused["error"]["code"]) == (400, "previous_response_not_found")


def until_completed(socket):
    events = []
    while not events or events[-1].type not in ("response.completed", "response.failed", "error"):
        events.append(socket.recv())
    return events
