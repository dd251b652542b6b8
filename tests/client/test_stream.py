"""Event streams of the client: cuts, repetitions, ends."""

import httpx
import pytest

from muster_client import AsyncMuster, NotFoundError, StreamCutError
from muster_client.events import Event, Text
from muster_client.retries import Retries
from tests.client.fakes import KEY, URL, Server, client, delta, error, event, finished, run, sse

OPENED = {"muster-run": "r1", "muster-session": "s1"}
STARTED = event(1, "run.started")


def read(server):
    with client(server).agent("helper").message("Hi").stream() as stream:
        return stream, list(stream)


def test_a_stream_ends_with_the_run():
    stream, events = read(Server(sse(STARTED, delta(0, "Hel"), delta(3, "lo!"), finished(2), **OPENED)))

    assert [one.type for one in events] == ["run.started", "message.delta", "message.delta", "run.finished"]
    assert (stream.run, stream.session, stream.status, stream.reply) == ("r1", "s1", "succeeded", "Hello!")


def test_a_cut_stream_is_resumed_behind_the_last_event():
    server = Server(
        sse(STARTED, event(2, "model.started"), delta(0, "Hel"), breaks=True, **OPENED),
        sse(event(2, "model.started"), delta(0, "Hello"), event(3, "model.finished"), breaks=True),
        sse(event(3, "model.finished"), finished(4)),
    )

    stream, events = read(server)

    assert [one.seq for one in events] == [1, 2, None, None, 3, 4]  # each once
    assert "".join(one.text for one in events) == "Hello"
    assert [str(request.url.path) for request in server.requests[1:]] == ["/api/v1/runs/r1/stream"] * 2
    assert server.sent("last-event-id") == [None, "2", "3"]
    assert server.requests[0].method == "POST" and stream.status == "succeeded"


def test_a_stream_that_ends_too_early_without_an_error_is_resumed_as_well():
    server = Server(sse(STARTED, **OPENED), sse(finished(2)))
    assert [one.seq for one in read(server)[1]] == [1, 2]


def test_a_message_whose_stream_never_began_is_sent_again_with_its_key():
    server = Server(httpx.ReadError("reset"), error(503), sse(STARTED, finished(2), **OPENED))

    assert read(server)[0].status == "succeeded"

    assert [request.method for request in server.requests] == ["POST"] * 3
    assert len(set(server.sent("idempotency-key"))) == 1


def test_a_stream_that_cannot_be_resumed_names_the_run():
    server = Server(sse(STARTED, breaks=True, **OPENED), httpx.ConnectError("refused"))
    with pytest.raises(StreamCutError, match="The run goes on") as caught:
        read(server)
    assert caught.value.run == "r1"


def test_a_server_that_cuts_every_stream_at_once_is_not_asked_for_ever():
    server = Server(lambda _: sse(breaks=True, **OPENED))
    with pytest.raises(StreamCutError):
        read(server)
    assert len(server.requests) <= 6


def test_a_refused_resume_is_the_servers_error():
    with pytest.raises(NotFoundError):
        read(Server(sse(STARTED, breaks=True, **OPENED), error(404)))


def test_a_run_that_ended_while_the_stream_was_cut_is_read_as_a_row():
    server = Server(
        sse(STARTED, breaks=True, **OPENED), httpx.Response(204), httpx.Response(200, json=run(status="failed"))
    )
    stream, _ = read(server)
    assert stream.status == "failed"


def test_leaving_a_stream_closes_the_connection_and_sends_nothing():
    server = Server(sse(STARTED, event(2, "run.waiting"), finished(3), **OPENED))
    with client(server).agent("helper").message("Hi").stream() as stream:
        for one in stream:
            if one.type == "run.waiting":
                break
    assert len(server.requests) == 1 and stream.status is None


def test_a_conversation_continues_its_session():
    server = Server(lambda _: sse(STARTED, finished(2), **OPENED))
    talk = client(server).agent("helper").conversation()
    for text in ("Hi", "Again"):
        with talk.message(text).stream() as stream:
            stream.until_done()
    assert [body.get("session") for body in server.bodies()] == [None, "s1"]


def test_line_separators_in_a_text_do_not_break_an_event():
    text = "one\u2028two\u0085three"
    _, events = read(Server(sse(delta(0, text), finished(1), **OPENED)))
    assert events[0].text == text


def test_what_is_not_json_is_left_out():
    broken = httpx.Response(
        200, headers={"content-type": "text/event-stream", **OPENED}, text="data: {oops\n\ndata: []\n\n"
    )
    server = Server(broken, sse(finished(1)))
    assert [one.type for one in read(server)[1]] == ["run.finished"]


def test_the_text_of_a_turn_is_complete_even_if_deltas_were_missed():
    text = Text()
    pieces = [
        text.add(one)
        for one in (
            Event("message.delta", {"turn": 1, "offset": 0, "text": "Hel"}),
            Event("model.finished", {"turn": 1, "text": "Hello!"}, 3),
            Event("message.delta", {"turn": 2, "offset": 0, "text": "Bye"}),
            Event("run.finished", {"status": "succeeded"}, 4),
        )
    ]
    assert pieces == ["Hel", "lo!", "Bye", ""]


async def test_the_asynchronous_stream_is_resumed_too():
    server = Server(sse(STARTED, delta(0, "Hel"), breaks=True, **OPENED), sse(delta(0, "Hello!"), finished(2)))
    async with AsyncMuster(URL, KEY, http=httpx.AsyncClient(transport=httpx.MockTransport(server))) as muster:
        muster._transport.retries = Retries(first_s=0.001)
        async with muster.agent("helper").message("Hi").stream() as stream:
            pieces = [piece async for piece in stream.texts()]
    assert pieces == ["Hel", "lo!"] and stream.reply == "Hello!"
