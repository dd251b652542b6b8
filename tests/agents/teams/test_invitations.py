"""Nobody is made a member: a team invites, a person accepts, and leaves at any time."""

import pytest
from django.core import mail

from agents.exceptions import Invalid
from agents.models import Agent, Invitation, Membership, Preference, Provider, Team
from gateway.python import Registry

V1 = "/api/v1"
HELPER = {"name": "helper", "provider": "offline", "team": "alice-and-bob"}


def roles(name):
    return {member.user.username: member.role for member in Team.objects.get(name=name).memberships.all()}


def invite(api, user, role="author", team="alice-and-bob"):
    return api.post(f"{V1}/teams/{team}/invitations/", {"user": user, "role": role})


def test_who_names_a_stranger_in_a_new_team_does_not_make_her_a_member(alice, charlie_api):
    members = [{"user": "charlie", "role": "administrator"}, {"user": "alice"}]
    made = charlie_api.post(f"{V1}/teams/", {"name": "trap", "members": members})
    assert (made.status_code, made.json()["error"]["code"]) == (422, "not_a_member")
    assert not Team.objects.filter(name="trap").exists()


@pytest.mark.parametrize("verb", ["patch", "put"])
def test_nor_does_who_changes_the_list_of_members(alice_api, charlie, team, verb):
    members = [{"user": "alice", "role": "administrator"}, {"user": "charlie"}]
    body = {"name": "alice-and-bob", "members": members}
    answer = getattr(alice_api, verb)(f"{V1}/teams/alice-and-bob", body, "application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "not_a_member")
    assert roles("alice-and-bob") == {"alice": "administrator"}


def test_an_invitation_makes_a_member_only_when_its_person_accepts(alice_api, charlie_api, team):
    made = invite(alice_api, "charlie", "viewer")
    assert (made.status_code, made.json()["status"], made.json()["invited_by"]) == (201, "open", "alice")
    assert charlie_api.get(f"{V1}/teams/alice-and-bob").status_code == 404
    (asked,) = charlie_api.get(f"{V1}/invitations/?status=open").json()["results"]
    assert (asked["team"], asked["role"]) == ("alice-and-bob", "viewer")
    accepted = charlie_api.post(f"{V1}/invitations/{asked['id']}/accept")
    assert (accepted.status_code, accepted.json()["status"]) == (200, "accepted")
    assert roles("alice-and-bob") == {"alice": "administrator", "charlie": "viewer"}
    again = charlie_api.post(f"{V1}/invitations/{asked['id']}/accept")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "invitation_closed")


def test_who_declines_is_no_member_and_cannot_accept_later(alice_api, charlie_api, team):
    number = invite(alice_api, "charlie").json()["id"]
    assert charlie_api.post(f"{V1}/invitations/{number}/decline").json()["status"] == "declined"
    assert charlie_api.post(f"{V1}/invitations/{number}/accept").status_code == 409
    assert roles("alice-and-bob") == {"alice": "administrator"}


def test_nobody_joins_by_an_invitation_of_a_deactivated_account(alice, alice_api, charlie, charlie_api, team):
    number = invite(alice_api, "charlie", "administrator").json()["id"]
    alice.is_active = False
    alice.save()
    accepted = charlie_api.post(f"{V1}/invitations/{number}/accept")
    assert (accepted.status_code, accepted.json()["error"]["code"]) == (409, "invitation_closed")
    assert roles("alice-and-bob") == {"alice": "administrator"}
    assert charlie_api.post(f"{V1}/invitations/{number}/decline").status_code == 200


def test_an_invitation_is_nobody_else_s_to_see_or_accept(alice_api, bob, bob_api, charlie, team):
    number = invite(alice_api, "charlie", "administrator").json()["id"]
    for path in (f"{V1}/invitations/{number}/accept", f"{V1}/invitations/{number}/decline"):
        assert bob_api.post(path).status_code == 404
        assert alice_api.post(path).status_code == 404
    assert bob_api.get(f"{V1}/invitations/{number}").status_code == 404
    assert roles("alice-and-bob") == {"alice": "administrator", "bob": "author"}


