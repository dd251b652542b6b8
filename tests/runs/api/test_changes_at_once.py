"""Two changes of one row at once are both kept: each writes only what it changes."""

import random
import threading

import pytest
from django.db import connection

from agents.models import Agent
from functions.models import StoredFunction
from runs.models import Message, Session
from runs.serializers.sessions import SessionSerializer

V1 = "/api/v1"
JSON = "application/json"
SOURCE = "def add(a: int, b: int = 2) -> int:\n    return a + b\n"
AGENT = {"name": "librarian", "system_prompt": "Be brief.", "provider": "offline"}
FUNCTION = {"name": "add", "source": SOURCE}
PAIRS = [
    ("agents", AGENT, {"description": "Finds books."}, {"system_prompt": "Be kind."}),
    ("functions", FUNCTION, {"timeout": 3.0}, {"description": "Adds."}),
    ("providers", {"name": "local", "kind": "offline"}, {"enabled": False}, {"default_model": "small"}),
    ("prompts", {"name": "greeting", "text": "Hello"}, {"text": "Hi"}, {"description": "Greets."}),
    ("chains", {"name": "both", "steps": []}, {"description": "Two."}, {"enabled": False}),
    (
        "schedules",
        {"name": "daily", "agent": "librarian", "text": "Go.", "crontab": "0 9 * * *"},
        {"text": "Stop."},
        {"crontab": "0 10 * * *"},
    ),
    ("budgets", {"period": "day", "max_runs": 5}, {"max_runs": 6}, {"max_tokens": 900}),
    ("connections", {"name": "shop", "provider": "openapi"}, {"enabled": False}, {"name": "store"}),
]
KINDS = [pair[0] for pair in PAIRS]


def at_once(*actions):
    """Do these things in a thread each, and return their results in this order."""
    together, results = threading.Barrier(len(actions)), [None] * len(actions)

    def act(place, action):
        try:
            together.wait(60)
            results[place] = action()
        finally:
            connection.close()

    threads = [threading.Thread(target=act, args=each) for each in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("kind", "body", "first", "second"), PAIRS, ids=KINDS)
def test_both_of_two_changes_at_once_are_kept(kind, body, first, second, alice_api, offline):
    if kind == "schedules":
        alice_api.post(f"{V1}/agents/", AGENT)
        alice_api.post(f"{V1}/agents/librarian/publish")
    answer = alice_api.post(f"{V1}/{kind}/", body)
    assert answer.status_code == 201, answer.content
    at = answer["Location"]
    changes = [first, second]
    random.Random(32).shuffle(changes)
    answers = at_once(*(lambda change=change: alice_api.patch(at, change, JSON) for change in changes))
    assert [one.status_code for one in answers] == [200, 200], [one.content for one in answers]
    at = at.replace(body.get("name", "-"), {**first, **second}.get("name", body.get("name", "-")))
    row = alice_api.get(at).json()
    for change in changes:
        assert {name: row[name] for name in change} == change


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("kind", "body", "model"), [("agents", AGENT, Agent), ("functions", FUNCTION, StoredFunction)])
def test_a_change_does_not_take_a_publication_back(kind, body, model, alice_api, offline):
    at = alice_api.post(f"{V1}/{kind}/", body)["Location"]
    for text in ("one", "two", "three"):
        answers = at_once(
            lambda: alice_api.post(f"{at}/publish"),
            lambda text=text: alice_api.patch(at, {"description": text}, JSON),
        )
        assert answers[1].status_code == 200
        assert alice_api.get(at).json()["description"] == text
        if answers[0].status_code == 200:  # else the function's draft changed while its tests ran
            row = model.objects.select_related("published").get(name=body["name"])
            assert row.published.number == answers[0].json()["version"]


@pytest.fixture
def session(alice, alice_api, offline):
    alice_api.post(f"{V1}/agents/", AGENT)
    return Session.objects.create(owner=alice, agent=Agent.objects.get(name="librarian"))


def test_a_new_title_keeps_what_a_run_wrote_meanwhile(session):
    """The row was read before the run wrote its messages, and is written after them."""
    read_before = Session.objects.get(pk=session.pk)
    session.add_messages([Message(role="user", content=[]), Message(role="assistant", content=[])])
    Session.objects.filter(pk=session.pk).update(has_untrusted=True, summary="They met.", summarised_to=1)
    serializer = SessionSerializer(read_before, data={"title": "Holidays"}, partial=True)
    serializer.is_valid(raise_exception=True)
    serializer.save()
    row = Session.objects.get(pk=session.pk)
    assert (row.title, row.last_seq, row.has_untrusted, row.summary) == ("Holidays", 2, True, "They met.")


def test_a_session_whose_counter_was_set_back_heals_at_its_next_message(session):
    session.add_messages([Message(role="user", content=[]), Message(role="assistant", content=[])])
    Session.objects.filter(pk=session.pk).update(last_seq=0)
    again = Session.objects.get(pk=session.pk)
    assert again.add_message("user", []).seq == 3
    assert Session.objects.get(pk=session.pk).last_seq == 3
