"""Responses over a WebSocket: authenticated, counted, one at a time, and of one's own conversations."""

import pytest
from channels.testing import WebsocketCommunicator

from agents.models import ApiKey
from config.asgi import application
from gateway.openai import summaries
from runs.models import Run, Session
from tests.loops import in_a_loop

pytestmark = pytest.mark.django_db(transaction=True)


async def opened(secret):
    headers = [(b"authorization", f"Bearer {secret}".encode()), (b"host", b"localhost")]
    socket = WebsocketCommunicator(application, "/v1/responses", headers=headers)
    await socket.connect(timeout=60)
    return socket


def ask(secret, *frames):
    """What each of these frames is answered with."""

    async def talk():
        socket, said = await opened(secret), []
        for frame in frames:
            await socket.send_json_to(frame)
            said.append(await socket.receive_json_from(timeout=60))
        await socket.disconnect(timeout=60)
        return said

    return in_a_loop(talk())


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"type": "session.update"}, "unknown_frame"),
        ([], "unknown_frame"),
        ({"type": "response.create"}, "invalid_value"),
        ({"type": "response.create", "model": "helper", "input": []}, None),
        ({"type": "response.create", "model": "helper", "input": "x", "temprature": 1}, "unknown_parameter"),
        ({"type": "response.create", "model": "helper", "input": "x", "generate": False}, "unsupported_parameter"),
    ],
)
def test_a_frame_that_cannot_be_answered_gets_an_error_and_the_socket_stays(alice, agent, frame, code):
    _, secret = ApiKey.make(alice, ["*"])
    for said in ask(secret, frame, frame):
        assert (said["type"], said["status"]) == ("error", 400)
        assert set(said["error"]) == {"message", "type", "param", "code"}
        assert code in (None, said["error"]["code"])
    assert not Run.objects.exists()


def test_others_continue_nobodys_conversation(alice, bob, charlie, agent):
    session = Session.objects.create(owner=alice, agent=agent)
    run = Run.objects.create(principal=alice, agent=agent, version=agent.published, session=session)
    frame = {"type": "response.create", "model": "router", "input": "Hi", "previous_response_id": f"resp_{run.pk.hex}"}
    for other in (bob, charlie):
        [said] = ask(ApiKey.make(other, ["*"])[1], frame)
        assert (said["status"], said["error"]["code"]) == (400, "previous_response_not_found")


def test_the_mark_of_untrusted_text_survives_a_compaction(alice, alice_api, make_agent):
    make_agent("plain")
    for mark in (True, False):
        item = {
            "type": "compaction",
            "encrypted_content": summaries.seal_summary(Run(principal=alice, has_untrusted=mark), "x"),
        }
        body = {"model": "plain", "background": True, "input": [item, {"role": "user", "content": "Hi"}]}
        said = alice_api.post("/v1/responses", body)
        assert said.status_code == 200, said.json()
        run = Run.objects.latest("pk")
        assert (run.has_untrusted, run.session.has_untrusted) == (mark, mark)


@pytest.mark.parametrize(("scopes", "close"), [(["messages:read"], 4403), (None, 4401)])
def test_it_takes_a_key_that_may_write_messages(alice, scopes, close):
    secret = ApiKey.make(alice, scopes)[1] if scopes else "mk_nobody"

    async def knock():
        socket = await opened(secret)
        await socket.receive_json_from(timeout=60)
        return await socket.receive_output(timeout=60)

    assert in_a_loop(knock())["code"] == close
