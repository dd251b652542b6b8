"""Sockets count against the limits of their key as requests do."""

import pytest
import time_machine
from channels.testing import WebsocketCommunicator

from agents import throttles
from agents.models import ApiKey
from config.asgi import application
from runs.models import Session
from tests.loops import in_a_loop

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def few(settings):
    settings.RATE_PER_KEY = 3
    throttles.line().ask(("FLUSHDB",))
    with time_machine.travel("2026-01-01T12:00:30Z", tick=False):
        yield


@pytest.fixture
def session(alice, agent):
    return Session.objects.create(owner=alice, agent=agent)


async def opened(session, secret):
    headers = [(b"authorization", f"Bearer {secret}".encode()), (b"origin", b"http://localhost")]
    socket = WebsocketCommunicator(application, f"/ws/sessions/{session.pk}/", headers=headers)
    await socket.connect()
    return socket


async def all_frames(socket):
    """What it is sent until it is closed, the close included."""
    frames = []
    while not frames or frames[-1]["type"] != "websocket.close":
        frames.append(await socket.receive_output(timeout=5))
    return frames


def test_frames_beyond_the_limit_close_it_with_a_reason(few, alice, session):
    _, secret = ApiKey.make(alice, ["*"])

    async def talk():
        socket = await opened(session, secret)  # the first that counts
        for _ in range(3):
            await socket.send_json_to({"type": "what"})
        return await all_frames(socket)

    *said, told, closed = in_a_loop(talk())
    assert [frame["text"].count("unknown_frame") for frame in said] == [1, 1]
    assert "closed_4429" in told["text"] and "31 s" in told["text"] and closed["code"] == 4429


def test_a_handshake_beyond_the_limit_is_turned_away(few, alice, session):
    _, secret = ApiKey.make(alice, ["*"])

    async def knock():
        sockets = [await opened(session, secret) for _ in range(4)]
        ended = await all_frames(sockets[-1])
        for socket in sockets[:-1]:
            await socket.disconnect()
        return ended

    told, closed = in_a_loop(knock())
    assert "closed_4429" in told["text"] and closed["code"] == 4429
