"""Who may answer a call that asks, what they are shown, and that the run's time stands still meanwhile."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents import membership
from agents.models import Agent, Membership, Provider, Tool
from runs.models import Approval, Run
from runs.queue import endings
from runs.worker import recovery
from tests import travel
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(make_agent, make_tool, stub_provider, team):
    made = make_agent(tools=[make_tool(effect="sends_out")], provider=stub_provider, timeout=300)
    made.grants.update(mode="ask")
    return lend(made, owner=made.owner, team=team)


def lend(agent, **to):
    """The agent with its tool and its provider, owned and shared so."""
    for model in (Agent, Tool, Provider):
        model.objects.update(**to)
    agent.refresh_from_db()
    return agent


@pytest.fixture
def ask(worker, alice, bob, agent, stub, functions):
    """A run of Alice's (or somebody else's) that asks under such a grant: its open question."""

    def start(by=None, **grant):
        agent.grants.update(**grant)
        stub.script(calls(("add", {"a": 1, "b": 2})), says("done"))
        run = worker.send_message(by or alice, "add", agent)
        return run.approvals.get()

    return start


def answer(api, worker, approval, **body):
    with worker.capture(execute=True):
        said = api.post(f"/api/v1/approvals/{approval.pk}", {"decision": "approve", **body})
    worker.work()
    return said.status_code


def listed(api):
    return [one["id"] for one in api.get("/api/v1/approvals/").json()["results"]]


def test_by_itself_the_person_whose_run_it_is_decides_and_nobody_else(
    ask, worker, alice_api, bob_api, charlie_api, functions
):
    approval = ask()
    assert listed(bob_api) == [] and listed(charlie_api) == []
    assert answer(bob_api, worker, approval) == 404 and answer(charlie_api, worker, approval) == 404
    assert answer(alice_api, worker, approval) == 200 and functions.asked


def test_a_team_mate_decides_where_the_grant_says_so_and_sees_it_in_the_list_and_the_inbox(
    ask, worker, bob, bob_api, charlie_api, signed_in, charlie, functions
):
    approval = ask(decides="team")
    assert listed(bob_api) == [str(approval.pk)] and listed(charlie_api) == []
    assert f"approval-{approval.pk}" in signed_in(bob).get("/approvals/").content.decode()
    assert f"approval-{approval.pk}" not in signed_in(charlie).get("/approvals/").content.decode()
    assert answer(charlie_api, worker, approval) == 404 and not functions.asked
    assert answer(bob_api, worker, approval) == 200
    assert functions.asked and Run.objects.get().status == "succeeded"
    assert Approval.objects.get().decided_by == bob


def test_a_team_mate_cannot_change_what_is_called_with_another_persons_accounts(ask, worker, bob_api, functions):
    approval = ask(decides="team")
    assert answer(bob_api, worker, approval, arguments={"a": 3, "b": 4}) == 403
    assert not functions.asked and Approval.objects.get().status == "open"


def test_who_left_the_team_decides_no_more(ask, worker, bob, bob_api):
    approval = ask(decides="team")
    Membership.objects.filter(user=bob).delete()
    assert listed(bob_api) == [] and answer(bob_api, worker, approval) == 404


@pytest.mark.parametrize("leaves", ["alice", "bob"])
def test_a_person_who_is_no_longer_with_the_owner_in_the_team_is_answered_for_no_more(
    ask, worker, alice, bob, alice_api, leaves
):
    """Neither an owner who left sees the calls of those who stayed, nor the other way round."""
    approval = ask(by=bob, decides="owner")
    assert listed(alice_api) == [str(approval.pk)]
    membership.end_membership(Membership.objects.get(user={"alice": alice, "bob": bob}[leaves]))
    assert listed(alice_api) == [] and answer(alice_api, worker, approval) == 404
    assert list(approval.deciders()) == []


def test_the_team_answers_no_more_for_who_left_it(ask, worker, alice, bob, bob_api):
    approval = ask(decides="team")
    assert bob in approval.deciders()
    membership.end_membership(Membership.objects.get(user=alice))
    assert listed(bob_api) == [] and answer(bob_api, worker, approval) == 404
    assert list(approval.deciders()) == []


def test_a_viewer_of_the_team_only_looks(ask, worker, bob, bob_api, functions):
    approval = ask(decides="team")
    Membership.objects.filter(user=bob).update(role="viewer")
    assert listed(bob_api) == [] and answer(bob_api, worker, approval) == 404 and not functions.asked


def test_the_owner_of_the_agent_decides(ask, worker, bob, alice_api, bob_api, functions):
    approval = ask(by=bob, decides="owner")
    assert answer(bob_api, worker, approval) == 403 and not functions.asked
    assert answer(alice_api, worker, approval) == 200 and functions.asked


@pytest.mark.parametrize(("role", "status"), [("author", 200), ("administrator", 404)])
def test_a_role_in_the_team_decides(ask, worker, bob_api, role, status):
    assert answer(bob_api, worker, ask(decides="role", decider_role=role)) == status


def test_not_the_one_who_asked(ask, worker, alice_api, bob_api, functions):
    approval = ask(decides="team", not_starter=True)
    assert listed(alice_api) == [str(approval.pk)]
    assert answer(alice_api, worker, approval) == 403 and not functions.asked
    assert answer(bob_api, worker, approval) == 200 and functions.asked


def test_a_stranger_that_uses_the_agent_decides_alone(ask, worker, charlie, charlie_api, alice_api, agent, functions):
    """Nobody sees the arguments of a person's call, or answers for them, outside of a team with them."""
    lend(agent, owner=None, team=None)
    approval = ask(by=charlie, decides="owner", not_starter=True)
    assert listed(alice_api) == [] and answer(alice_api, worker, approval) == 404
    assert answer(charlie_api, worker, approval) == 200


