"""A long connection ends with the credential that opened it."""

import asyncio
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.test import AsyncClient, Client
from django.utils import timezone

from agents.models import ApiKey
from config.asgi import application
from runs.models import Run, Session
from tests.loops import in_a_loop

pytestmark = pytest.mark.django_db(transaction=True)
WITHIN_S = 60.0  # on a busy machine: the check is made every two seconds, and nothing else would end them


@pytest.fixture
def session(alice, agent):
    return Session.objects.create(owner=alice, agent=agent)


def revoke(key):
    key.revoke()


def expire(key):
    ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now() - timedelta(seconds=1))


def switch_off(key):
    type(key.user).objects.filter(pk=key.user_id).update(is_active=False)


async def closed_after(path, headers, deed):
    socket = WebsocketCommunicator(application, path, headers=headers)
    await socket.connect(timeout=60)
    await sync_to_async(deed)()
    frame = {"type": ""}
    while frame["type"] != "websocket.close":
        frame = await socket.receive_output(timeout=WITHIN_S)
    await socket.disconnect(timeout=60)
    return frame["code"]


@pytest.mark.parametrize("deed", [revoke, expire, switch_off])
def test_a_socket_ends_with_its_key(alice, session, deed):
    key, secret = ApiKey.make(alice, ["*"])
    headers = [(b"authorization", f"Bearer {secret}".encode())]
    code = in_a_loop(closed_after(f"/ws/sessions/{session.pk}/", headers, lambda: deed(key)))
    assert code == 4401


def test_a_socket_ends_with_the_login_that_opened_it(alice, session):
    browser = Client()
    browser.force_login(alice)
    cookie = f"sessionid={browser.cookies['sessionid'].value}".encode()
    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost"), (b"cookie", cookie)]
    code = in_a_loop(closed_after(f"/ws/sessions/{session.pk}/", headers, browser.logout))
    assert code == 4401


@pytest.mark.parametrize("deed", [revoke, expire, switch_off])
def test_a_stream_of_events_ends_with_its_key(alice, deed):
    key, secret = ApiKey.make(alice, ["*"])
    run = Run.objects.create(principal=alice, status="running")

    async def watch():
        headers = {"Authorization": f"Bearer {secret}", "Accept": "text/event-stream"}
        answer = await AsyncClient().get(f"/api/v1/runs/{run.pk}/stream", headers=headers)
        assert answer.status_code == 200, answer.content
        await sync_to_async(deed)(key)
        async with asyncio.timeout(WITHIN_S):
            return [piece async for piece in answer.streaming_content]

    in_a_loop(watch())
