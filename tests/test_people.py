"""The people of the tests are who they say they are."""

from agents.models import ApiKey, Team


def test_each_person_has_a_key_that_is_known(alice, api):
    client = api(alice, "runs:read")

    assert ApiKey.find(client.secret).user == alice
    assert ApiKey.find(client.secret).scopes == ["runs:read"]


def test_bob_is_in_alices_team_and_charlie_is_not(alice, bob, charlie):
    team = Team.objects.get()

    assert {alice, bob} == set(team.members.all())
    assert not charlie.teams.exists()
