"""Roles and permissions of the admin are no way up, and no list of people."""

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission

from agents.models import Agent, Invitation, Membership, Secret, Team, Tool
from agents.roles import make_roles
from runs.models import Budget
from tests.functions.library import publish


@pytest.fixture
def in_role(signed_in):
    """A browser of somebody who is staff in this role."""

    def make(user, role):
        make_roles()
        user.is_staff = True
        user.save()
        user.groups.set([Group.objects.get(name=role)])
        return signed_in(user)

    return make


ROLES = ["viewer", "operator", "author", "administrator"]
PEOPLE = "/admin/agents/user/"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("path", [PEOPLE, "/admin/auth/group/", "/admin/django_celery_beat/periodictask/"])
def test_no_role_lists_people_roles_or_tasks(in_role, bob, charlie, role, path):
    answer = in_role(bob, role).get(path)
    assert answer.status_code in (403, 404)


@pytest.mark.parametrize("role", ROLES)
def test_no_role_finds_people_by_a_part_of_their_name(in_role, bob, charlie, role):
    query = {"term": "charl", "app_label": "agents", "model_name": "membership", "field_name": "user"}
    answer = in_role(bob, role).get("/admin/autocomplete/", query)
    assert "charlie" not in answer.content.decode()
    for path in ("/admin/agents/apikey/add/", "/admin/agents/team/add/", "/admin/runs/budget/add/"):
        assert "charlie" not in in_role(bob, role).get(path).content.decode()


@pytest.mark.parametrize("role", ROLES)
def test_no_role_makes_itself_a_superuser(in_role, bob, role):
    browser = in_role(bob, role)
    data = {"username": "bob", "is_active": "on", "is_staff": "on", "is_superuser": "on"}
    assert browser.post(f"{PEOPLE}{bob.pk}/change/", data).status_code == 403
    assert browser.post(f"{PEOPLE}{bob.pk}/password/", {"password1": "x", "password2": "x"}).status_code == 403
    assert not get_user_model().objects.get(pk=bob.pk).is_superuser


def test_nor_does_every_permission_there_is(staff, signed_in, bob, site_admin):
    browser = signed_in(staff(bob))
    answers = [
        browser.post(f"{PEOPLE}{bob.pk}/change/", {"username": "bob", "is_superuser": "on"}),
        browser.post(f"{PEOPLE}{site_admin.pk}/password/", {"password1": "new-pass-1", "password2": "new-pass-1"}),
        browser.post(f"{PEOPLE}add/", {"username": "evil", "password1": "new-pass-1", "password2": "new-pass-1"}),
        browser.post("/admin/auth/group/add/", {"name": "all", "permissions": [1, 2, 3]}),
    ]
    assert {answer.status_code for answer in answers} == {403}
    site_admin.refresh_from_db()
    assert site_admin.check_password("correct horse battery")


def test_the_roles_take_back_what_they_once_gave(db):
    make_roles()
    group = Group.objects.get(name="administrator")
    group.permissions.add(Permission.objects.get(codename="change_user"))
    make_roles()
    assert not group.permissions.filter(content_type__app_label="auth").exists()


def test_a_team_mate_only_looks_at_what_is_shared(staff, signed_in, alice, bob, team, offline):
    rows = [
        Agent.objects.create(name="helper", owner=alice, team=team, provider=offline),
        Secret.objects.create(name="token", owner=alice, team=team, value="s3cret", hosts=["api.example.com"]),
        Tool.objects.create(name="lookup", kind="function", owner=alice, team=team),
    ]
    browser = signed_in(staff(bob))
    for row in rows:
        path = f"/admin/agents/{row._meta.model_name}/{row.pk}"
        assert browser.get(f"{path}/change/").status_code == 200
        assert browser.post(f"{path}/change/", {"name": "mine", "hosts": "evil.example"}).status_code == 403
        assert browser.post(f"{path}/delete/", {"post": "yes"}).status_code == 403


def test_the_admin_makes_nobody_a_member(signed_in, site_admin, team, charlie):
    browser = signed_in(site_admin)
    data = {"name": team.name, "memberships-TOTAL_FORMS": 1, "memberships-INITIAL_FORMS": 0,
            "memberships-0-user": charlie.pk, "memberships-0-role": "author",
            "invitations-TOTAL_FORMS": 1, "invitations-INITIAL_FORMS": 0,
            "invitations-0-person": "charlie", "invitations-0-role": "author"}  # fmt: skip
    answer = browser.post(f"/admin/agents/team/{team.pk}/change/", data)
    assert answer.status_code == 302, answer.content.decode()[:2000]
    assert not Membership.objects.filter(user=charlie).exists()
    assert Invitation.objects.get().user == charlie


def test_the_admin_refuses_a_name_that_the_site_has(staff, signed_in, bob, team, offline):
    Secret.objects.create(name="token", owner=None, value="x")
    data = {"name": "token", "value": "mine", "hosts": "", "header": "Authorization", "template": "{secret}"}
    answer = signed_in(staff(bob)).post("/admin/agents/secret/add/", {**data, "team": team.pk})
    assert answer.status_code == 200 and "the site has one" in answer.content.decode()
    assert Secret.objects.count() == 1


def test_the_admin_clears_a_secret_that_would_go_elsewhere(staff, signed_in, alice):
    row = Secret.objects.create(name="token", owner=alice, value="s3cret", hosts=["api.example.com"])
    data = {"name": "token", "value": "", "header": "Authorization", "template": "Bearer {secret}"}
    path = f"/admin/agents/secret/{row.pk}/change/"
    browser = signed_in(staff(alice))
    assert browser.post(path, {**data, "hosts": "api.example.com\nevil.example"}).status_code == 200
    row.refresh_from_db()
    assert (row.hosts, row.value) == (["api.example.com"], "s3cret")
    assert browser.post(path, {**data, "hosts": "api.example.com"}).status_code == 302
    row.refresh_from_db()
    assert row.value == "s3cret"


def test_only_a_superuser_limits_everyone(staff, signed_in, bob):
    data = {"period": "day", "max_runs": "0", "enabled": "on"}
    assert signed_in(staff(bob)).post("/admin/runs/budget/add/", data).status_code == 302
    assert Budget.objects.get().user == bob


def test_a_new_team_is_administered_by_its_maker(staff, signed_in, bob):
    counts = {f"{name}-{count}_FORMS": 0 for name in ("memberships", "invitations") for count in ("TOTAL", "INITIAL")}
    signed_in(staff(bob)).post("/admin/agents/team/add/", {"name": "bobs", **counts})
    assert Team.objects.get(name="bobs").memberships.get().role == "administrator"


def test_a_viewer_runs_no_function_in_the_admin(staff, signed_in, alice, bob, team):
    function = publish(alice, team=team)
    browser = signed_in(staff(bob))
    path = f"/admin/functions/storedfunction/{function.pk}"
    assert browser.get(f"{path}/try", follow=True).status_code == 200
    Membership.objects.filter(user=bob).update(role="viewer")
    assert [browser.get(f"{path}/{verb}", follow=True).status_code for verb in ("try", "tests", "replay")] == [403] * 3
