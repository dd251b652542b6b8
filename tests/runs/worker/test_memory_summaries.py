"""Facts of a conversation that has rested: noted once, by the agent's model, as the agent's setting says."""

import json
from datetime import timedelta

import pytest

from agents.models import Agent
from knowledge.memory import storage
from knowledge.models import Memory, MemoryVersion
from plumbing import clock
from runs.models import Budget, ModelCall, Run, Session
from runs.queue import claims
from runs.worker import memory_summaries, recovery
from tests.fakes import fails, says

pytestmark = pytest.mark.django_db
TEA = {"text": "Likes green tea.", "kind": "preference", "subject": "tea"}
ROME = {"text": "Lives in Rome.", "kind": "fact"}


def noted(*facts):
    return says(json.dumps({"facts": list(facts)}))


@pytest.fixture
def helper(make_agent, stub_provider):
    return make_agent(provider=stub_provider, memory_summary="suggest")


@pytest.fixture
def rest(worker, django_capture_on_commit_callbacks):
    """The ticker's passes a while later: one starts the run, which works, and the next stores what it noted."""

    def later(minutes=20):
        for _ in range(2):
            with django_capture_on_commit_callbacks(execute=True):
                memory_summaries.tick_memory_summaries(clock.now() + timedelta(minutes=minutes))
            worker.work()
        return list(Run.objects.filter(trigger="memory").order_by("id"))

    return later


def test_facts_of_a_rested_conversation_wait_for_the_person(worker, rest, alice, helper, stub):
    stub.script(says("Fine."), noted(TEA, ROME))
    sent = worker.send_message(alice, "I like green tea, and I live in Rome.", helper)
    assert rest(minutes=5) == [] and not Memory.objects.exists(), "it has not rested"
    [run] = rest()
    tea, rome = Memory.objects.order_by("id")
    assert (tea.text, tea.kind, tea.subject) == tuple(TEA.values())
    assert (tea.status, tea.run_id) == ("suggested", run.pk)
    assert (rome.status, rome.untrusted, rome.owner) == ("suggested", False, alice)
    assert (run.metadata["session"], run.priority, run.principal) == (str(sent.session_id), 3, alice)
    assert run.input_tokens and "user: I like green tea" in str(stub.requests[-1]["messages"])
    assert not stub.requests[-1].get("tools")
    assert MemoryVersion.objects.filter(is_agent=True, root_id=run.pk, author=helper.name).count() == 2


def test_it_is_off_without_the_setting(worker, rest, alice, helper, stub):
    Agent.objects.update(memory_summary="off")
    stub.script(says("Fine."))
    worker.send_message(alice, "I like green tea.", helper)
    assert rest() == []


def test_auto_holds_at_once_but_never_after_text_of_strangers(worker, rest, alice, helper, stub):
    Agent.objects.update(memory_summary="auto")
    stub.script(says("Fine."), noted(TEA))
    worker.send_message(alice, "I like green tea.", helper)
    rest()
    assert Memory.objects.get().status == "active"
    stub.script(says("Fine."), noted(ROME))
    run = worker.send_message(alice, "Read my mail.", helper)
    Session.objects.filter(pk=run.session_id).update(has_untrusted=True)
    rest()
    row = Memory.objects.get(text="Lives in Rome.")
    assert (row.status, row.untrusted) == ("suggested", True)
    assert "<untrusted" in str(stub.requests[-1]["messages"])


def test_messages_are_summarised_once_and_later_ones_alone(worker, rest, alice, helper, stub):
    stub.script(says("Fine."), noted(TEA))
    session = worker.send_message(alice, "I like green tea.", helper).session
    assert len(rest()) == len(rest()) == 1
    stub.script(says("Fine."), noted(ROME))
    worker.send_message(alice, "I live in Rome.", helper, session=session)
    assert len(rest()) == 2
    asked = str(stub.requests[-1]["messages"])
    assert "I live in Rome." in asked and "green tea" not in asked
    fork = Session.objects.get(pk=session.pk).fork(before=3)
    assert fork.remembered_to == fork.last_seq


