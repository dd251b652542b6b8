"""The handler under a real server: one thread a request, streams on the loop."""

import asyncio
import threading

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.test import override_settings
from django.urls import path

from config.handler import ThreadedHandler

began, closed = threading.Event(), threading.Event()


def plain(request):
    return HttpResponse(threading.current_thread().name)


def broken(request):
    raise RuntimeError("on purpose")


def in_parts(request):
    return StreamingHttpResponse(iter([b"one ", b"two"]))


def endless(request):
    async def tick():
        try:
            while True:
                yield b"tick\n"
                began.set()
                await asyncio.sleep(0)
        finally:
            closed.set()

    return StreamingHttpResponse(tick())


urlpatterns = [path("plain", plain), path("broken", broken), path("parts", in_parts), path("endless", endless)]


@pytest.fixture
def ask():
    """`await ask("/plain")` → (status, body); with `leave_after=n` the caller goes after n pieces."""
    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[]):
        handler = ThreadedHandler()

        async def ask(where, leave_after=None):
            incoming, sent, gone = asyncio.Queue(), [], asyncio.Event()
            incoming.put_nowait({"type": "http.request", "body": b""})

            async def receive():
                if incoming.empty():
                    await gone.wait()
                    return {"type": "http.disconnect"}
                return incoming.get_nowait()

            async def send(message):
                sent.append(message)
                if leave_after and len(sent) > leave_after:
                    gone.set()

            scope = {"type": "http", "method": "GET", "path": where, "query_string": b"", "headers": []}
            await asyncio.wait_for(handler(scope, receive, send), 60)
            return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])

        yield ask


async def test_a_view_runs_on_a_thread_of_the_pool(ask):
    status, body = await ask("/plain")

    assert (status, body[:4]) == (200, b"web_")


@override_settings(DEBUG_PROPAGATE_EXCEPTIONS=False)
async def test_a_broken_view_answers_500_without_a_stack_trace(ask):
    status, body = await ask("/broken")

    assert status == 500
    assert b"on purpose" not in body


async def test_a_synchronous_stream_arrives_whole(ask):
    assert await ask("/parts") == (200, b"one two")


async def test_a_reader_that_leaves_ends_the_stream(ask):
    closed.clear()

    status, body = await ask("/endless", leave_after=3)

    assert status == 200
    assert body.startswith(b"tick\n")
    assert closed.wait(60)


async def test_a_stream_that_the_server_cancels_ends_too(ask):
    began.clear()
    closed.clear()
    asked = asyncio.ensure_future(ask("/endless"))
    async with asyncio.timeout(60):
        while not began.is_set():
            await asyncio.sleep(0)
        asked.cancel()
        while not closed.is_set():
            await asyncio.sleep(0)
