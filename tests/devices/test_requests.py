"""The reference client asks for runs of its own; frames go into a list instead of a socket."""

import asyncio

import pytest

from devices import protocol
from devices.client.connection import LOST, Client
from devices.client.exceptions import Fatal
from devices.client.home import Config, Home, Identity


@pytest.fixture
def client(tmp_path):
    home = Home(tmp_path)
    home.keep_identity(Identity("http://127.0.0.1:1", "d", "c", "alice", "laptop"))
    made = Client(home, Config())
    made.sent = []

    async def send(frame):
        made.sent.append(frame)

    made.send = send
    yield made
    made.store.close()


async def asked(client):
    client.is_greeted = True
    asking = asyncio.create_task(client.request_run(agent="librarian", input={"text": "go"}, agent_id="mine"))
    await asyncio.sleep(0)
    [frame] = client.sent
    assert (frame.type, frame.agent, frame.agent_id) == ("run_request", "librarian", "mine")
    return asking, frame


def test_a_run_is_asked_for_and_its_id_comes_back(client):
    async def story():
        asking, frame = await asked(client)
        await client.on_frame(protocol.RunAccepted("run-1", "another"), None)
        await client.on_frame(protocol.RunAccepted("run-2", frame.request_id), None)
        return await asking

    assert asyncio.run(story()) == "run-2"


def test_the_server_says_why_it_starts_none(client):
    async def story():
        asking, frame = await asked(client)
        await client.on_frame(protocol.Error("not_found", "no such agent", frame.request_id), None)
        await asking

    with pytest.raises(Fatal, match="not_found: no such agent"):
        asyncio.run(story())


def test_nobody_waits_for_an_answer_that_cannot_come(client):
    async def story():
        asking, frame = await asked(client)
        client.answer_request(frame.request_id, None, LOST)
        await asking

    with pytest.raises(Fatal, match="disconnected"):
        asyncio.run(story())
    client.is_greeted = False
    with pytest.raises(Fatal, match="not connected"):
        asyncio.run(client.request_run(agent="librarian"))
