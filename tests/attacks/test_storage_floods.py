"""Nobody fills the database: what a person's runs and conversations hold is limited, by every door."""

import json

import pytest

from runs.models import Message, Run, Session, room

pytestmark = pytest.mark.django_db
LARGE = "x" * 30_000
JSON = {"content_type": "application/json"}


@pytest.fixture(autouse=True)
def small_quota(settings, monkeypatch):
    settings.RUN_BYTES_PER_PERSON = 200_000
    monkeypatch.setattr(room, "ROOMS", room.Rooms())


def send(api, **body):
    return api.post("/api/v1/agents/helper/messages", body, headers={"Prefer": "respond-async"})


def send_message(api):
    return send(api, message=LARGE)


def send_input(api):
    return send(api, message="Hello", input={"text": LARGE})


def send_metadata(api):
    return send(api, message="Hello", metadata={"text": LARGE})


def send_history(api):
    history = [{"role": "user", "content": LARGE}, {"role": "assistant", "content": "Yes."}]
    body = {"model": "helper", "messages": [*history, {"role": "user", "content": "Go on."}], "stream": True}
    return api.post("/v1/chat/completions", body)


def send_run_of_a_thread(api):
    thread = api.post("/langgraph/threads", {}).json()["thread_id"]
    body = {"assistant_id": "helper", "input": {"messages": [{"role": "user", "content": LARGE}]}}
    return api.post(f"/langgraph/threads/{thread}/runs", body)


def send_state(api):
    thread = api.post("/langgraph/threads", {}).json()["thread_id"]
    body = {"values": {"messages": [{"role": "user", "content": LARGE}]}}
    return api.post(f"/langgraph/threads/{thread}/state", body)


def send_copy(api):
    session = Session.objects.order_by("pk").first()
    if session is None:
        return send_message(api)
    return api.post(f"/langgraph/threads/{session.pk}/copy", {})


def send_task(api):
    message = {"messageId": str(Run.objects.count()), "role": "ROLE_USER", "parts": [{"text": LARGE}]}
    headers = {"A2A-Version": "1.0"}
    body = {"message": message, "configuration": {"returnImmediately": True}}
    return api.post("/a2a/helper/message:send", body, headers=headers)


DOORS = [
    send_message, send_input, send_metadata, send_history, send_run_of_a_thread, send_state, send_copy, send_task,
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_a_person_stores_no_more_than_their_quota(alice, alice_api, make_agent, door):
    make_agent("helper")
    answers = [door(alice_api) for _ in range(20)]
    refused = [one for one in answers if one.status_code == 409]
    assert refused and b"quota_exceeded" in refused[-1].content.lower(), [one.status_code for one in answers]
    assert answers[0].status_code < 300
    assert room.count_stored(alice.pk) <= 200_000 + 2 * len(LARGE)
    assert real_bytes(alice) <= 250_000


def real_bytes(person):
    texts = [json.dumps(one) for one in Message.objects.filter(session__owner=person).values_list("content", flat=True)]
    texts += [json.dumps(one) for one in Run.objects.filter(principal=person).values_list("input", "metadata")]
    return sum(map(len, texts))


def test_others_have_their_own_quota_and_a_deleted_conversation_makes_room(
    alice, alice_api, charlie_api, make_agent, monkeypatch
):
    agent = make_agent("helper")
    type(agent).objects.filter(pk=agent.pk).update(owner=None)  # the site's
    while send_message(alice_api).status_code < 300:
        pass
    assert send_message(charlie_api).status_code < 300
    Run.objects.filter(principal=alice).update(size=None)
    Session.objects.filter(owner=alice).delete()
    monkeypatch.setattr(room, "ASKED_AGAIN_S", 0.0)
    assert send_message(alice_api).status_code < 300
