"""What keeps a shared row from being deleted is named only to those who can see it."""

import pytest

from agents.models import Agent, Membership, Provider, Team

V1 = "/api/v1"


@pytest.fixture
def shared(alice, bob):
    team = Team.objects.create(name="crew")
    Membership.objects.create(team=team, user=alice, role="administrator")
    Membership.objects.create(team=team, user=bob, role="author")
    provider = Provider.objects.create(name="mine", kind="offline", owner=alice, team=team)
    Agent.objects.create(name="bobs-secret-project", provider=provider, owner=bob)
    return provider


def test_a_private_agent_of_a_team_mate_is_counted_and_not_named(shared, alice_api):
    answer = alice_api.delete(f"{V1}/providers/mine")

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "in_use")
    assert answer.json()["error"]["hint"] == "Used by: 1 that you cannot see."
