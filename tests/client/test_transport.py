"""Requests, retries and errors of the client, without a network."""

import asyncio
import random
import re

import httpx
import pytest

import muster_client
from muster_client import APIConnectionError, APITimeoutError, AsyncMuster, ConflictError, RateLimitedError, ServerError
from muster_client.retries import Retries
from tests.client.fakes import KEY, URL, Server, answer, client, error, run

RESET = httpx.ReadError("connection reset by peer")


def test_a_message_is_answered():
    server = Server(answer("17 * 23 is 391."))

    reply = client(server).agent("helper").message("What is 17 * 23?", on_busy="enqueue").send(wait=5)

    assert (reply.text, reply.session, reply.is_finished) == ("17 * 23 is 391.", "s1", True)
    request = server.requests[0]
    assert str(request.url) == f"{URL}/api/v1/agents/helper/messages"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert server.bodies() == [{"message": "What is 17 * 23?", "on_busy": "enqueue", "wait": 5}]


def test_a_message_keeps_its_idempotency_key_over_all_attempts():
    server = Server(RESET, error(503), httpx.ReadTimeout("slow"), answer())

    message = client(server).agent("helper").message("Hi")
    assert message.send().text == "Hello!"
    message.send()  # by mistake: the server returns the same run

    keys = server.sent("idempotency-key")
    assert len(keys) == 5 and len(set(keys)) == 1 and re.fullmatch(r"[0-9a-f-]{36}", keys[0])


def test_two_messages_have_two_keys():
    server = Server(answer())
    muster = client(server)

    muster.agent("helper").message("Hi").send()
    muster.agent("helper").message("Hi").send()

    assert len(set(server.sent("idempotency-key"))) == 2


@pytest.mark.parametrize("fault", [RESET, httpx.ReadTimeout("slow"), error(503), error(500)])
def test_a_request_that_may_have_been_done_is_not_sent_twice(fault):
    server = Server(fault)

    with pytest.raises((APIConnectionError, ServerError)):
        client(server).functions.create({"name": "add", "source": "def add(): ..."})

    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [httpx.ConnectError("refused"), httpx.ConnectTimeout("slow"), error(429)])
def test_a_request_that_was_not_done_is_sent_again(fault):
    server = Server(fault, httpx.Response(201, json={"name": "add"}))

    assert client(server).functions.create({"name": "add", "source": "…"})["name"] == "add"

    assert len(server.requests) == 2


def test_it_gives_up_after_the_given_number_of_retries():
    server = Server(error(503))

    with pytest.raises(ServerError) as caught:
        client(server, retries=2).runs.get("r1")

    assert len(server.requests) == 3
    assert (caught.value.status, caught.value.code, caught.value.request_id) == (503, "broken", "req-1")
    assert "Try this." in str(caught.value)


def test_a_refusal_is_not_repeated():
    server = Server(error(409, "already_decided"))

    with pytest.raises(ConflictError, match="already_decided"):
        client(server).runs.get("r1").cancel()

    assert len(server.requests) == 1


def test_retry_after_is_waited_for_unless_it_is_too_long():
    exactly = Retries(random=random.Random(1))
    assert 7 <= exactly.after_answer(429, {"retry-after": "7"}, 0, repeatable=False) <= 7.25
    assert exactly.after_answer(429, {"retry-after": "7200"}, 0, repeatable=True) is None
    for useless in ("nan", "inf", "-1", "Wed, 21 Oct 2026 07:28:00 GMT"):
        assert 0.25 <= exactly.after_answer(429, {"retry-after": useless}, 0, repeatable=True) <= 0.5

    server = Server(error(429, **{"Retry-After": "7200"}))
    with pytest.raises(RateLimitedError) as caught:
        client(server).me()
    assert caught.value.retry_after == 7200


def test_pauses_grow_and_differ():
    retries = Retries(random=random.Random(7))
    pauses = [[retries.pause(attempt) for _ in range(50)] for attempt in (0, 1, 2, 9)]

    assert all(
        most / 2 <= min(found) and max(found) <= most for found, most in zip(pauses, (0.5, 1, 2, 8), strict=True)
    )
    assert len(set(pauses[0])) == 50