def test_only_an_administrator_invites_and_withdraws(alice_api, bob, bob_api, charlie, charlie_api, team):
    assert invite(bob_api, "charlie").status_code == 403
    assert bob_api.get(f"{V1}/teams/alice-and-bob/invitations/").status_code == 403
    assert invite(charlie_api, "charlie").status_code == 404
    number = invite(alice_api, "charlie").json()["id"]
    assert bob_api.delete(f"{V1}/teams/alice-and-bob/invitations/{number}").status_code == 403
    assert alice_api.delete(f"{V1}/teams/alice-and-bob/invitations/{number}").status_code == 204
    assert charlie_api.post(f"{V1}/invitations/{number}/accept").status_code == 409


def test_what_a_removed_administrator_offered_is_void(alice_api, bob, api, charlie, charlie_api, team):
    Membership.objects.filter(user=bob).update(role="administrator")
    number = invite(api(bob), "charlie", "administrator").json()["id"]
    left = [{"user": "alice", "role": "administrator"}]
    assert alice_api.patch(f"{V1}/teams/alice-and-bob", {"members": left}, "application/json").status_code == 200
    assert charlie_api.post(f"{V1}/invitations/{number}/accept").status_code == 409
    assert roles("alice-and-bob") == {"alice": "administrator"}


@pytest.mark.parametrize("name", ["charl", "charlie@example.org", "harlie", ""])
def test_people_are_found_by_their_whole_name_only(alice_api, charlie, team, name):
    assert invite(alice_api, name).status_code == 422
    assert not Invitation.objects.exists()


def test_a_second_invitation_and_one_of_a_member_are_conflicts(alice_api, bob, charlie, team):
    assert invite(alice_api, "bob").json()["error"]["code"] == "is_member"
    assert invite(alice_api, "charlie").status_code == 201
    assert invite(alice_api, "charlie").json()["error"]["code"] == "invited_already"


@pytest.mark.parametrize("role", ["viewer", "author", "administrator"])
def test_a_member_leaves_at_any_time_with_what_she_shared(alice, bob, bob_api, alice_api, team, offline, role):
    Agent.objects.create(name="helper", owner=bob, team=team, provider=offline)
    Membership.objects.filter(user=bob).update(role=role)
    assert bob_api.post(f"{V1}/teams/alice-and-bob/leave").status_code == 204
    assert bob_api.get(f"{V1}/teams/alice-and-bob").status_code == 404
    assert alice_api.get(f"{V1}/agents/helper").status_code == 404
    assert bob_api.get(f"{V1}/agents/helper").json()["team"] is None


def test_the_only_administrator_stays_and_nobody_is_promoted(alice, alice_api, bob, team):
    assert alice_api.post(f"{V1}/teams/alice-and-bob/leave").status_code == 409
    assert roles("alice-and-bob") == {"alice": "administrator", "bob": "author"}


def test_a_stranger_has_nothing_to_leave(charlie_api, team):
    assert charlie_api.post(f"{V1}/teams/alice-and-bob/leave").status_code == 404


def test_who_is_removed_shares_nothing_any_more(alice_api, bob, team, offline):
    Agent.objects.create(name="helper", owner=bob, team=team, provider=offline)
    left = [{"user": "alice", "role": "administrator"}]
    alice_api.patch(f"{V1}/teams/alice-and-bob", {"members": left}, "application/json")
    assert Agent.objects.get(name="helper").team is None


def test_the_site_s_name_stands_before_a_team_s(alice, bob, bob_api, api, team, offline):
    Agent.objects.create(name="starter", owner=None, provider=offline)
    Agent.objects.create(name="starter", owner=alice, team=team, provider=offline)  # as if the site's had come later
    assert bob_api.get(f"{V1}/agents/starter").json()["owner"] is None


def test_one_s_own_stands_before_the_site_s(alice_api, alice, offline):
    Agent.objects.create(name="starter", owner=None, provider=offline)
    Agent.objects.create(name="starter", owner=alice, provider=offline)
    assert alice_api.get(f"{V1}/agents/starter").json()["owner"] == "alice"


def test_a_name_of_the_site_cannot_be_shared_with_a_team(bob_api, bob, offline):
    Agent.objects.create(name="helper", owner=None, provider=offline)
    answer = bob_api.post(f"{V1}/agents/", HELPER)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "name_taken")
    assert bob_api.post(f"{V1}/agents/", {**HELPER, "team": None}).status_code == 201
    moved = bob_api.patch(f"{V1}/agents/helper", {"team": "alice-and-bob"}, "application/json")
    assert (moved.status_code, moved.json()["error"]["code"]) == (409, "name_taken")


