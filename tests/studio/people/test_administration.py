"""The pages of people: administrators make accounts there, give roles, invite, deactivate and hand over."""

import re

import pytest
from django.contrib.auth import get_user_model

from agents import accounts, roles
from agents.models import Agent, Invitation
from tests.people import make_person


@pytest.fixture
def dana(db):
    roles.make_roles()
    person = make_person("dana")
    accounts.write_role(person, "administrator")
    return person


def test_a_person_is_made_invited_to_a_team_and_gets_a_link(dana, team, signed_in, settings, client):
    team.memberships.create(user=dana, role="administrator")
    browser = signed_in(dana)
    html = browser.get("/people/").content.decode()
    for sentence in ("Reads what is shared", "Talks to agents", "Also builds agents", "Also makes accounts"):
        assert sentence in html
    assert re.search(r'value="operator" checked', html)
    form = {"username": "erin", "email": "e@example.org", "role": "author", "teams": [team.name]}
    assert browser.post("/people/", form).headers["Location"] == "/people/erin/"
    assert "never signed in" in browser.get("/people/erin/").content.decode()
    assert browser.post("/people/erin/invitation").status_code == 302
    html = browser.get("/people/erin/").content.decode()
    path = re.search(r">https?://[^/<]+(/join/[^<]+)<", html)[1]
    assert "/join/" not in browser.get("/people/erin/").content.decode(), "the link is shown once"
    page = client.get(path, follow=True)
    chosen = {"new_password1": "a long password", "new_password2": "a long password"}
    page = client.post(page.redirect_chain[-1][0], chosen, follow=True)
    assert "You are invited to a team: alice-and-bob" in page.content.decode()
    assert Invitation.objects.get(user__username="erin").role == "author"


def test_what_is_wrong_stands_at_its_field(dana, alice, signed_in):
    browser = signed_in(dana)
    answer = browser.post("/people/", {"username": "Alice", "role": "author"})
    assert answer.status_code == 422 and "already" in answer.content.decode()
    assert browser.post("/people/", {"username": "erin", "role": "king"}).status_code == 422
    assert not get_user_model().objects.filter(username="erin").exists()


def test_role_state_and_owner_are_changed_on_the_page_of_a_person(dana, agent, alice, charlie, signed_in):
    browser = signed_in(dana)
    html = browser.get("/people/alice/").content.decode()
    assert "librarian" in html and "Hand over" in html
    browser.post("/people/alice/", {"email": "a@example.org", "role": "viewer"})
    assert get_user_model().objects.get(pk=alice.pk).site_role == "viewer"
    browser.post("/people/alice/hand-over", {"to": "charlie"})
    assert Agent.objects.get(name="librarian").owner == charlie
    browser.post("/people/alice/deactivate")
    assert not get_user_model().objects.get(pk=alice.pk).is_active
    browser.post("/people/alice/reactivate")
    assert get_user_model().objects.get(pk=alice.pk).is_active


def test_a_refusal_is_said_and_changes_nothing(dana, site_admin, signed_in):
    browser = signed_in(dana)
    browser.post("/people/dana/", {"email": "dana@example.org", "role": "viewer"})
    assert "your own account" in browser.get("/people/dana/").content.decode()
    browser.post("/people/site-admin/deactivate")
    assert get_user_model().objects.get(pk=site_admin.pk).is_active
    assert 'class="danger"' not in browser.get("/people/site-admin/").content.decode()


def test_nobody_else_finds_the_pages(alice, bob, charlie, signed_in, settings):
    for person in (alice, bob, charlie):
        browser = signed_in(person)
        assert 'href="/people/"' not in browser.get("/teams/").content.decode()
        assert browser.get("/people/").status_code == 403
        assert browser.get("/people/alice/").status_code == 403
        for path in ("", "alice/", "alice/invitation", "alice/hand-over", "alice/deactivate", "alice/reactivate"):
            assert browser.post(f"/people/{path}", {"username": "x", "role": "author", "to": "bob"}).status_code == 403


def test_the_page_is_a_tab_of_the_settings_for_administrators(dana, signed_in):
    assert 'href="/people/"' in signed_in(dana).get("/teams/").content.decode()


def test_an_operator_finds_the_invitation_on_every_page(alice, charlie, team, signed_in, settings):
    settings.DEFAULT_ROLE = "operator"
    team.invitations.create(user=charlie, role="operator", invited_by=alice)
    browser = signed_in(charlie)
    html = browser.get("/playground/").content.decode()
    assert "You are invited to a team: alice-and-bob" in html
    assert re.search(r'data-count="admin">1<|data-count="teams">1<', html)
    html = browser.get("/teams/").content.decode()
    assert "You are invited to a team" not in html and "alice invites you" in html
    browser.post(f"/invitations/{charlie.invitations.get().pk}/accept")
    assert "You are invited" not in browser.get("/playground/").content.decode()
