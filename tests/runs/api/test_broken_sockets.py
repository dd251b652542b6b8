"""A socket whose consumer breaks is closed with 4012: its client connects again. It never stays open and mute."""

import asyncio

import pytest
from channels.testing import WebsocketCommunicator
from django.db import OperationalError

from agents.models import ApiKey
from config.asgi import application
from plumbing.sockets import RESTART
from runs.api.consumers import SessionConsumer
from runs.events import stream
from runs.events.sockets import Authenticated
from runs.models import Run, Session
from tests.loops import in_a_loop

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def opened(alice):
    _, secret = ApiKey.make(alice, ["*"])
    headers = [
        (b"authorization", f"Bearer {secret}".encode()),
        (b"host", b"localhost"),
        (b"origin", b"http://localhost"),
    ]

    async def opened(path):
        socket = WebsocketCommunicator(application, path, headers=headers)
        is_accepted, _ = await socket.connect(timeout=60)
        assert is_accepted
        return socket

    return opened


async def close_code(socket):
    while (frame := await socket.receive_output(timeout=60))["type"] != "websocket.close":
        pass
    return frame["code"]


async def broken(*args, **kwargs):
    raise OperationalError("the database is away")


@pytest.mark.parametrize("method", ["begin", "counted"])
def test_a_database_error_while_it_is_admitted(opened, alice, make_agent, monkeypatch, method):
    session = Session.objects.create(owner=alice, agent=make_agent())
    owner = SessionConsumer if method == "begin" else Authenticated
    monkeypatch.setattr(owner, method, broken)

    async def talk():
        return await close_code(await opened(f"/ws/sessions/{session.pk}/"))

    assert in_a_loop(talk()) == RESTART


def test_a_database_error_at_a_frame(opened, alice, make_agent, monkeypatch):
    session = Session.objects.create(owner=alice, agent=make_agent())
    monkeypatch.setattr(SessionConsumer, "on_message", broken)

    async def talk():
        socket = await opened(f"/ws/sessions/{session.pk}/")
        await asyncio.sleep(0)
        await socket.send_json_to({"type": "message", "text": "Hello"})
        return await close_code(socket)

    assert in_a_loop(talk()) == RESTART


def test_a_database_error_while_a_run_is_followed(opened, alice, make_agent, monkeypatch):
    run = Run.objects.create(principal=alice, agent=make_agent(), status="running", attempt=1)

    async def no_batches(*args, **kwargs):
        raise OperationalError("the database is away")
        yield

    monkeypatch.setattr(stream, "in_batches", no_batches)

    async def talk():
        return await close_code(await opened(f"/ws/runs/{run.pk}/"))

    assert in_a_loop(talk()) == RESTART
