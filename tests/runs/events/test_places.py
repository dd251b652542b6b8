"""One person's waiting requests, streams, sockets and webhooks do not stop everybody else's."""

import threading
from collections import Counter

import pytest

from agents.exceptions import RateLimited, Unavailable
from runs.api import messages, schedules
from runs.events.connection_limits import STREAMS, Places, Streams
from runs.models import Run
from tests.fakes import says

ALICE, BOB = 1, 2


@pytest.fixture(autouse=True)
def no_streams_yet(monkeypatch):
    """Streams and sockets that other tests left open do not count here."""
    monkeypatch.setattr(STREAMS, "open", Counter())


def test_who_has_most_places_gives_one_up_for_another_person():
    places = Places(4)
    alices = [places.enter(ALICE) for _ in range(4)]
    places.enter(BOB)
    assert [place.is_dismissed for place in alices] == [True, False, False, False]
    assert (len(places.taken[ALICE]), len(places.taken[BOB])) == (3, 1)


def test_one_person_may_use_all_places_while_nobody_else_wants_one():
    places = Places(4)
    for _ in range(4):
        places.enter(ALICE)
    with pytest.raises(Unavailable):
        places.enter(ALICE)


def test_people_who_want_more_than_there_is_get_equal_shares():
    places = Places(6)
    for _ in range(6):
        places.enter(ALICE)
    for _ in range(2):
        places.enter(BOB)
    places.enter(BOB)
    with pytest.raises(Unavailable):
        places.enter(BOB)
    assert (len(places.taken[ALICE]), len(places.taken[BOB])) == (3, 3)


def test_a_place_is_free_again_after_a_wait():
    places = Places(1)
    for person in (ALICE, BOB, ALICE):
        with places.take(person):
            pass
    assert places.taken == {}


@pytest.mark.django_db(transaction=True)
def test_a_wait_that_gives_up_its_place_answers_202_and_its_run_goes_on(
    alice, bob, api, make_agent, stub_provider, stub, monkeypatch
):
    make_agent(provider=stub_provider)
    places = Places(1)
    monkeypatch.setattr(messages, "WAITS", places)
    answers = []
    body = {"message": "Hello", "wait": 300}
    waiting = threading.Thread(
        target=lambda: answers.append(api(alice).post("/api/v1/agents/helper/messages", body)), daemon=True
    )
    waiting.start()
    while not places.taken or not Run.objects.exists():
        waiting.join(0.02)
    places.taken[alice.pk][0].dismiss()
    waiting.join(60)  # far less than it would wait
    assert answers[0].status_code == 202 and Run.objects.get().status == "queued"


def test_a_person_s_streams_are_counted_until_they_are_closed():
    streams = Streams()
    streams.enter(ALICE, 1)
    with pytest.raises(RateLimited):
        streams.enter(ALICE, 1)
    streams.enter(BOB, 1)
    streams.leave(ALICE)
    streams.enter(ALICE, 1)


@pytest.mark.django_db
def test_a_stream_too_many_is_refused_and_starts_nothing(alice_api, make_agent, stub_provider, stub, settings):
    make_agent(provider=stub_provider)
    settings.MAX_STREAMS = 1
    stub.script(says("hi"))
    ask = {"path": "/api/v1/agents/helper/messages", "data": {"message": "Hello"}}
    first = alice_api.post(ask["path"], ask["data"], headers={"Accept": "text/event-stream"})
    second = alice_api.post(ask["path"], ask["data"], headers={"Accept": "text/event-stream"})
    assert (first.status_code, second.status_code) == (200, 429)
    assert second.json()["error"]["code"] == "too_many_streams" and Run.objects.count() == 1
    first.close()
    assert STREAMS.open == {}


@pytest.mark.django_db
def test_a_message_that_is_refused_leaves_no_stream_counted(alice_api):
    answer = alice_api.post("/api/v1/agents/nobody/messages", {"message": "x"}, headers={"Accept": "text/event-stream"})
    assert answer.status_code == 404 and STREAMS.open == {}


@pytest.mark.django_db
def test_webhooks_of_one_person_are_limited(alice_api, bob_api, settings, monkeypatch):
    monkeypatch.setattr(schedules, "MAX_WEBHOOKS", 1)
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    body = {"url": "http://127.0.0.1:9/hook"}
    assert alice_api.post("/api/v1/webhooks/", body).status_code == 201
    refused = alice_api.post("/api/v1/webhooks/", body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "too_many_webhooks")
    assert bob_api.post("/api/v1/webhooks/", body).status_code == 201
