"""Sockets: they count against the limits of their key as requests do, and take nothing malformed."""

import asyncio
import json
from collections import Counter
from datetime import timedelta
from urllib.parse import quote

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.utils import timezone

from agents.models import ApiKey
from config.asgi import application
from runs.api.consumers import SessionConsumer
from runs.events.connection_limits import STREAMS
from runs.intake import messages as intake
from runs.models import Approval, Message, Run, Session
from runs.queue import endings
from tests.files import stored
from tests.loops import in_a_loop

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def few(settings, one_minute):
    settings.RATE_PER_KEY = 3


@pytest.fixture
def session(alice, agent):
    return Session.objects.create(owner=alice, agent=agent)


def at(session, secret):
    headers = [
        (b"authorization", f"Bearer {secret}".encode()),
        (b"host", b"localhost"),
        (b"origin", b"http://localhost"),
    ]
    return WebsocketCommunicator(application, f"/ws/sessions/{session.pk}/", headers=headers)


async def opened(session, secret):
    socket = at(session, secret)
    await socket.connect(timeout=60)
    return socket


async def all_frames(socket):
    """What it is sent until it is closed, the close included."""
    frames = []
    while not frames or frames[-1]["type"] != "websocket.close":
        frames.append(await socket.receive_output(timeout=60))
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
        reading = [asyncio.create_task(all_frames(socket)) for socket in sockets]
        ended, others = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for socket, task in zip(sockets, reading, strict=True):
            if task in others:
                await socket.disconnect(timeout=60)
        (one,) = ended  # whichever was counted last: they are opened in order, but admitted side by side
        return one.result()

    told, closed = in_a_loop(knock())
    assert "closed_4429" in told["text"] and closed["code"] == 4429


@pytest.mark.parametrize("path", ["/ws/", "/ws/runs/not-an-id/", "/ws/sessions/not-an-id/", "/elsewhere"])
def test_a_path_that_is_no_socket_is_closed_as_not_found(alice, path):
    _, secret = ApiKey.make(alice, ["*"])

    async def knock(*headers):
        socket = WebsocketCommunicator(
            application, path, headers=[(b"host", b"localhost"), (b"origin", b"http://localhost"), *headers]
        )
        await socket.connect(timeout=60)
        return (await all_frames(socket))[-1]["code"]

    assert in_a_loop(knock((b"authorization", f"Bearer {secret}".encode()))) == 4404
    assert in_a_loop(knock()) == 4401


def talking(session, secret, *frames):
    """What a session's socket says to each of these frames, its next word to each."""

    async def talk():
        socket = await opened(session, secret)
        said = []
        for frame in frames:
            await socket.send_to(text_data=frame if isinstance(frame, str) else json.dumps(frame))
            said.append(json.loads(await socket.receive_from(timeout=60)))
        await socket.disconnect(timeout=60)
        return said

    return in_a_loop(talk())


@pytest.fixture
def secret(alice):
    return ApiKey.make(alice, ["*", "approvals:decide"])[1]


@pytest.fixture
def of_helper(alice, make_agent):
    return Session.objects.create(owner=alice, agent=make_agent())


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "smell"}]}, "message.1"),
        ({"content": [{"type": "image", "url": "file:///etc/passwd"}]}, "message.0"),
        ({"content": [{"type": "file", "file": "00000000-0000-7000-8000-000000000000"}]}, "message.0"),
        ({"content": [7]}, "message.0"),
        ({"content": []}, "message"),
        ({"content": "text"}, "content"),
        ({"text": 7}, "text"),
        ({"text": ""}, "message"),
        ({}, "message"),
        ({"text": "a", "on_busy": "shout"}, "on_busy"),
        ({"text": "a", "idempotency_key": 7}, "idempotency_key"),
    ],
)
def test_a_malformed_message_is_refused_with_the_field(of_helper, secret, frame, field):
    (said,) = talking(of_helper, secret, {"type": "message", **frame})
    assert said["type"] == "error" and said["error"]["code"] == "invalid"
    assert said["error"]["details"][0]["field"] == field and said["error"]["details"][0]["message"]
    assert Run.objects.count() == Message.objects.count() == 0


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        ({"type": "message", "text": "Hello", "modle": "x"}, "modle"),
        ({"type": "cancel", "runs": "x"}, "runs"),
        ({"type": "approve", "approve": "x"}, "approve"),
        ({"type": "answer", "values": 1}, "values"),
    ],
)
def test_a_field_that_a_frame_does_not_have_is_refused(of_helper, secret, frame, field):
    (said,) = talking(of_helper, secret, frame)
    assert said["error"]["code"] == "unknown_field" and said["error"]["details"][0]["field"] == field
    assert Run.objects.count() == 0


def test_parts_are_taken_and_kept_as_they_were_sent(of_helper, alice, secret):
    file = stored(alice, "a.txt", content=b"a")
    content = [{"type": "text", "text": "Read this"}, {"type": "file", "file": str(file.pk)}]
    (said,) = talking(of_helper, secret, {"type": "message", "content": content})
    assert said["type"] == "accepted" and Message.objects.get().content == content


def test_a_strangers_file_is_not_there_either(of_helper, charlie, secret):
    file = stored(charlie, "a.txt", content=b"a")
    part = {"type": "file", "file": str(file.pk)}
    (said,) = talking(of_helper, secret, {"type": "message", "content": [part]})
    assert said["error"]["details"][0]["message"] == "there is no such file"