def test_a_key_without_the_scope_decides_nothing(ask, worker, api, bob, functions):
    approval = ask(decides="team")
    assert answer(api(bob, "*"), worker, approval) == 403 and not functions.asked


# -- what is shown ----------------------------------------------------------------------------------------------------


def test_the_question_shows_the_effect_and_whose_each_argument_is(ask, alice_api, alice, signed_in, functions):
    approval = ask()
    Approval.objects.update(
        findings=[
            {"path": "a", "value": "1", "source": "stranger", "origin": "the result of “read_mail”"},
            {"path": "b", "value": "2", "source": "person", "origin": ""},
        ]
    )
    shown = alice_api.get(f"/api/v1/approvals/{approval.pk}").json()
    assert (shown["effect"], shown["decides"], shown["not_starter"]) == ("sends_out", "starter", False)
    assert shown["findings"][0]["origin"] == "the result of “read_mail”"
    page = signed_in(alice).get("/approvals/").content.decode()
    assert Tool.Effect.SENDS_OUT.label in page and "the result of “read_mail”" in page
    assert "strangers’ text" in page and "your own words" in page


def test_who_may_not_decide_is_shown_the_question_without_the_buttons(ask, alice, signed_in):
    ask(decides="team", not_starter=True)
    page = signed_in(alice).get("/approvals/").content.decode()
    assert "Another user decides" in page and 'value="approve"' not in page
    assert "If nobody answers: deny" in page


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_person_has_a_day_and_the_runs_time_stands_still(ask, worker, alice_api, time_machine):
    began = timezone.now()
    time_machine.move_to(began, tick=False)
    approval = ask()
    assert approval.expires_at == began + timedelta(days=1)
    time_machine.shift(timedelta(hours=5))
    with worker.capture(execute=True):
        assert recovery.tick_recovery()["expired_runs"] == 0
    assert answer(alice_api, worker, approval) == 200
    run = Run.objects.get()
    assert run.status == "succeeded" and run.paused_until is None
    assert run.deadline == began + timedelta(hours=5, seconds=300)


def test_the_time_of_the_runs_above_stands_still_too(
    ask, worker, alice, make_agent, make_chain, run_chain, stub, functions, alice_api, time_machine, agent
):
    began = timezone.now()
    time_machine.move_to(began, tick=False)
    stub.script(calls(("add", {"a": 1, "b": 2})), says("done"))
    chain = make_chain({"key": "ask", "agent": "helper", "input": {"message": {"value": "add"}}}, timeout=600)
    run = run_chain(chain)
    time_machine.shift(timedelta(hours=5))
    with worker.capture(execute=True):
        assert recovery.tick_recovery()["expired_runs"] == 0
    worker.work()
    assert answer(alice_api, worker, Approval.objects.get()) == 200
    run.refresh_from_db()
    assert run.status == "succeeded", run.error
    assert run.deadline == began + timedelta(hours=5, seconds=600)


def test_a_run_that_is_stopped_while_it_asks_gives_the_time_back(ask, alice, time_machine, make_chain, run_chain, stub):
    began = timezone.now()
    time_machine.move_to(began, tick=False)
    approval = ask()
    endings.cancel_run(approval.run, by=alice)
    run = Run.objects.get()
    assert run.status == "cancelled" and run.paused_until is None


def test_nobody_answers_for_a_day(ask, worker, time_machine, functions):
    began = timezone.now()
    time_machine.move_to(began, tick=False)
    ask()
    with travel.later(24 * 3600 + 1):
        with worker.capture(execute=True):
            recovery.tick_recovery()
        worker.work()
    run = Run.objects.get()
    assert Approval.objects.get().status == "expired" and not functions.asked
    assert run.status == "succeeded", run.error


def test_several_are_decided_at_once_and_a_refusal_does_not_stop_the_others(ask, alice, signed_in, worker, stub):
    asked = []
    for grant in ({}, {}, {"decides": "team", "not_starter": True}):
        stub.turns.clear()
        asked.append(ask(**grant))
    own, other, forbidden = asked
    browser = signed_in(alice)
    page = browser.get("/approvals/").content.decode()
    assert page.count('name="chosen"') == 2 and "members of" in page
    assert browser.get("/approvals/count").json() == {"open": 3}
    body = {"chosen": [str(one.pk) for one in (own, other, forbidden)], "decision": "deny", "note": "not today"}
    with worker.capture(execute=True):
        assert browser.post("/approvals/decide", body).status_code == 302
    states = [Approval.objects.get(pk=one.pk) for one in (own, other, forbidden)]
    assert [(one.status, one.note) for one in states] == [("denied", "not today")] * 2 + [("open", "")]


def test_a_stranger_decides_none_of_several(ask, charlie, signed_in):
    approval = ask()
    browser = signed_in(charlie)
    browser.post("/approvals/decide", {"chosen": [str(approval.pk), "no id"], "decision": "approve"})
    approval.refresh_from_db()
    assert approval.status == "open"
    assert browser.get("/approvals/count").json() == {"open": 0}


def test_each_person_is_told_whether_they_may_decide(ask, alice_api, bob_api):
    approval = ask(decides="team", not_starter=True)
    path = f"/api/v1/approvals/{approval.pk}"
    assert [api.get(path).json()["may_decide"] for api in (alice_api, bob_api)] == [False, True]
    assert [one["may_decide"] for one in bob_api.get("/api/v1/approvals/").json()["results"]] == [True]
