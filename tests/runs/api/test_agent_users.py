"""What uses an agent or a chain: only rows that the person can see."""

import pytest

from agents.models import Agent, Chain, ChainStep, ToolGrant
from runs.models import Schedule

pytestmark = pytest.mark.django_db
USED_BY = "/api/v1/agents/librarian/used-by"


@pytest.fixture
def used(agent, alice, alice_api):
    alice_api.post("/api/v1/agents/librarian/publish").json()
    boss = Agent.objects.create(name="boss", owner=alice, provider=agent.provider)
    tool = alice_api.get("/api/v1/tools/librarian").json()
    assert tool["kind"] == "agent"
    alice_api.put("/api/v1/agents/boss/grants/", [{"tool": "librarian"}], "application/json")
    chain = Chain.objects.create(name="digest", owner=alice)
    ChainStep.objects.create(chain=chain, key="find", target_kind="agent", target="librarian")
    Schedule.objects.create(name="nightly", owner=alice, agent=agent, text="Hi")
    assert ToolGrant.objects.filter(agent=boss).count() == 1
    return agent


def test_grants_steps_and_schedules_are_listed(used, alice_api):
    assert alice_api.get(USED_BY).json()["results"] == [
        {"kind": "agent", "name": "boss"},
        {"kind": "step", "name": "digest/find"},
        {"kind": "schedule", "name": "nightly"},
    ]


def test_a_team_mate_sees_only_what_is_shared(used, team, bob_api):
    Agent.objects.filter(name="librarian").update(team=team)
    assert bob_api.get(USED_BY).json()["results"] == []
    Chain.objects.update(team=team)
    assert bob_api.get(USED_BY).json()["results"] == [{"kind": "step", "name": "digest/find"}]


def test_a_stranger_finds_nothing(used, charlie_api):
    assert charlie_api.get(USED_BY).status_code == 404


def test_a_step_of_somebody_else_that_means_another_agent_is_not_listed(used, bob, bob_api, offline, alice_api):
    Agent.objects.create(name="librarian", owner=bob, provider=offline)
    chain = Chain.objects.create(name="own", owner=bob)
    ChainStep.objects.create(chain=chain, key="find", target_kind="agent", target="librarian")
    assert bob_api.get(USED_BY).json()["results"] == [{"kind": "step", "name": "own/find"}]
    assert len(alice_api.get(USED_BY).json()["results"]) == 3


def test_the_number_of_queries_does_not_grow(used, alice, alice_api, django_assert_max_num_queries):
    for number in range(20):
        chain = Chain.objects.create(name=f"chain-{number}", owner=alice)
        ChainStep.objects.create(chain=chain, key="find", target_kind="agent", target="librarian")
    with django_assert_max_num_queries(10):
        assert len(alice_api.get(USED_BY).json()["results"]) == 23


def test_a_chain_is_used_by_steps_and_schedules(alice, alice_api, charlie_api, bob_api, team):
    chain = Chain.objects.create(name="inner", owner=alice)
    outer = Chain.objects.create(name="outer", owner=alice)
    ChainStep.objects.create(chain=outer, key="run", target_kind="chain", target="inner")
    Schedule.objects.create(name="weekly", owner=alice, chain=chain)
    used_by = "/api/v1/chains/inner/used-by"
    assert alice_api.get(used_by).json()["results"] == [
        {"kind": "step", "name": "outer/run"},
        {"kind": "schedule", "name": "weekly"},
    ]
    assert charlie_api.get(used_by).status_code == 404
    Chain.objects.filter(pk=chain.pk).update(team=team)
    assert bob_api.get(used_by).json()["results"] == []