def test_a_delete_whose_answer_was_lost_is_done():
    client(Server(RESET, error(404, "not_found"))).agents.delete("old")


def test_an_unreachable_server_and_a_silent_one_are_told_apart():
    with pytest.raises(APIConnectionError, match=r"muster\.test cannot be reached: refused"):
        client(Server(httpx.ConnectError("refused"))).me()
    with pytest.raises(APITimeoutError, match="did not answer in time"):
        client(Server(httpx.ReadTimeout("slow"))).me()


def test_the_answer_of_something_else_is_said_so():
    page = httpx.Response(200, text="<html>It works!</html>")
    with pytest.raises(APIConnectionError, match="is this a Muster"):
        client(Server(page)).me()
    with pytest.raises(ServerError, match="The server answered 502"):
        client(Server(httpx.Response(502, text="<html>Bad gateway</html>"))).me()


def test_the_key_follows_no_redirect_and_no_next_address():
    elsewhere = httpx.Response(302, headers={"location": "http://evil.test/api/v1/me"})
    server = Server(elsewhere)
    with pytest.raises(muster_client.APIError):
        client(server).me()
    assert len(server.requests) == 1

    first = {"results": [run("a")], "next": "http://evil.test/steal?cursor=c2&limit=1"}
    server = Server(httpx.Response(200, json=first), httpx.Response(200, json={"results": [run("b")], "next": None}))
    rows = list(client(server).runs.list(status="succeeded", limit=1))

    assert [row.id for row in rows] == ["a", "b"]
    assert {request.url.host for request in server.requests} == {"muster.test"}
    assert dict(server.requests[1].url.params) == {"status": "succeeded", "limit": "1", "cursor": "c2"}


def test_a_list_is_read_no_further_than_asked():
    page = {"results": [run("a"), run("b")], "next": f"{URL}/api/v1/runs/?cursor=c2"}
    server = Server(httpx.Response(200, json=page))

    assert [row.id for row in client(server).runs.list().take(2)] == ["a", "b"]

    assert len(server.requests) == 1 and server.requests[0].url.params["limit"] == "2"


def test_a_name_cannot_leave_its_path():
    server = Server(httpx.Response(200, json={}))
    client(server).agents.get("../me?x=1#y")
    assert server.requests[0].url.raw_path == b"/api/v1/agents/..%2Fme%3Fx%3D1%23y"
    with pytest.raises(ValueError):
        client(server).agents.get("..")


def test_the_synchronous_and_the_asynchronous_client_can_do_the_same():
    def words(kind):
        return {name for name in vars(kind) if not name.startswith("_")}

    for name in muster_client.__all__:
        if name.startswith("Async"):
            assert words(getattr(muster_client, name)) == words(getattr(muster_client, name.removeprefix("Async")))


async def test_the_asynchronous_client_retries_too():
    server = Server(RESET, error(503), answer())
    async with AsyncMuster(URL, KEY, http=httpx.AsyncClient(transport=httpx.MockTransport(server))) as muster:
        muster._transport.retries = Retries(first_s=0.001)
        reply = await muster.agent("helper").message("Hi").send()
    assert reply.text == "Hello!"
    assert len(set(server.sent("idempotency-key"))) == 1


async def test_many_messages_at_once_keep_their_own_keys():
    server = Server(answer())
    async with AsyncMuster(URL, KEY, http=httpx.AsyncClient(transport=httpx.MockTransport(server))) as muster:
        await asyncio.gather(*(muster.agent("helper").message("Hi").send() for _ in range(20)))
    assert len(set(server.sent("idempotency-key"))) == 20


def test_an_error_says_each_problem_of_the_body():
    details = [{"field": "name", "message": "Required."}, {"line": 3, "message": "No import.", "hint": "Use ctx."}, 7]
    error = {"code": "invalid", "message": "The body is not valid.", "hint": "See details.", "details": details}
    said = str(muster_client.InvalidError(422, {"error": error}))
    assert said == (
        "The body is not valid. (invalid) See details.\n  name: Required.\n  line 3: No import. Use ctx.\n  7"
    )
    assert str(muster_client.InvalidError(422, None)) == "The server answered 422. (http_422)"
