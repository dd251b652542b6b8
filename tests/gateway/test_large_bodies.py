"""What one allowed request of each protocol may make the server do: its work has a limit, whatever the body repeats."""

import json
import time
from uuid import uuid4

import pytest

from agents.models import Agent
from gateway.langgraph import threads
from runs.models import Message, Session
from runs.models.session import MOST_AT_ONCE

pytestmark = pytest.mark.django_db
SAID = {"role": "user", "content": "a"}


@pytest.fixture
def agent(make_agent, stub_provider):
    return make_agent("plain", provider=stub_provider)


def chat(messages):
    return "/v1/chat/completions", {"model": "plain", "messages": messages, "stream": True}


def responses(messages):
    return "/v1/responses", {"model": "plain", "input": messages, "background": True}


def thread(messages):
    return "/langgraph/threads", {"supersteps": [{"updates": [{"values": {"messages": messages}}]}]}


@pytest.mark.parametrize("body_of", [chat, responses, thread])
def test_more_messages_than_a_conversation_brings_are_refused(alice_api, agent, body_of):
    path, body = body_of([SAID] * (MOST_AT_ONCE + 2))
    answer = alice_api.post(path, body)
    assert answer.status_code in (400, 422)
    assert "too_many_messages" in answer.content.decode()
    assert not Session.objects.exists()


def test_earlier_messages_are_stored_together(alice_api, agent, django_assert_max_num_queries):
    path, body = responses([SAID] * 500)
    with django_assert_max_num_queries(40):
        assert alice_api.post(path, body).status_code == 200
    assert [one.seq for one in Message.objects.order_by("seq")] == list(range(1, 501))


def test_a_message_has_few_parts(alice_api, agent):
    parts = [{"type": "file", "file": str(uuid4())}] * 201
    answer = alice_api.post("/api/v1/agents/plain/messages", {"message": parts})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "too_many_parts")


def test_an_answer_lists_the_first_faults(alice_api, agent):
    answer = alice_api.post("/api/v1/agents/plain/messages", {"message": [{}] * 150})
    assert (answer.status_code, len(answer.json()["error"]["details"])) == (422, 100)


def long_thread(alice, length):
    session = Session.objects.create(owner=alice)
    session.add_messages([Message(role="user", content=[{"type": "text", "text": "a"}]) for _ in range(length)])
    return f"/langgraph/threads/{session.pk}"


def test_the_state_of_a_long_thread_is_one_state(alice, alice_api):
    path = long_thread(alice, MOST_AT_ONCE)
    began = time.thread_time()
    state = alice_api.get(f"{path}/state").json()
    assert len(state["values"]["messages"]) == MOST_AT_ONCE
    assert time.thread_time() - began < 2


def test_a_history_has_an_end(alice, alice_api):
    path = long_thread(alice, 150)
    history = alice_api.post(f"{path}/history", {"limit": 10**6}).json()
    assert [len(one["values"]["messages"]) for one in history] == list(range(150, 50, -1))


def test_the_states_of_a_history_fit_in_its_answer(alice, alice_api, monkeypatch):
    """Each state holds all messages up to then: a hundred of them were a hundred times the thread."""
    monkeypatch.setattr(threads, "MOST_BYTES", 100_000)
    path = long_thread(alice, 300)
    seen, before = [], None
    for _ in range(2):
        history = alice_api.post(f"{path}/history", {"limit": 100, **({"before": before} if before else {})}).json()
        seen += [len(one["values"]["messages"]) for one in history]
        before = history[-1]["checkpoint"]
        assert len(json.dumps(history)) < 200_000
    assert seen == list(range(300, 300 - len(seen), -1)) and len(seen) > 2
    monkeypatch.setattr(threads, "MOST_BYTES", 0)
    assert len(alice_api.post(f"{path}/history", {"limit": 100}).json()) == 1


def test_only_states_that_a_history_lists_are_made(alice, alice_api, monkeypatch):
    made = []
    monkeypatch.setattr(threads, "build_thread_values", lambda checkpoints: made.append(1) or {"messages": []})
    path = long_thread(alice, 300)
    assert alice_api.post(f"{path}/history", {"metadata": {"step": "no number"}}).json() == []
    assert made == []
    [state] = alice_api.post(f"{path}/history", {"metadata": {"step": 7, "source": "loop"}}).json()
    assert state["metadata"]["step"] == 7 and made == [1]


def test_a_search_compares_few_keys_and_gives_each_field_once(alice, alice_api):
    long_thread(alice, 1)
    path = "/langgraph/threads/search"
    assert alice_api.post(path, {"metadata": {f"k{number}": 1 for number in range(100)}}).status_code == 422
    began = time.thread_time()
    rows = alice_api.post(path, {"select": ["thread_id"] * 60_000, "limit": 1000}).json()
    assert [list(row) for row in rows] == [["thread_id"]]
    assert time.thread_time() - began < 2


@pytest.mark.parametrize("output", ["NaN", "[Infinity]", '"\\ud800"', '"\\u0000"', "[" * 900 + "]" * 900])
def test_results_in_a_history_that_cannot_be_stored_as_json_stay_text(alice_api, agent, output):
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": f'{{"a": {output}}}'}
    result = {"type": "function_call_output", "call_id": "c", "output": output}
    path, body = responses([SAID, call, result, SAID])
    assert alice_api.post(path, body).status_code == 200
    [kept] = [one.tool_calls for one in Message.objects.all() if one.tool_calls]
    assert (kept[0]["arguments"], kept[0]["result"]) == ({}, output)
    json.dumps(kept, allow_nan=False).encode()


def test_an_agent_has_at_most_so_many_grants(alice_api, agent):
    grants = [{"tool": f"t{number}"} for number in range(501)]
    answer = alice_api.patch("/api/v1/agents/plain", {"grants": grants}, content_type="application/json")
    assert answer.status_code == 422
    assert len(answer.json()["error"]["details"]) == 1
    assert Agent.objects.get(name="plain").grants.count() == 0
