"""Shared connections: a member who does not own one only uses it."""

from typing import Any

import pytest

from agents.exceptions import Invalid
from agents.models import Membership, Secret, Team
from agents.tools import RetryTool
from connectors.models import Connection
from connectors.remote import bound_secret
from connectors.tools import choose_user_connection

pytestmark = pytest.mark.django_db


@pytest.fixture
def shared(alice: Any, team: Team) -> Connection:
    """Alice's HTTP server, which names a secret that Bob does not have."""
    return Connection.objects.create(
        name="weather", owner=alice, team=team, provider="mcp", base_url="https://mcp.example.com/",
        secret_name="weather", health=Connection.Health.OK,
    )  # fmt: skip


@pytest.mark.parametrize("role", Membership.Role.values)
def test_a_member_s_look_at_the_health_of_a_connection_changes_nothing(
    api: Any, bob: Any, shared: Connection, role: str
) -> None:
    Membership.objects.filter(user=bob).update(role=role)
    answer = api(bob, "connections:read").get(f"/api/v1/connections/{shared.pk}/health")
    assert (answer.status_code, answer.json()["health"]) == (200, "ok")
    shared.refresh_from_db()
    assert (shared.health, shared.last_error) == ("ok", "")


def second_team(*people: Any) -> Team:
    made = Team.objects.create(name="second")
    Membership.objects.bulk_create(Membership(team=made, user=person) for person in people)
    return made


def test_two_teams_secrets_of_one_name_stand_for_neither(alice: Any, bob: Any, charlie: Any, team: Team) -> None:
    other = second_team(bob, charlie)
    for owner, where in ((alice, team), (charlie, other)):
        Secret.objects.create(name="tok", owner=owner, team=where, value="x", hosts=["a.example"])
    mine = Connection.objects.create(
        name="a", owner=bob, provider="mcp", base_url="https://a.example/", secret_name="tok"
    )
    with pytest.raises(Invalid) as refused:
        bound_secret(mine, bob.pk, "a.example")
    assert refused.value.code == "ambiguous_name"


def test_two_shared_accounts_are_not_chosen_between_in_silence(alice: Any, bob: Any, charlie: Any, team: Team) -> None:
    other = second_team(bob, charlie)
    for name, owner, where in (("first", alice, team), ("second", charlie, other)):
        Connection.objects.create(name=name, owner=owner, team=where, provider="gmail", access_token="x")
    with pytest.raises(RetryTool):
        choose_user_connection(bob.pk, "gmail", "")
    assert choose_user_connection(bob.pk, "gmail", "second").owner == charlie