@pytest.mark.parametrize(
    "frame",
    [
        '{"type": "message", "text": "a\\u0000b"}',
        '{"type": "message", "text": "\\ud800"}',
        '{"type": "message", "text": "a", "input": NaN}',
        '{"type": ["message"]}',
        "[" * 5000,
        '"message"',
    ],
)
def test_a_frame_that_no_row_could_hold_is_refused_and_the_socket_stays(of_helper, secret, frame):
    refused, taken = talking(of_helper, secret, frame, {"type": "message", "text": "Hello"})
    assert refused["error"]["code"] == "unknown_frame" and taken["type"] == "accepted"


def test_bytes_are_refused_and_the_socket_stays(of_helper, secret):
    async def talk():
        socket = await opened(of_helper, secret)
        await socket.send_to(bytes_data=b'{"type": "message", "text": "Hello"}')
        refused = await socket.receive_json_from(timeout=60)
        await socket.send_json_to({"type": "message", "text": "Hello"})
        taken = await socket.receive_json_from(timeout=60)
        await socket.disconnect(timeout=60)
        return refused, taken

    refused, taken = in_a_loop(talk())
    assert refused["error"]["code"] == "unknown_frame" and taken["type"] == "accepted"


def test_a_message_to_a_session_that_was_deleted_meanwhile_is_told_so(of_helper, secret):
    async def talk():
        socket = await opened(of_helper, secret)
        await socket.send_json_to({"type": "are you there?"})
        await socket.receive_json_from(timeout=60)
        await sync_to_async(of_helper.delete)()
        await socket.send_json_to({"type": "message", "text": "Hello?"})
        said = await socket.receive_json_from(timeout=60)
        await socket.disconnect(timeout=60)
        return said

    assert in_a_loop(talk())["error"]["code"] == "not_found"


def test_what_is_sent_by_somebody_who_is_turned_away_is_not_heard(of_helper, charlie):
    _, secret = ApiKey.make(charlie, ["*", "approvals:decide"])

    async def intrude():
        socket = await opened(of_helper, secret)
        await socket.send_json_to({"type": "message", "text": "Let me in"})
        return await all_frames(socket)

    assert [frame.get("code") for frame in in_a_loop(intrude())] == [None, 4404]
    assert not Run.objects.exists()


def test_a_cancel_that_names_no_run_of_the_session_stops_nothing(of_helper, alice, secret):
    run = intake.accept_message(user=alice, text="Hi", agent="helper", session=of_helper).run
    for wrong in ("garbage", 7, "00000000-0000-7000-8000-000000000000"):
        # the first word is the queued run's own first event, the second the answer
        assert "not_found" in [word.get("error", {}).get("code") for word in both_words(of_helper, secret, wrong)]
    run.refresh_from_db()
    assert run.status == "queued"


def both_words(session, secret, run):
    async def talk():
        socket = await opened(session, secret)
        await socket.send_json_to({"type": "cancel", "run": run})
        said = [await socket.receive_json_from(timeout=60) for _ in range(2)]
        await socket.disconnect(timeout=60)
        return said

    return in_a_loop(talk())


def test_a_cancel_of_a_finished_run_and_of_nothing_is_told_so(of_helper, alice, secret):
    run = intake.accept_message(user=alice, text="Hi", agent="helper", session=of_helper).run
    endings.cancel_run(run, by=alice)
    named, nothing = talking(of_helper, secret, {"type": "cancel", "run": str(run.pk)}, {"type": "cancel"})
    assert named["error"]["code"] == "run_finished" and nothing["error"]["code"] == "not_found"


@pytest.mark.parametrize("arguments", ["[]", [], 7, "{}"])
def test_an_approval_whose_arguments_are_no_object_approves_nothing(of_helper, alice, secret, arguments):
    run = Run.objects.create(principal=alice, session=of_helper, status="succeeded")
    until = timezone.now() + timedelta(hours=1)
    approval = Approval.objects.create(run=run, tool="add", arguments={"a": 1}, expires_at=until)
    frame = {"type": "approve", "approval": str(approval.pk), "decision": "approve", "arguments": arguments}
    (said,) = talking(of_helper, secret, frame)
    assert said["error"]["details"][0]["field"] == "arguments"
    approval.refresh_from_db()
    assert approval.status == "open"


@pytest.mark.parametrize("after", ["9" * 5000, "999999999999", "x", "-1", "%ff", "١"])
def test_a_run_s_socket_takes_any_cursor(alice, secret, after):
    run = Run.objects.create(principal=alice, status="succeeded", finished_at=timezone.now())

    async def watch():
        headers = [
            (b"authorization", f"Bearer {secret}".encode()),
            (b"host", b"localhost"),
            (b"origin", b"http://localhost"),
        ]
        socket = WebsocketCommunicator(application, quote(f"/ws/runs/{run.pk}/?after={after}", "/?=%"), headers=headers)
        await socket.connect(timeout=60)
        return await all_frames(socket)

    assert in_a_loop(watch())[-1]["code"] == 1000


def test_a_handshake_that_the_server_cancels_gives_its_place_back(alice, session, monkeypatch):
    """As Daphne does when the client has gone and the database is slow."""
    monkeypatch.setattr(STREAMS, "open", Counter())
    _, secret = ApiKey.make(alice, ["*"])
    seen = []

    async def leave():
        begun = asyncio.Event()

        async def begin(consumer):
            seen.append(dict(STREAMS.open))
            begun.set()
            await asyncio.sleep(600)

        monkeypatch.setattr(SessionConsumer, "begin", begin)
        socket = at(session, secret)
        await socket.send_input({"type": "websocket.connect"})
        async with asyncio.timeout(60):
            await begun.wait()
        socket.future.cancel()
        await asyncio.gather(socket.future, return_exceptions=True)

    in_a_loop(leave())
    assert seen == [{alice.pk: 1}] and not STREAMS.open
