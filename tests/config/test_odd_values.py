"""Odd values by every door: a plain refusal or an answer, never a 500."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agents.models import Agent
from runs.models import Session
from tests.devices.scripted import paired
from tests.functions import library
from tests.gateway.a2a.calls import V1

pytestmark = pytest.mark.django_db
API = "/api/v1"
MARK = "@@odd@@"
FIXED = ("configuration",)  # without it the answer waits for a worker
# As JSON text: what no JSON library writes is sent, too.
ODD = {
    "a long integer": "1180591620717411303424",
    "a very long integer": "9" * 5000,
    "a negative integer": "-9223372036854775809",
    "a huge float": "1e400",
    "NaN": "NaN",
    "infinity": "-Infinity",
    "NUL": r'"a\u0000b"',
    "half a character": r'"a\ud800b"',
    "a long name": json.dumps("n" * 10_000),
    "a long name of large characters": json.dumps("ü" * 10_000),
    "a deep value": "[" * 300 + "]" * 300,
    "an object": '{"a": {"b": null}}',
    "true": "true",
    "null": "null",
}
STEPS = [{"key": "one", "agent": "helper", "input": {"message": "'Hi'"}}]
HUMAN = {"messages": [{"role": "user", "content": "Hi"}]}
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


HELLO = {"role": "ROLE_USER", "messageId": "m1", "contextId": "c1", "parts": [{"text": "Hi"}, {"data": {"a": 1}}]}
DOORS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mcp tool": ("post", "/mcp", rpc("tools/call", name="search", arguments={"query": "x"})),
    "mcp start": ("post", "/mcp", rpc("initialize", protocolVersion="2025-06-18", clientInfo={"name": "x"})),
    "mcp resource": ("post", "/mcp", rpc("resources/read", uri="muster://files/1")),
    "mcp list": ("post", "/mcp", rpc("resources/list", cursor="x")),
    "device": ("patch", f"{API}/devices/{{device}}", {"name": "laptop"}),
    "pairing": ("post", f"{API}/devices/pair", {"code": "ABCD-EFGH", "name": "x", "platform": "linux", "version": "1"}),
    "webhook": ("post", f"{API}/webhooks/", {"url": "http://127.0.0.1:9/", "events": ["run.finished"], "enabled": True}),
    "chain": ("post", f"{API}/chains/", {"name": "digest", "description": "x", "steps": STEPS}),
    "chain run": ("post", f"{API}/chains/known/runs", {"input": {"a": 1}, "priority": 1}),
    "schedule": ("post", f"{API}/schedules/", {"name": "s", "agent": "helper", "text": "Hi", "crontab": "0 9 * * *",
                 "timezone": "UTC", "jitter_s": 1, "starts_at": "2026-01-01T00:00:00Z", "input": {"a": 1}}),
    "trigger": ("post", f"{API}/triggers/", {"name": "t", "kind": "webhook", "agent": "helper", "cooldown_s": 1}),
    "function": ("post", f"{API}/functions/", {"name": "f", "source": "def f() -> int:\n    return 1\n", "timeout_s": 1}),
    "function arguments": ("post", f"{API}/functions/add/tests/", {"name": "t", "arguments": {"a": 1}, "expected": 3}),
    "thread": ("post", "/langgraph/threads", {"metadata": {"a": "b"}, "thread_id": "x"}),
    "thread search": ("post", "/langgraph/threads/search", {"metadata": {"a": "b"}, "limit": 1, "offset": 0}),
    "thread run": ("post", "/langgraph/threads/{session}/runs", {"assistant_id": "helper", "input": HUMAN,
                   "metadata": {"a": 1}, "config": {"recursion_limit": 5}}),
    "store": ("put", "/langgraph/store/items", {"namespace": ["a"], "key": "k", "value": {"a": 1}}),
    "cron": ("post", "/langgraph/runs/crons", {"assistant_id": "helper", "schedule": "0 9 * * *", "input": HUMAN}),
    "a2a": ("post", "/a2a/helper/message:send", {"message": HELLO, "configuration": {"returnImmediately": True}}),
    "a2a rpc": ("post", "/a2a/helper", rpc("SendMessage", message=HELLO, configuration={"returnImmediately": True})),
    "run": ("post", f"{API}/agents/helper/messages", {"message": "Hi", "metadata": {"a": 1}, "priority": 1}),
}  # fmt: skip


def spoiled(body: Any) -> Iterator[Any]:
    """The body with the mark in place of each of its values and names, one at a time."""
    if isinstance(body, dict):
        for name, value in body.items():
            if name in FIXED:
                continue
            yield {**body, name: MARK}
            yield from ({**body, name: one} for one in spoiled(value))
        yield {**body, MARK: 1}
    elif isinstance(body, list):
        for place, value in enumerate(body):
            yield [*body[:place], MARK, *body[place + 1 :]]
            yield from ([*body[:place], one, *body[place + 1 :]] for one in spoiled(value))


@pytest.fixture
def places(alice, make_agent, make_chain, worker):
    """What the doors are about; nobody works."""
    make_agent()
    library.publish(alice)
    make_chain({"key": "one", "agent": "helper", "input": {"message": "'Hi'"}}, name="known")
    session = Session.objects.create(owner=alice, agent=Agent.objects.get(name="helper"), variables={"agent_depth": 0})
    return {"device": paired(alice)[0].pk, "session": session.pk}


@pytest.mark.parametrize("door", DOORS)
def test_odd_values_are_refused_or_taken_but_never_a_500(alice_api, places, door):
    verb, path, body = DOORS[door]
    path = path.format(**places) if "{" in path else path
    more = {"headers": {**MCP, "Prefer": "respond-async"}, **(V1 if path.startswith("/a2a") else {})}
    failed = []
    for number, one in enumerate(spoiled(body)):
        text = json.dumps(one)
        for place, (name, odd) in enumerate(ODD.items()):
            if (number + place) % 2 and name not in ("NUL", "half a character", "a long integer"):
                continue  # each value at every second place
            sent = text.replace(
                f'"{MARK}"', odd if text.count(f'"{MARK}": ') == 0 or odd[0] == '"' else json.dumps(odd)
            )
            answer = alice_api.generic(verb.upper(), path, sent, content_type="application/json", **more)
            if answer.status_code >= 500 or b"-32603" in getattr(answer, "content", b""):
                failed.append((name, text[:300], answer.status_code, answer.content[:200]))
    assert failed == []
