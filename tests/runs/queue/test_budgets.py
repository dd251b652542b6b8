"""Budgets: whom each limits, over what time, in what, and that nobody limits others with them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Agent
from runs.models import Budget, Run
from runs.queue import budgets
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def noon(time_machine):
    """No day and no month ends while a test looks."""
    time_machine.move_to(timezone.now().replace(hour=12))


@pytest.fixture
def agent(make_agent, stub_provider):
    return make_agent(provider=stub_provider)


@pytest.fixture
def of_site(agent):
    """Everybody's agent and provider."""
    agent.provider.owner = agent.owner = None
    agent.provider.save()
    agent.save()
    return Agent.objects.get(pk=agent.pk)


@pytest.fixture
def ended(worker, agent, stub):
    """How a message of this person's ends: "" where it succeeds, else the code of its error."""

    def ended(person, agent=agent):
        stub.turns[:] = [says("hi")]
        run = worker.send_message(person, "Hello", Agent.objects.get(pk=agent.pk))
        return "" if run.status == "succeeded" else run.error["code"]

    return ended


@pytest.mark.parametrize("limit", [{"max_tokens": 60}, {"max_cost": "0.0006"}, {"max_runs": 1}])
@pytest.mark.parametrize("period", ["day", "month"])
def test_each_limit_holds_in_each_period(alice, agent, ended, stub_provider, limit, period):
    stub_provider.prices = {"*": {"input": 10, "output": 10}}
    stub_provider.save()
    Budget.objects.create(user=alice, period=period, **limit)
    assert [ended(alice), ended(alice)] == ["", "budget_exhausted"]


@pytest.mark.parametrize(("period", "days"), [("day", 1), ("month", 31)])
def test_a_new_period_begins_anew(alice, ended, period, days, time_machine):
    Budget.objects.create(user=alice, period=period, max_runs=1)
    assert ended(alice) == ""
    time_machine.shift(timedelta(days=days))
    assert ended(alice) == ""


def test_a_disabled_budget_limits_nobody(alice, ended):
    Budget.objects.create(user=alice, max_runs=0, enabled=False)
    assert ended(alice) == ""


def test_a_team_s_budget_limits_runs_of_its_agents_and_nothing_else_of_its_members(
    alice, bob, team, of_site, ended, make_agent, stub_provider
):
    Budget.objects.create(team=team, period="day", max_runs=1)
    shared = make_agent("ours", provider=stub_provider)
    Agent.objects.filter(pk=shared.pk).update(team=team)
    shared.refresh_from_db()
    assert [ended(alice, shared), ended(bob, shared)] == ["", "budget_exhausted"]
    assert [ended(alice), ended(bob), ended(bob)] == ["", "", ""]


def test_an_agent_s_budget_is_used_by_whoever_runs_it(alice, charlie, of_site, ended, make_agent, stub_provider):
    Budget.objects.create(agent=of_site, period="day", max_runs=1)
    other = make_agent("other", provider=stub_provider)
    assert [ended(alice), ended(charlie), ended(alice, other)] == ["", "budget_exhausted", ""]


def test_one_s_own_limit_on_an_agent_limits_neither_others_nor_other_agents(
    charlie_api, alice, charlie, of_site, ended, make_agent, stub_provider
):
    made = charlie_api.post("/api/v1/budgets/", {"agent": "helper", "period": "day", "max_runs": 0})
    assert made.status_code == 201 and made.json()["user"] == "charlie"
    other = make_agent("other", provider=stub_provider)
    Agent.objects.filter(pk=other.pk).update(owner=None)
    assert [ended(alice), ended(charlie), ended(charlie, other)] == ["", "budget_exhausted", ""]


def test_a_team_s_limit_does_not_reach_an_agent_of_the_site(api, alice, bob, charlie, team, of_site, ended):
    body = {"agent": "helper", "team": team.name, "period": "day", "max_runs": 0}
    assert api(alice).post("/api/v1/budgets/", body).status_code == 201
    assert [ended(bob), ended(charlie)] == ["", ""]


def test_a_limit_for_everyone_is_not_turned_upon_an_agent_of_others(alice_api, alice, charlie, make_agent, of_site):
    make_agent("mine")
    made = alice_api.post("/api/v1/budgets/", {"agent": "mine", "max_runs": 5}).json()
    assert made["user"] is None
    path = f"/api/v1/budgets/{made['id']}"
    changed = alice_api.patch(path, {"agent": "helper"}, "application/json").json()
    assert (changed["agent"], changed["user"]) == ("helper", "alice")


def test_only_a_team_s_administrator_sets_its_budget(bob_api, charlie_api, team):
    body = {"team": team.name, "max_runs": 1}
    assert bob_api.post("/api/v1/budgets/", body).status_code == 403
    assert charlie_api.post("/api/v1/budgets/", body).status_code == 422


def test_a_child_run_draws_on_the_budget_of_its_root(worker, alice, make_agent, make_tool, stub_provider, stub):
    minion = make_agent("minion", provider=stub_provider, model_params={"max_tokens": 1000})
    tool = make_tool("ask-minion", kind="agent", source={"agent": minion.pk}, input_schema={"type": "object"})
    boss = make_agent("boss", tools=[tool], provider=stub_provider)
    Budget.objects.create(agent=boss, period="run", max_tokens=900)
    stub.script(calls(("ask-minion", {"task": "count"})), says("never said"), says("never said"))
    run = worker.send_message(alice, "count", boss)
    assert run.children.get().error["code"] == "budget_exhausted"
    assert (run.status, len(stub.requests)) == ("succeeded", 2)  # its root, which needs less, goes on


def test_a_run_s_budget_is_its_own(alice, ended):
    Budget.objects.create(user=alice, period="run", max_tokens=60)
    assert [ended(alice), ended(alice)] == ["", ""]


def test_the_reason_names_the_budget_and_what_is_used(alice, ended):
    Budget.objects.create(user=alice, period="day", max_tokens=60)
    ended(alice), ended(alice)
    assert (
        Run.objects.latest("id").error["message"]
        == "alice per day: 18 of 60 tokens are used, too many for another call"
    )


def test_what_covers_a_run_is_read_in_one_statement(alice, agent, django_assert_num_queries):
    run = Run.objects.create(principal=alice, agent=agent)
    with django_assert_num_queries(1):
        budgets.covering(run)