def test_a_name_that_a_member_shares_cannot_be_shared_again(alice_api, bob_api, offline, team):
    assert alice_api.post(f"{V1}/agents/", HELPER).status_code == 201
    assert bob_api.post(f"{V1}/agents/", HELPER).json()["error"]["code"] == "name_taken"
    bob_api.post(f"{V1}/agents/", {**HELPER, "name": "mine"})
    renamed = bob_api.patch(f"{V1}/agents/mine", {"name": "helper"}, "application/json")
    assert (renamed.status_code, renamed.json()["error"]["code"]) == (409, "name_taken")


def test_an_agent_cannot_take_the_name_of_another_member_s_function(alice_api, bob_api, offline, team):
    body = {"name": "helper", "source": "def helper() -> int:\n    return 1\n", "team": "alice-and-bob"}
    assert alice_api.post(f"{V1}/functions/", body).status_code == 201
    assert alice_api.post(f"{V1}/functions/helper/publish").status_code == 200
    assert bob_api.post(f"{V1}/agents/", HELPER).json()["error"]["code"] == "name_taken"


def test_what_two_teams_call_alike_means_neither(alice, bob, bob_api, charlie, team, offline):
    other = Team.objects.create(name="other")
    Membership.objects.create(team=other, user=bob)
    Agent.objects.create(name="helper", owner=alice, team=team, provider=offline)
    Agent.objects.create(name="helper", owner=charlie, team=other, provider=offline)
    for answer in (
        bob_api.get(f"{V1}/agents/helper"),
        bob_api.post(f"{V1}/agents/helper/messages", {"message": "hello"}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "ambiguous_name")


def test_a_viewer_and_an_operator_share_nothing_with_the_team(bob, bob_api, team, offline):
    for role in ("viewer", "operator"):
        Membership.objects.filter(user=bob).update(role=role)
        answer = bob_api.post(f"{V1}/agents/", HELPER)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "role")
    assert not Agent.objects.exists()


def test_a_team_s_provider_does_not_take_the_place_of_the_site_s(alice, bob, bob_api, team, offline):
    Provider.objects.create(name="offline", owner=alice, team=team, kind="openai", base_url="https://evil.example.com")
    made = bob_api.post(f"{V1}/agents/", {"name": "mine", "provider": "offline"})
    assert made.status_code == 201
    assert Agent.objects.get(name="mine").provider == offline


def test_a_definition_shares_with_no_team_of_strangers(charlie, team, offline, bob):
    body = {"name": "helper", "provider": "offline", "team": "alice-and-bob"}
    with pytest.raises(Invalid, match="There is no team"):
        Registry(charlie).register_agent(body)
    assert not Agent.objects.filter(team=team).exists()
    assert Registry(bob).register_agent(body).team == team


def test_an_invited_person_gets_a_mail_in_their_language(
    alice_api, charlie, team, settings, django_capture_on_commit_callbacks
):
    settings.EMAIL_IS_ON = True
    settings.PUBLIC_URL = "https://muster.example.org"
    Preference.objects.create(user=charlie, language="de")
    with django_capture_on_commit_callbacks(execute=True):
        assert invite(alice_api, "charlie", "viewer").status_code == 201
    (message,) = mail.outbox
    assert message.to == ["charlie@example.org"] and "alice-and-bob" in message.subject
    assert "https://muster.example.org/teams/" in message.body and "Öffnen Sie diese Seite" in message.body


@pytest.mark.parametrize("why", ["no server", "no address", "switched off"])
def test_who_wants_no_mail_or_has_no_address_gets_none(
    alice_api, charlie, team, settings, django_capture_on_commit_callbacks, why
):
    settings.EMAIL_IS_ON = why != "no server"
    if why == "no address":
        type(charlie).objects.filter(pk=charlie.pk).update(email="")
    Preference.objects.create(user=charlie, email_notices=why != "switched off")
    with django_capture_on_commit_callbacks(execute=True):
        assert invite(alice_api, "charlie", "viewer").status_code == 201
    assert mail.outbox == []


def test_a_mail_server_that_is_away_stops_no_invitation(
    alice_api, charlie, team, settings, django_capture_on_commit_callbacks
):
    settings.EMAIL_IS_ON = True
    settings.EMAIL_BACKEND = "tests.runs.worker.notices.test_notices.Broken"
    with django_capture_on_commit_callbacks(execute=True):
        assert invite(alice_api, "charlie", "viewer").status_code == 201
    assert Invitation.objects.open().count() == 1
