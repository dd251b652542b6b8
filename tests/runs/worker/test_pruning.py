"""Summaries, budgets, usage and pruning."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from agents.models import BrowserSession
from runs.models import Budget, ModelCall, Notice, Run, RunEvent
from runs.worker import pruning
from tests.fakes import says

pytestmark = pytest.mark.django_db


def test_older_messages_are_put_into_a_running_summary(worker, alice, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider, session_context="summary", context_messages=2)
    stub.script(says("one"), says("two"), says("They talked about one."), says("three"))
    first = worker.send_message(alice, "a", agent)
    worker.send_message(alice, "b", agent, session=first.session)
    last = worker.send_message(alice, "c", agent, session=first.session)
    last.session.refresh_from_db()
    assert last.session.summary == "They talked about one." and last.session.summarised_to == 2
    assert "They talked about one." in stub.requests[-1]["messages"][0]["content"]
    assert last.events.filter(type="session.summarised").exists()


def test_history_keeps_within_its_budget_of_tokens(worker, alice, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider, context_tokens=100)
    stub.script(says("x" * 500), says("short"))
    first = worker.send_message(alice, "a", agent)
    worker.send_message(alice, "b", agent, session=first.session)
    assert [message["content"] for message in stub.requests[-1]["messages"][1:]][-1] == "b"
    assert not any(message["content"] == "a" for message in stub.requests[-1]["messages"])


def test_a_budget_is_made_listed_and_changed_by_its_owner_only(alice_api, bob_api, charlie_api):
    made = alice_api.post("/api/v1/budgets/", {"period": "day", "max_tokens": 1000})
    assert made.status_code == 201, made.json()
    path = f"/api/v1/budgets/{made.json()['id']}"
    assert made.json()["user"] == "alice"
    assert alice_api.patch(path, {"max_tokens": 5}, "application/json").json()["max_tokens"] == 5
    assert charlie_api.get(path).status_code == 404
    assert charlie_api.delete(path).status_code == 404
    assert alice_api.post("/api/v1/budgets/", {"period": "day"}).status_code == 422
    assert alice_api.delete(path).status_code == 204


def test_a_token_budget_stops_the_next_model_call(worker, alice, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider)
    Budget.objects.create(user=alice, period="month", max_tokens=55)
    stub.script(says("hi"), says("never said"))
    assert worker.send_message(alice, "a", agent).status == "succeeded"
    assert worker.send_message(alice, "b", agent).error["code"] == "budget_exhausted"


def test_usage_counts_by_agent_and_shows_strangers_nothing(
    worker, alice, alice_api, charlie_api, make_agent, stub_provider, stub
):
    agent = make_agent(provider=stub_provider)
    stub.script(says("hi"), says("ho"))
    worker.send_message(alice, "a", agent)
    worker.send_message(alice, "b", agent)
    (row,) = alice_api.get("/api/v1/usage/?by=agent&days=1").json()["results"]
    assert (row["agent"], row["runs"], row["failed"]) == ("helper", 2, 0)
    assert row["input_tokens"] > 0
    assert charlie_api.get("/api/v1/usage/").json()["results"] == []
    assert alice_api.get("/api/v1/usage/?by=moon").status_code == 422


def test_pruning_takes_what_is_old_and_leaves_what_lives(worker, alice, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider)
    stub.script(says("hi"), says("ho"))
    old, new = worker.send_message(alice, "a", agent), worker.send_message(alice, "b", agent)
    past = timezone.now() - timedelta(days=1000)
    Run.objects.filter(pk=old.pk).update(finished_at=past)
    RunEvent.objects.filter(run=old).update(at=past)
    ModelCall.objects.filter(run=old).update(started_at=past)
    counts = pruning.prune(dry_run=True)
    assert counts["events"] == 4 and counts["runs"] == 1 and Run.objects.count() == 2
    call_command("prune", verbosity=0)
    assert [run.pk for run in Run.objects.all()] == [new.pk]
    assert new.events.count() == 4


def test_expired_logins_and_old_notices_go_and_live_ones_stay(alice, client, asked):
    client.force_login(alice)
    [live] = BrowserSession.objects.values_list("pk", flat=True)
    now = timezone.now()
    BrowserSession.objects.create(pk="over", session_data="", expire_date=now - timedelta(seconds=1), user=alice)
    approval = asked()
    for number, (state, days) in enumerate([("sent", 91), ("dead", 91), ("pending", 91), ("sent", 89)]):
        notice = Notice.objects.create(
            approval=approval, person=alice, channel="push", address=str(number), state=state, next_attempt_at=now
        )
        Notice.objects.filter(pk=notice.pk).update(created_at=now - timedelta(days=days))
    counts = pruning.prune()
    assert (counts["logins"], counts["notices"]) == (1, 2)
    assert list(BrowserSession.objects.values_list("pk", flat=True)) == [live]
    assert set(Notice.objects.values_list("address", flat=True)) == {"2", "3"}
    assert client.get("/account/").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_chat_shows_the_reply_of_an_agent(alice, make_agent, capsys):
    alice.is_superuser = True
    alice.save()
    make_agent("parrot")
    call_command("chat", "parrot", "--message", "Hello there")
    assert "offline" in capsys.readouterr().out.lower()
    assert Run.objects.get().status == "succeeded"
