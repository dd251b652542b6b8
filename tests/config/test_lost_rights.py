"""Connections that are open while somebody loses the right to them: each ends soon, or the table says why it stays."""

import asyncio
import json
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import Group
from django.db import InterfaceError
from django.test import AsyncClient, Client
from django.utils import timezone

from agents import membership
from agents.http import credential_checks
from agents.models import Agent, ApiKey, BrowserSession, Membership
from config.asgi import application
from gateway.mcp import sessions
from runs.events import record as events
from runs.events.connection_limits import STREAMS
from runs.intake import messages as intake
from runs.models import Embed, Run, Session
from tests.loops import in_a_loop

pytestmark = pytest.mark.django_db(transaction=True)
WITHIN_S = 30.0  # on a busy machine; the check itself is made every 0.05 s here
STAYS_S = 0.25
JSON = "application/json"
HELLO = {"message": "Hello"}
ASKED = {"messages": [{"role": "user", "content": "Hello"}]}
AGUI = {
    "threadId": "t1", "runId": "r1", "state": None, "tools": [], "context": [], "forwardedProps": None,
    "messages": [{"id": "m1", "role": "user", "content": "Hello"}],
}  # fmt: skip
A2A = {"messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "Hello"}]}
GRAPH = {"assistant_id": "helper", "input": {"messages": [{"type": "human", "content": "Hello"}]}}

# What holds a connection open: a path to GET, or a path and the body to POST. {run}: a run in progress.
STREAMS_OPENED = {
    "run": ("/api/v1/runs/{run}/stream", None),
    "message": ("/api/v1/agents/helper/messages", HELLO),
    "routed message": ("/api/v1/messages", HELLO),
    "a2a": ("/a2a/helper", {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": A2A}}),
    "agui": ("/agui/helper", AGUI),
    "chat": ("/v1/chat/completions", {"model": "helper", "stream": True, **ASKED}),
    "responses": ("/v1/responses", {"model": "helper", "stream": True, "input": "Hello"}),
    "langgraph": ("/langgraph/runs/stream", GRAPH),
    "langgraph join": ("/langgraph/runs/{run}/stream", None),
    "mcp": ("/mcp", None),
    "mcp call": ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                          "params": {"name": "helper", "arguments": {"task": "Hello"}}}),
}  # fmt: skip
SOCKETS_OPENED = {"session": "/ws/sessions/{session}/", "run": "/ws/runs/{run}/", "responses": "/v1/responses"}


def revoke(held):
    held.key.revoke()


def expire(held):
    ApiKey.objects.filter(pk=held.key.pk).update(expires_at=timezone.now() - timedelta(seconds=1))


def deactivate(held):
    type(held.person).objects.filter(pk=held.person.pk).update(is_active=False)


def log_out(held):
    held.browser.logout()


def sign_out_elsewhere(held):
    BrowserSession.objects.filter(user_id=held.person.pk).delete()


def change_password(held):
    held.person.set_password("another correct horse")
    held.person.save()


def demote(held):
    held.person.groups.set([Group.objects.get_or_create(name="viewer")[0]])


def leave_the_team(held):
    membership.end_membership(Membership.objects.get(user=held.person))


def unshare(held):
    Agent.objects.update(team=None)


@pytest.fixture(autouse=True)
def checked_often(monkeypatch):
    monkeypatch.setattr(credential_checks, "EVERY_S", 0.05)
    monkeypatch.setattr(STREAMS, "open", Counter())


@pytest.fixture
def held(bob, team, make_agent, monkeypatch):
    """Bob, a member of Alice's team, with a key, a browser, and a run of her agent on which nobody works."""
    agent = make_agent("helper", team=team)
    monkeypatch.setattr(intake.wakeups, "enqueue", lambda run_id: True)
    key, secret = ApiKey.make(bob, ["*"])
    browser = Client()
    browser.force_login(bob)
    session = Session.objects.create(owner=bob, agent=agent)
    run = Run.objects.create(principal=bob, agent=agent, version=agent.published, session=session, status="running")
    return SimpleNamespace(person=bob, key=key, secret=secret, browser=browser, session=session, run=run)


def headers_of(held, with_login=False):
    if with_login:
        return {"cookie": f"sessionid={held.browser.cookies['sessionid'].value}"}
    return {"authorization": f"Bearer {held.secret}"}


async def stream_of(held, path, body, headers):
    headers = {"accept": "text/event-stream", **headers}
    if path == "/mcp":
        opened = await sync_to_async(sessions.create_mcp_session)(held.person, "2025-06-18", {}, "test")
        headers |= {"mcp-session-id": opened.id, "accept": f"{JSON}, text/event-stream"}
    path, client = path.format(run=held.run.pk), AsyncClient()
    if "cookie" in headers:
        client.cookies.load(headers.pop("cookie"))
    if body is None:
        answer = await client.get(path, headers=headers)
    else:
        answer = await client.post(path, json.dumps(body), content_type=JSON, headers=headers)
    assert answer.status_code == 200 and answer.streaming, answer.content
    return answer


async def ends_after(stream, deed, held, stays=False):
    """Read a stream that was opened, do it, and wait until the stream ends."""

    async def read():
        return [piece async for piece in stream.streaming_content]

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(STAYS_S)
    assert not reading.done(), "it is open before"
    await sync_to_async(deed)(held)
    if stays:
        await asyncio.sleep(STAYS_S)
        assert not reading.done()
        reading.cancel()
        return
    async with asyncio.timeout(WITHIN_S):
        await reading


async def socket_to(held, path, headers):
    given = {"host": "localhost", "origin": "http://localhost", **headers}
    path = path.format(run=held.run.pk, session=held.session.pk)
    headers = [(name.encode(), value.encode()) for name, value in given.items()]
    socket = WebsocketCommunicator(application, path, headers=headers)
    await socket.connect(timeout=60)
    return socket


async def closed_after(held, path, deed, headers):
    """The code with which a socket is closed, and whether anything was sent after it."""
    socket = await socket_to(held, path, headers)
    await sync_to_async(deed)(held)
    frame = {"type": ""}
    while frame["type"] != "websocket.close":
        frame = await socket.receive_output(timeout=WITHIN_S)
    await sync_to_async(events.record_event)(held.run, "run.progress", {"message": "secret", "fraction": None})
    is_quiet = await socket.receive_nothing(timeout=STAYS_S)
    await socket.disconnect(timeout=60)
    return frame["code"], is_quiet


@pytest.mark.parametrize("deed", [revoke, expire, deactivate])
@pytest.mark.parametrize("kind", STREAMS_OPENED)
def test_a_stream_ends_with_the_key_that_opened_it(held, kind, deed):
    async def watch():
        stream = await stream_of(held, *STREAMS_OPENED[kind], headers_of(held))
        await ends_after(stream, deed, held)

    in_a_loop(watch())


@pytest.mark.parametrize("deed", [log_out, sign_out_elsewhere, change_password, deactivate])
def test_a_stream_ends_with_the_login_that_opened_it(held, deed):
    async def watch():
        stream = await stream_of(held, *STREAMS_OPENED["run"], headers_of(held, with_login=True))
        await ends_after(stream, deed, held)

    in_a_loop(watch())


@pytest.mark.parametrize("deed", [demote, leave_the_team, unshare])
@pytest.mark.parametrize("kind", ["run", "mcp"])
def test_a_stream_of_ones_own_run_stays(held, kind, deed):
    """A viewer reads too, and what a run did before it lost its agent is its person's own."""

    async def watch():
        stream = await stream_of(held, *STREAMS_OPENED[kind], headers_of(held))
        await ends_after(stream, deed, held, stays=True)

    in_a_loop(watch())


@pytest.mark.parametrize("deed", [revoke, expire, deactivate, demote])
@pytest.mark.parametrize("kind", SOCKETS_OPENED)
def test_a_socket_ends_with_the_key_and_with_the_role(held, kind, deed):
    assert in_a_loop(closed_after(held, SOCKETS_OPENED[kind], deed, headers_of(held))) == (4401, True)


@pytest.mark.parametrize("deed", [log_out, sign_out_elsewhere, change_password, deactivate, demote])
@pytest.mark.parametrize("kind", SOCKETS_OPENED)
def test_a_socket_ends_with_the_login_that_opened_it(held, kind, deed):
    headers = headers_of(held, with_login=True)
    assert in_a_loop(closed_after(held, SOCKETS_OPENED[kind], deed, headers)) == (4401, True)


@pytest.mark.parametrize("deed", [leave_the_team, unshare])
def test_a_message_over_an_open_socket_no_longer_reaches_an_agent_that_is_not_shared(held, deed):
    async def talk():
        socket = await socket_to(held, SOCKETS_OPENED["session"], headers_of(held))
        await sync_to_async(Run.objects.filter(pk=held.run.pk).delete)()
        await sync_to_async(deed)(held)
        await socket.send_json_to({"type": "message", "text": "Hello"})
        said = await socket.receive_json_from(timeout=60)
        await socket.disconnect(timeout=60)
        return said

    said = in_a_loop(talk())
    assert said["type"] == "error" and not Run.objects.exists(), said


@pytest.mark.parametrize("error", [InterfaceError("the connection is closed"), RuntimeError("what nobody thought of")])
def test_a_check_that_fails_once_does_not_leave_a_socket_open_for_ever(held, monkeypatch, error):
    failed = []

    def is_good(self):
        if not failed:
            failed.append(error)
            raise error
        return False

    monkeypatch.setattr(credential_checks.CredentialCheck, "is_good", is_good)
    code, _ = in_a_loop(closed_after(held, SOCKETS_OPENED["session"], lambda held: None, headers_of(held)))
    assert code == 4401 and failed


@pytest.mark.parametrize("deed", ["switch off", "other key", "deactivate", "demote"])
def test_a_visitors_stream_ends_when_the_chat_is_closed(held, alice, deed):
    agent = held.session.agent
    embed = Embed.objects.create(owner=alice, agent=agent, enabled=True)
    deeds = {
        "switch off": lambda _: Embed.objects.update(enabled=False),
        "other key": lambda _: embed.rotate(),
        "deactivate": lambda _: deactivate(SimpleNamespace(person=alice)),
        "demote": lambda _: demote(SimpleNamespace(person=alice)),
    }

    async def watch():
        base, client = f"/embed/v1/{embed.key}", AsyncClient()
        token = (await client.post(f"{base}/sessions", content_type=JSON)).json()["token"]
        headers = {"authorization": f"Bearer {token}"}
        answer = await client.post(f"{base}/messages", json.dumps(HELLO), content_type=JSON, headers=headers)
        assert answer.status_code == 200, answer.content
        await ends_after(answer, deeds[deed], held)

    in_a_loop(watch())
