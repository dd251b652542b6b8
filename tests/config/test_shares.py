"""Nobody takes all threads of a web server, and whoever gets large answers has two at a time; others do not notice."""

import asyncio
import json
import sys
import threading
from types import SimpleNamespace

import pytest
from django.http import HttpResponse
from django.test import override_settings
from django.urls import path

from config import shares
from config.handler import OF_ONE_PERSON, THREADS, ThreadedHandler

ALICE, BOB = b"Bearer alice", b"Bearer bob"
at_work = {ALICE.decode(): 0, BOB.decode(): 0}
most = dict(at_work)


def page(request, size):
    person = request.headers["Authorization"]
    request.user = SimpleNamespace(pk=person)
    at_work[person] += 1
    most[person] = max(most[person], at_work[person])
    content = b"x" * size
    json.loads(json.dumps([0] * 20_000))  # as long as a request takes
    at_work[person] -= 1
    return HttpResponse(content)


def hang(request):
    """As a function that runs for long, or an address that answers slowly."""
    request.user = SimpleNamespace(pk=request.headers["Authorization"].split("-")[0])
    hanging.append(request.user.pk)
    going_on.wait(60)
    return HttpResponse(b"done")


urlpatterns = [path("<int:size>", page), path("hang", hang)]
going_on, hanging = threading.Event(), []


@pytest.fixture
def handler():
    most.update(dict.fromkeys(most, 0))
    interval = sys.getswitchinterval()
    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[]):
        yield ThreadedHandler()
    sys.setswitchinterval(interval)


async def ask(handler, person, size, read=None, address="192.0.2.1"):
    """The status and what was sent; `read` is awaited before each piece."""
    sent = []
    waiting = asyncio.Queue()
    waiting.put_nowait({"type": "http.request", "body": b""})

    async def send(message):
        if read is not None:
            await read(message)
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": f"/{size}", "query_string": b"", "http_version": "1.1",
        "client": (address, 1),
        "headers": [(b"host", b"testserver"), (b"authorization", person)],
    }  # fmt: skip
    await handler(scope, waiting.get, send)
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])


async def test_large_answers_of_one_person_take_turns(handler):
    large = shares.LARGE_BYTES
    assert (await ask(handler, ALICE, large))[0] == 200
    most.update(dict.fromkeys(most, 0))
    answers = await asyncio.gather(*[ask(handler, ALICE, large) for _ in range(20)])
    assert {status for status, _ in answers} == {200} and {len(body) for _, body in answers} == {large}
    assert most[ALICE.decode()] <= shares.AT_ONCE
    assert handler.shares.present == {} and handler.shares.turns == {}


async def test_nobody_else_waits_for_them(handler, monkeypatch):
    await ask(handler, ALICE, shares.LARGE_BYTES)
    alice = {"headers": [(b"authorization", ALICE)]}
    async with handler.shares.turn(alice), handler.shares.turn(alice):  # all that she has
        assert (await asyncio.wait_for(ask(handler, BOB, 10), 60))[0] == 200
        waiting = asyncio.ensure_future(ask(handler, ALICE, 10))
        assert (await ask(handler, BOB, 10))[0] == 200 and not waiting.done()
        monkeypatch.setattr(shares, "MOST_WAITING", 3)
        status, body = await ask(handler, ALICE, 10)
        assert status == 429 and json.loads(body)["error"]["code"] == "too_many_large_answers"
    assert (await waiting)[0] == 200


async def test_answers_that_nobody_reads_are_bounded(handler, monkeypatch):
    large = shares.LARGE_BYTES
    await ask(handler, ALICE, large)
    monkeypatch.setattr(shares, "UNREAD_BYTES", 3 * large)
    is_read, made = asyncio.Event(), []

    async def stall(message):
        if message["type"] == "http.response.start":
            made.append(message)
        await is_read.wait()

    unread = [asyncio.ensure_future(ask(handler, ALICE, large, stall)) for _ in range(12)]
    for _ in range(20):
        await asyncio.sleep(0.05)
    assert len(made) <= 3 + shares.AT_ONCE
    assert (await asyncio.wait_for(ask(handler, BOB, large), 60))[0] == 200
    is_read.set()
    await asyncio.gather(*unread)
    assert len(made) == 12 and handler.shares.unread == {}


async def test_small_answers_and_old_large_ones_leave_no_trace(handler, monkeypatch):
    await ask(handler, BOB, shares.LARGE_BYTES - 1)
    assert handler.shares.people == {}
    monkeypatch.setattr(shares, "FOR_S", 0.0)
    await ask(handler, ALICE, shares.LARGE_BYTES)
    assert handler.shares.person_with_share({"headers": [(b"authorization", ALICE)]}) is None


# One key, and many that the server does not know yet: one for each request.
@pytest.mark.parametrize("keys", [[ALICE] * THREADS, [ALICE + b"-%d" % number for number in range(THREADS)]])
async def test_requests_of_one_person_that_hang_leave_threads_to_others(handler, keys):
    going_on.clear()
    hanging.clear()
    await ask(handler, ALICE, 10)
    asked = [asyncio.ensure_future(ask(handler, key, "hang")) for key in keys]
    try:
        while len(hanging) < OF_ONE_PERSON:
            await asyncio.sleep(0.01)
        status, _ = await asyncio.wait_for(ask(handler, BOB, 10, address="192.0.2.2"), 60)
        assert status == 200 and len(hanging) == OF_ONE_PERSON
    finally:
        going_on.set()
    answers = await asyncio.gather(*asked)
    assert {body for _, body in answers} == {b"done"} and len(hanging) == THREADS
    assert handler.turns.present == {} and handler.turns.turns == {}


async def test_a_person_who_is_known_does_not_wait_for_strangers_at_the_same_address(handler):
    """An office has one address; only what the server does not know yet shares a part."""
    going_on.clear()
    hanging.clear()
    await ask(handler, BOB, 10)
    unknown = [ALICE + b"-%d" % number for number in range(THREADS)]
    asked = [asyncio.ensure_future(ask(handler, key, "hang")) for key in unknown]
    try:
        while len(hanging) < OF_ONE_PERSON:
            await asyncio.sleep(0.01)
        assert (await asyncio.wait_for(ask(handler, BOB, 10), 60))[0] == 200
    finally:
        going_on.set()
    await asyncio.gather(*asked)


def test_a_thread_that_computes_gives_the_interpreter_up_soon(handler):
    assert sys.getswitchinterval() <= 0.001


@pytest.mark.parametrize(
    "more",
    [[(b"x-api-key", b"junk")], [(b"cookie", b"theme=dark")], [(b"accept", b"*/*")]],
    ids=["another key", "a cookie", "another header"],
)
def test_other_headers_make_nobody_another_person(more):
    key = (b"authorization", b"Bearer mk_1.2")
    assert shares.find_credential({"headers": [key, *more]}) == shares.find_credential({"headers": [key]})


def test_other_cookies_make_nobody_another_person(settings):
    session = f"{settings.SESSION_COOKIE_NAME}=abc".encode()
    alone = shares.find_credential({"headers": [(b"cookie", session)]})
    beside = shares.find_credential({"headers": [(b"cookie", b"a=1; " + session + b"; theme=dark")]})
    assert alone == beside != b""
    assert shares.find_credential({"headers": [(b"cookie", b"theme=dark")]}) == b""
