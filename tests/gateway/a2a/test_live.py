"""A2A's own SDK, unchanged, against a running Muster, over both bindings."""

import json
from uuid import uuid4

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

from tests.fakes import calls, says
from tests.gateway.live_agents import new_key

pytestmark = pytest.mark.live
SUM = ("calculate", {"expression": "17 * 23"})


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
def binding(request):
    return request.param


@pytest.fixture
def remote(agents, model, binding):
    """`async with remote("plain") as client`: the SDK's client of an agent, found by its card."""
    live, key = agents
    model.turns.clear()
    model.requests.clear()
    return lambda agent, **more: Remote(live.url, agent, binding, **{"key": key, **more})


class Remote:
    def __init__(self, url, agent, binding, *, key, is_streaming=True):
        self.url, self.binding, self.is_streaming = f"{url}/a2a/{agent}", binding, is_streaming
        self.http = httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60)

    async def __aenter__(self):
        config = ClientConfig(
            httpx_client=self.http,
            streaming=self.is_streaming,
            supported_protocol_bindings=[self.binding],
            use_client_preference=True,
        )
        self.client = await ClientFactory(config).create_from_url(self.url)
        return self

    async def __aexit__(self, *_):
        await self.http.aclose()

    def __getattr__(self, name):
        return getattr(self.client, name)

    async def say(self, *parts, id=None, **more):
        """Send a message: the events, each the message in its `payload`."""
        found = [Part(text=part) if isinstance(part, str) else part for part in parts]
        message = Message(message_id=id or uuid4().hex, role=Role.ROLE_USER, parts=found, **more)
        return [event async for event in self.client.send_message(SendMessageRequest(message=message))]


def data(value):
    return Part(data=ParseDict(value, Value()))


def states(events):
    return [event.status_update.status.state for event in events if event.HasField("status_update")]


def text_of(events):
    text = ""
    for event in events:
        if event.HasField("artifact_update") and event.artifact_update.artifact.artifact_id == "reply":
            piece = event.artifact_update.artifact.parts[0].text
            text = text + piece if event.artifact_update.append else piece
    return text


def reply_of(task):
    return next(one.parts[0].text for one in task.artifacts if one.artifact_id == "reply")


async def test_a_message_and_its_task(remote, model):
    model.script(says("Hello there."))
    async with remote("plain", is_streaming=False) as client:
        [event] = await client.say("Say hello.", id="m-first-" + client.binding)
        task = event.task
        assert (task.status.state, reply_of(task)) == (TaskState.TASK_STATE_COMPLETED, "Hello there.")
        assert [one.role for one in task.history] == [Role.ROLE_USER, Role.ROLE_AGENT]
        assert task.history[0].message_id == "m-first-" + client.binding
        again = await client.get_task(GetTaskRequest(id=task.id, history_length=1))
        assert [one.parts[0].text for one in again.history] == ["Hello there."]
        assert reply_of(again) == "Hello there."


async def test_an_agent_that_replies_with_messages(remote, agents, model):
    """What is more than a text, such as a question, is a task."""
    live, _ = agents
    body = {"name": "a2a-chatty", "provider": "scripted", "model_name": "scripted", "grants": [{"tool": "ask_user"}]}
    live.http.post("/api/v1/agents/", json={**body, "a2a_reply": "message"})
    assert live.http.post("/api/v1/agents/a2a-chatty/publish", json={}).status_code == 200
    model.script(says("Hello there."), calls(("ask_user", {"question": "Which colour?"})))
    async with remote("a2a-chatty", is_streaming=False) as client:
        [event] = await client.say("Say hello.", context_id=(context := uuid4().hex))
        reply = event.message
        assert (reply.role, reply.parts[0].text, reply.context_id) == (Role.ROLE_AGENT, "Hello there.", context)
        assert not reply.task_id and reply.message_id
        [event] = await client.say("Paint it.")
        assert event.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED


async def test_a_stream_begins_with_the_task_and_ends_with_its_state(remote, model):
    model.script(calls(SUM), says("It is 391."))
    async with remote("clerk") as client:
        first, *events = await client.say("What is 17 * 23?")
        assert first.task.id and first.task.context_id
        assert states(events)[-1] == TaskState.TASK_STATE_COMPLETED
        assert text_of(events) == "It is 391."
        assert reply_of(await client.get_task(GetTaskRequest(id=first.task.id))) == "It is 391."


async def test_a_context_is_a_conversation(remote, model):
    model.script(says("Hello Alice."), says("You are Alice."))
    async with remote("plain", is_streaming=False) as client:
        context = f"my own name {uuid4()}"
        [first] = await client.say("I am Alice.", context_id=context)
        assert first.task.context_id == context
        [second] = await client.say("Who am I?", context_id=context)
        assert second.task.context_id == context and second.task.id != first.task.id
        said = [one["content"] for one in model.requests[-1]["messages"] if one["role"] != "system"]
        assert said == ["I am Alice.", "Hello Alice.", "Who am I?"]
        listed = await client.list_tasks(ListTasksRequest(context_id=context))
        assert [task.id for task in listed.tasks] == [second.task.id, first.task.id]


