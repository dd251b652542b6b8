"""One person has one name (docs/security.md, "People"): it is compared, limited and stored in one normal form, and nobody
takes a name that looks like another person's.
"""

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import IntegrityError, transaction

from agents.models import Membership, User

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
JSON = {"content_type": "application/json"}
SPELLINGS = ["bob", "Bob", "BOB", " bob ", "ｂｏｂ", "bob\u3000", "ｂob"]
# Cyrillic, Greek, without a dot, a zero for the o, a one for the l, and letters that do not show
LOOKS = ["аlісе", "аlice", "αlice", "alıce", "a1ice", "al\u200bice", "alice\u2060", "ALІCE", "alic\u00ade", "ａ1ｉｃｅ"]


@pytest.mark.parametrize("look", LOOKS)
def test_a_name_that_looks_like_another_is_refused_by_every_door(alice, client, look):
    with pytest.raises(ValidationError):
        User(username=look, password="x").full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create_user(look)
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.bulk_create([User(username=look)])
    with pytest.raises(CommandError):
        call_command("create_key", look)
    client.force_login(User.objects.create_superuser("root", password="x"))
    words = {"username": look, "usable_password": "true", "password1": "long enough 1", "password2": "long enough 1"}
    assert client.post("/admin/agents/user/add/", words).status_code == 200
    assert set(User.objects.values_list("username", flat=True)) == {"alice", "root"}


def test_a_renamed_person_cannot_look_like_another(alice, bob):
    bob.username = "аlісе"
    with pytest.raises(IntegrityError), transaction.atomic():
        bob.save(update_fields=["username"])


@pytest.mark.parametrize("look", LOOKS)
def test_nobody_signs_in_by_a_name_that_only_looks_like_theirs(alice, client, settings, look):
    settings.LOGIN_TRIES = 0  # so that other tests of this minute can sign in
    answer = client.post("/login/", {"username": look, "password": "correct horse battery"})
    assert answer.status_code == 200 and "_auth_user_id" not in client.session


@pytest.mark.parametrize("name", ["rené", "rene", "müller", "muller", "anna", "anne", "ян", "Ζωή", "李雷"])
def test_names_that_do_not_look_alike_live_side_by_side(db, name):
    for other in ("renee", "mueller", "ann", "яна", "李"):
        User.objects.create_user(other)
    person = User(username=name, password="x")
    person.full_clean()
    person.save()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_door_takes_a_name_in_any_spelling(alice, alice_api, bob, bob_api, team, agent, signed_in, spelling):
    again = alice_api.post(f"{V1}/teams/{team.name}/invitations/", {"user": spelling})
    assert again.json()["error"]["code"] == "is_member"
    members = [{"user": "ALICE", "role": "administrator"}, {"user": spelling, "role": "viewer"}]
    assert alice_api.patch(f"{V1}/teams/{team.name}", {"members": members}, **JSON).status_code == 200
    assert Membership.objects.get(user=bob).role == "viewer" and Membership.objects.count() == 2
    signed_in(alice).post(f"/teams/{team.name}/members", {"username": spelling, "role": "operator"})
    assert Membership.objects.get(user=bob).role == "operator"
    agent.owner, agent.team = bob, team
    agent.save()
    assert alice_api.get(f"{V1}/agents/librarian", {"owner": spelling}).json()["owner"] == "bob"
    searched = {"metadata": {"owner": spelling}}
    agent.publish()
    assert len(alice_api.post("/langgraph/assistants/search", searched).json()) == 1


def test_two_spellings_of_one_member_are_one(alice, alice_api, bob, team):
    members = [{"user": "alice", "role": "administrator"}, {"user": "ALICE", "role": "viewer"}, {"user": "bob"}]
    assert alice_api.patch(f"{V1}/teams/{team.name}", {"members": members}, **JSON).status_code == 422
    assert Membership.objects.get(user=alice).role == "administrator"