def test_a_failed_summary_is_not_repeated_and_shows_why(worker, rest, alice, helper, stub):
    stub.script(says("Fine."), *[fails(400)] * 6)
    worker.send_message(alice, "I like green tea.", helper)
    [run] = rest()
    assert run.status == "failed" and rest() == [run] and not Memory.objects.exists()
    assert Session.objects.get().remembering is None


def test_a_run_whose_worker_died_in_the_model_call_ends_without_a_second(worker, rest, alice, helper, stub):
    stub.script(says("Fine."))
    worker.send_message(alice, "I like green tea.", helper)
    memory_summaries.tick_memory_summaries(clock.now() + timedelta(minutes=20))
    run = Run.objects.get(trigger="memory")
    assert claims.claim_run(str(run.pk))
    Run.objects.update(lease_expires_at=clock.Now(-60))
    asked = len(stub.requests)
    recovery.tick_recovery()
    worker.ring("default")
    worker.work()
    run.refresh_from_db()
    assert (run.status, run.error["code"]) == ("failed", "interrupted")
    assert len(stub.requests) == asked and not ModelCall.objects.filter(run=run).exists()


def test_two_tickers_start_one_run(worker, alice, helper, stub):
    stub.script(says("Fine."))
    worker.send_message(alice, "I like green tea.", helper)
    later = clock.now() + timedelta(minutes=20)
    found = memory_summaries.find_rested_conversations(later)
    assert [memory_summaries.start_summary(pk, later) for pk in (*found, *found)] == [1, 0]


def test_limits_hold_and_a_deleted_conversation_leaves_nothing(worker, rest, alice, helper, stub, monkeypatch):
    monkeypatch.setattr(storage, "MEMORIES_PER_RUN", 1)
    stub.script(says("Fine."), noted(TEA, ROME))
    worker.send_message(alice, "I like green tea.", helper)
    rest()
    assert Memory.objects.count() == 1
    stub.script(says("Fine."))
    gone = worker.send_message(alice, "I live in Rome.", helper).session
    memory_summaries.tick_memory_summaries(clock.now() + timedelta(minutes=20))
    gone.delete()
    worker.ring("default")
    worker.work()
    assert rest()[-1].status == "cancelled" and Memory.objects.count() == 1


def test_nobody_who_may_not_use_the_agent_any_more_is_summarised(worker, rest, alice, helper, stub):
    stub.script(says("Fine."))
    worker.send_message(alice, "I like green tea.", helper)
    Agent.objects.update(enabled=False)
    assert rest() == []
    Agent.objects.update(enabled=True)
    assert rest() == [], "it is not looked at again"


def test_the_summary_counts_in_the_budget_of_the_person(worker, rest, alice, helper, stub):
    stub.script(says("Fine."), noted(TEA))
    worker.send_message(alice, "I like green tea.", helper)
    Budget.objects.create(user=alice, period="day", max_tokens=1)
    [run] = rest()
    assert (run.status, run.error["code"]) == ("failed", "budget_exhausted") and not Memory.objects.exists()


def test_a_summary_is_not_repeated_by_hand(worker, rest, alice, helper, stub, alice_api):
    stub.script(says("Fine."), noted(TEA))
    worker.send_message(alice, "I like green tea.", helper)
    [run] = rest()
    answer = alice_api.post(f"/api/v1/runs/{run.pk}/retry", {}, format="json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "is_summary")


def test_facts_that_somebody_elses_agent_notes_are_known_to_it_alone(worker, rest, bob, team, helper, stub):
    for row in (helper, helper.provider):
        row.team = team
        row.save()
    Agent.objects.update(memory_summary="auto")
    stub.script(says("Fine."), noted(TEA))
    worker.send_message(bob, "I like green tea.", helper)
    rest()
    row = Memory.objects.get()
    assert (row.owner, row.status, row.scope, row.agent) == (bob, "active", "person_agent", helper)
