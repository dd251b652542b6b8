"""The router chooses among names as every other request does."""

from typing import Any

import pytest

from agents.models import Agent, Membership, Team
from registry.routing.profiles import list_profiles

pytestmark = pytest.mark.django_db


def test_two_teams_agents_of_one_name_are_not_chosen_between(
    alice: Any, bob: Any, charlie: Any, team: Team, offline: Any
) -> None:
    other = Team.objects.create(name="second")
    Membership.objects.bulk_create(Membership(team=other, user=person) for person in (bob, charlie))
    for owner, where in ((alice, team), (charlie, other)):
        row = Agent.objects.create(name="helper", owner=owner, team=where, provider=offline, capabilities=["mail"])
        row.publish(author=owner)
    assert [profile.name for profile in list_profiles(charlie)] == ["helper"]
    assert list_profiles(bob) == []
    mine = Agent.objects.create(name="helper", owner=bob, provider=offline)
    mine.publish(author=bob)
    assert [profile.id for profile in list_profiles(bob)] == [mine.pk]