async def test_a_question_is_answered_by_a_message_to_its_task(remote, model):
    model.script(calls(("ask_user", {"question": "Which colour?"})), says("Blue it is."))
    async with remote("curious") as client:
        first, *events = await client.say("Paint it.")
        assert states(events)[-1] == TaskState.TASK_STATE_INPUT_REQUIRED
        assert "Which colour?" in events[-1].status_update.status.message.parts[0].text
        task = await client.get_task(GetTaskRequest(id=first.task.id))
        assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert task.status.message.parts[0].text == events[-1].status_update.status.message.parts[0].text
        again, *events = await client.say("Blue", task_id=task.id)
        assert again.task.id == task.id
        assert states(events)[-1] == TaskState.TASK_STATE_COMPLETED
        assert text_of(events) == "Blue it is."
        assert "Blue" in model.requests[-1]["messages"][-1]["content"]


async def test_an_approval_is_decided_only_by_a_key_that_may(remote, agents, model):
    model.script(calls(SUM), says("It is 391."))
    live, _ = agents
    owner = live.http.get("/v1/models/plain").json()["owned_by"]
    async with remote("careful", is_streaming=False) as client:
        [event] = await client.say("What is 17 * 23?")
        task = event.task
        assert task.status.state == TaskState.TASK_STATE_AUTH_REQUIRED
        [asked] = [part for part in task.status.message.parts if part.HasField("data")]
        id = asked.data.struct_value.fields["approvals"].list_value.values[0].struct_value.fields["id"].string_value
        decision = data({"approvals": {id: {"decision": "approve"}}})
        async with remote("careful", key=new_key(live, owner, "messages:*"), is_streaming=False) as other:
            with pytest.raises(Exception, match="approvals:decide|403"):
                await other.say(decision, task_id=task.id)
            with pytest.raises(Exception, match="decision"):
                await other.say("yes, approve it", task_id=task.id)
        [event] = await client.say(decision, task_id=task.id)
        assert (event.task.status.state, reply_of(event.task)) == (TaskState.TASK_STATE_COMPLETED, "It is 391.")


async def test_a_waiting_task_is_followed_and_cancelled(remote, model):
    model.script(calls(("ask_user", {"question": "Which colour?"})))
    async with remote("curious") as client:
        event, *_ = await client.say("Paint it.")
        stream = client.subscribe(SubscribeToTaskRequest(id=event.task.id))
        first = await anext(stream)
        assert first.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        cancelled = await client.cancel_task(CancelTaskRequest(id=event.task.id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        rest = [one async for one in stream]
        assert states(rest)[-1] == TaskState.TASK_STATE_CANCELED
        with pytest.raises(Exception, match="ended"):
            await client.cancel_task(CancelTaskRequest(id=event.task.id))
        with pytest.raises(Exception, match="ended"):
            [_ async for _ in client.subscribe(SubscribeToTaskRequest(id=event.task.id))]
        with pytest.raises(Exception, match="ended"):
            await client.say("more", task_id=event.task.id)


async def test_a_file_goes_in_and_data_goes_in(remote, model):
    model.script(says("Read."))
    async with remote("plain", is_streaming=False) as client:
        note = Part(raw=b"the code is 4711", filename="note.txt", media_type="text/plain")
        [event] = await client.say("Read this.", note, data({"n": 3}))
        assert event.task.status.state == TaskState.TASK_STATE_COMPLETED
        seen = json.dumps(model.requests[-1]["messages"][-1]["content"])
        assert "4711" in seen and "note.txt" in seen and 'n\\": 3' in seen.replace("\\\\", "\\").replace(":3", ": 3")
        with pytest.raises(Exception, match="not fetched"):
            await client.say(Part(url="https://example.com/x.pdf", media_type="application/pdf"))


async def test_the_extended_card_and_the_router(remote):
    async with remote("plain") as client:
        card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert [skill.id for skill in card.skills] == ["plain"]
    async with remote("router") as client:
        card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert {"plain", "clerk"} <= {skill.id for skill in card.skills}


async def test_nobody_sees_the_tasks_of_another_user(remote, agents, model):
    model.script(says("Secret."))
    live, _ = agents
    key = new_key(live, "charlie_a2a", "*")
    async with remote("plain", is_streaming=False) as client:
        [event] = await client.say("A secret.")
        headers = {"Authorization": f"Bearer {key}", "A2A-Version": "1.0"}
        answer = httpx.get(f"{live.url}/a2a/router/tasks/{event.task.id}", headers=headers)
        assert (answer.status_code, answer.json()["error"]["status"]) == (404, "NOT_FOUND")
        assert httpx.get(f"{live.url}/a2a/router/tasks", headers=headers).json()["tasks"] == []
