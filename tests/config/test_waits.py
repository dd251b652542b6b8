"""Callers that wait for a run hold no thread of the web process."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from django.utils import timezone

from agents.exceptions import Conflict
from agents.http import deferred_response
from agents.models import ApiKey
from config.handler import ThreadedHandler
from plumbing.broker import broadcast
from plumbing.threads import in_thread
from runs.api import messages
from runs.events import waiting
from runs.events.connection_limits import Places
from runs.intake import messages as intake
from runs.models import Run
from runs.models.figures import metrics
from runs.queue import endings

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_S = 60


class Caller:
    """One POST through the handler, as the server makes it."""

    def __init__(self, handler, token, body, path="/api/v1/agents/helper/messages"):
        self.sent, self.incoming = [], asyncio.Queue()
        content = json.dumps(body).encode()
        self.incoming.put_nowait({"type": "http.request", "body": content})
        fields = {"authorization": f"Bearer {token}", "content-type": "application/json", "host": "testserver"}
        fields["content-length"] = str(len(content))
        headers = [(name.encode(), value.encode()) for name, value in fields.items()]
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
        self.task = asyncio.ensure_future(handler(scope, self.incoming.get, self.send))

    async def send(self, message):
        self.sent.append(message)

    def leave(self):
        self.incoming.put_nowait({"type": "http.disconnect"})

    async def answer(self):
        await asyncio.wait_for(self.task, PATIENCE_S)
        body = b"".join(message.get("body", b"") for message in self.sent[1:])
        return self.sent[0]["status"], json.loads(body)

    @property
    def headers(self):
        return {name.decode().lower(): value.decode() for name, value in self.sent[0]["headers"]}


@pytest.fixture
def places(monkeypatch):
    places = Places(100)
    monkeypatch.setattr(messages, "WAITS", places)
    return places


@pytest.fixture
def call(alice, make_agent, stub_provider, monkeypatch, places):
    """`call(wait=30)`: a caller of an agent whose runs nobody works on. The handler has two threads."""
    make_agent("helper", provider=stub_provider)
    monkeypatch.setattr(intake.wakeups, "enqueue", lambda run_id: True)
    _, token = ApiKey.make(alice, ["*"])
    handler = ThreadedHandler()
    handler.threads.shutdown()
    handler.threads = ThreadPoolExecutor(2, thread_name_prefix="web")

    def caller(wait=PATIENCE_S, body=None, **more):
        return Caller(handler, token, body or {"message": "Hello", "wait": wait}, **more)

    yield caller
    handler.threads.shutdown()


@pytest.fixture
def cancel(alice):
    return lambda run: in_thread(partial(endings.cancel_run, run, by=alice))


async def until(condition):
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def runs_when(number):
    """The runs, once there are so many and each is waited for."""
    await until(lambda: len(waiting.LOOKOUT.ends) == number)
    return await in_thread(lambda: list(Run.objects.order_by("id")))


async def test_thirty_callers_wait_on_two_threads_and_each_gets_its_answer(call, cancel, places):
    before = set(threading.enumerate())  # those of other tests' handlers rest for a while
    callers = [call() for _ in range(30)]
    runs = await runs_when(30)
    new = set(threading.enumerate()) - before
    assert sum(thread.name.startswith("web_") for thread in new) <= 2
    for run in runs:
        await cancel(run)
    answers = [await caller.answer() for caller in callers]
    assert {status for status, _ in answers} == {200}
    assert {body["run"]["id"] for _, body in answers} == {str(run.pk) for run in runs}
    assert {body["run"]["status"] for _, body in answers} == {"cancelled"}
    assert not places.taken and not waiting.LOOKOUT.ends and not waiting.ENDS.waiters


async def test_a_late_answer_has_the_headers_and_is_measured_as_any_other(call, cancel, monkeypatch):
    seen = []
    monkeypatch.setattr(metrics, "observe_request", lambda *observed: seen.append(observed))
    caller = call()
    [run] = await runs_when(1)
    assert not seen
    await cancel(run)
    await caller.answer()
    length = sum(len(message.get("body", b"")) for message in caller.sent[1:])
    assert caller.headers["content-length"] == str(length)
    assert caller.headers["content-type"] == "application/json"
    assert {"x-request-id", "ratelimit-remaining", "content-security-policy", "vary"} <= set(caller.headers)
    [(method, route, status, seconds)] = seen
    assert (method, status) == ("POST", 200) and "messages" in route and seconds > 0


async def test_a_wait_that_takes_too_long_answers_202(call, places):
    status, body = await call(wait=0.2).answer()
    assert (status, body["reply"], body["run"]["status"]) == (202, None, "queued")
    assert not places.taken


async def test_a_caller_that_leaves_gives_its_place_back_and_its_run_goes_on(call, places):
    caller = call()
    [run] = await runs_when(1)
    caller.leave()
    await asyncio.wait_for(caller.task, PATIENCE_S)
    assert caller.sent == [] and not places.taken
    await in_thread(run.refresh_from_db)
    assert run.status == "queued"


async def test_a_server_that_stops_says_where_the_run_is(call, places):
    caller = call()
    [run] = await runs_when(1)
    caller.task.cancel()
    status, body = await caller.answer()
    assert (status, body["run"]["id"]) == (202, str(run.pk)) and caller.headers["location"].endswith(str(run.pk))
    assert not places.taken


async def test_an_end_that_the_broker_lost_is_found_in_the_rows_of_all_at_once(call, cancel, monkeypatch):
    monkeypatch.setattr(waiting, "LOOK_AGAIN_S", 0.2)
    callers = [call(), call(), call()]
    runs = await runs_when(3)
    with monkeypatch.context() as lost:
        lost.setattr(broadcast, "publish_unconfirmed", lambda *_, **__: False)
        await cancel(runs[1])
    async with asyncio.timeout(PATIENCE_S):
        done, _ = await asyncio.wait([caller.task for caller in callers], return_when=asyncio.FIRST_COMPLETED)
    [caller] = [one for one in callers if one.task in done]
    assert (await caller.answer())[1]["run"]["id"] == str(runs[1].pk)
    at_work = {run.pk: None for run in runs}
    assert await in_thread(waiting.at_rest, [run.pk for run in runs]) == {**at_work, runs[1].pk: True}
    for caller in callers:
        caller.leave()
    await asyncio.wait_for(asyncio.gather(*(caller.task for caller in callers)), PATIENCE_S)


@pytest.mark.parametrize(
    ("error", "status", "code"), [(Conflict("No."), 409, "conflict"), (RuntimeError("secret"), 500, "internal_error")]
)
async def test_an_answer_that_fails_late_is_an_error_as_any_other(call, cancel, monkeypatch, error, status, code):
    def fail(*_):
        raise error

    monkeypatch.setattr(messages.MessagesView, "answered", fail)
    caller = call()
    [run] = await runs_when(1)
    await cancel(run)
    answered, body = await caller.answer()
    assert (answered, body["error"]["code"]) == (status, code)
    assert "secret" not in json.dumps(body)
    assert body["error"]["request_id"] == caller.headers["x-request-id"]


A2A = {"messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "Hello"}]}
WAITED = {
    "message": ("/api/v1/agents/helper/messages", {"message": "Hello", "wait": PATIENCE_S}),
    "a2a": ("/a2a/helper", {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": A2A}}),
    "chat": ("/v1/chat/completions", {"model": "helper", "messages": [{"role": "user", "content": "Hello"}]}),
    "responses": ("/v1/responses", {"model": "helper", "input": "Hello"}),
    "langgraph": (
        "/langgraph/runs/wait",
        {"assistant_id": "helper", "input": {"messages": [{"type": "human", "content": "Hello"}]}},
    ),
}


@pytest.mark.parametrize("deed", ["revoked", "expired", "deactivated"])
@pytest.mark.parametrize("protocol", WAITED)
async def test_nobody_gets_an_answer_whose_key_ended_while_they_waited(
    call, cancel, alice, monkeypatch, protocol, deed
):
    monkeypatch.setattr(deferred_response, "EVERY_S", 0.0)
    path, body = WAITED[protocol]
    caller = call(path=path, body=body)
    [run] = await runs_when(1)
    keys = ApiKey.objects.filter(user=alice)
    deeds = {
        "revoked": partial(keys.update, revoked_at=timezone.now()),
        "expired": partial(keys.update, expires_at=timezone.now()),
        "deactivated": partial(type(alice).objects.update, is_active=False),
    }
    await in_thread(deeds[deed])
    await cancel(run)
    status, _ = await caller.answer()
    assert status == 401 and b"cancelled" not in b"".join(message.get("body", b"") for message in caller.sent)


async def test_a_short_wait_asks_the_database_nothing_more(call, cancel, monkeypatch):
    monkeypatch.setattr(deferred_response.CredentialCheck, "is_good", lambda self: pytest.fail("it was checked again"))
    caller = call()
    [run] = await runs_when(1)
    await cancel(run)
    assert (await caller.answer())[0] == 200
