"""A request that is refused for too many streams or waiting requests starts no run."""

from collections import Counter

import pytest

from runs.events.connection_limits import STREAMS
from runs.models import Run

AGUI = {
    "threadId": "t1", "runId": "r1", "state": None, "tools": [], "context": [], "forwardedProps": None,
    "messages": [{"id": "m1", "role": "user", "content": "hello"}],
}  # fmt: skip
CHAT = {"messages": [{"role": "user", "content": "hello"}]}
STREAMED = {
    "agui": lambda name: (f"/agui/{name}", AGUI),
    "chat": lambda name: ("/v1/chat/completions", {"model": name, "stream": True, **CHAT}),
    "responses": lambda name: ("/v1/responses", {"model": name, "stream": True, "input": "hello"}),
}
WAITED = {
    "chat": lambda name: ("/v1/chat/completions", {"model": name, **CHAT}),
    "responses": lambda name: ("/v1/responses", {"model": name, "input": "hello"}),
}


@pytest.fixture(autouse=True)
def no_streams_yet(monkeypatch):
    """Streams and sockets that other tests left open do not count here."""
    monkeypatch.setattr(STREAMS, "open", Counter())


@pytest.mark.parametrize("protocol", STREAMED)
def test_a_refused_stream_starts_no_run(alice_api, alice, make_agent, settings, protocol):
    settings.MAX_STREAMS = 1
    STREAMS.enter(alice.pk, 1)
    try:
        path, body = STREAMED[protocol](make_agent().name)
        assert alice_api.post(path, body).status_code == 429
    finally:
        STREAMS.leave(alice.pk)
    assert not Run.objects.exists()


@pytest.mark.parametrize("protocol", WAITED)
def test_a_refused_wait_starts_no_run(alice_api, make_agent, monkeypatch, protocol):
    monkeypatch.setattr("runs.api.messages.WAITS.number", 0)
    path, body = WAITED[protocol](make_agent().name)
    assert alice_api.post(path, body).status_code == 503
    assert not Run.objects.exists()
