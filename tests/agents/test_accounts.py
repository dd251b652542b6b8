"""Administrators make accounts, change, deactivate and reactivate them, and hand over what a person owns."""

import runpy
from io import StringIO
from urllib.parse import urlsplit

import pytest
from django.conf import settings as site
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from agents import accounts, membership, roles
from agents.exceptions import Conflict, Forbidden
from agents.models import Agent, ApiKey, AuditEvent, Invitation, Membership, Provider, Tool
from config.settings import broker
from connectors.models import Connection
from runs.models import Schedule
from tests.people import make_person

V1 = "/api/v1"
PEOPLE = f"{V1}/people/"
JSON = "application/json"


@pytest.fixture
def dana(db):
    """An administrator of the site who is no superuser."""
    roles.make_roles()
    person = make_person("dana")
    accounts.write_role(person, "administrator")
    return person


@pytest.fixture
def dana_api(api, dana):
    return api(dana)


def code_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


# -- who may


def test_only_administrators_read_or_change_accounts(alice_api, bob_api, charlie_api, dana):
    for client in (alice_api, bob_api, charlie_api):
        for answer in (
            client.get(PEOPLE),
            client.get(f"{PEOPLE}dana"),
            client.get(f"{PEOPLE}dana/belongings"),
            client.post(PEOPLE, {"username": "eve"}),
            client.patch(f"{PEOPLE}dana", {"role": "viewer"}, JSON),
            client.post(f"{PEOPLE}dana/invitation"),
            client.post(f"{PEOPLE}dana/hand-over", {"to": "alice"}),
        ):
            assert code_of(answer) == (403, "role_forbids")
    assert not get_user_model().objects.filter(username="eve").exists()


def test_a_key_without_the_scope_does_nothing_with_accounts(api, dana):
    client = api(dana, "agents:write", "people:read")
    assert client.get(PEOPLE).status_code == 200
    assert client.post(PEOPLE, {"username": "eve"}).status_code == 403


def test_an_administrator_does_not_touch_superusers_or_their_own_account(dana_api, site_admin):
    for body in ({"role": "viewer"}, {"is_active": False}, {"email": "mine@example.org"}):
        assert code_of(dana_api.patch(f"{PEOPLE}site-admin", body, JSON)) == (403, "superuser")
    assert code_of(dana_api.post(f"{PEOPLE}site-admin/hand-over", {"to": "dana"})) == (403, "superuser")
    assert code_of(dana_api.post(f"{PEOPLE}site-admin/invitation")) == (403, "superuser")
    for body in ({"role": "viewer"}, {"is_active": False}):
        assert code_of(dana_api.patch(f"{PEOPLE}dana", body, JSON)) == (409, "own_account")


# -- accounts


def test_a_new_account_is_an_operator_and_waits_for_its_password(dana_api, client):
    answer = dana_api.post(PEOPLE, {"username": "erin", "email": "erin@example.org"})
    assert answer.status_code == 201 and answer.headers["Location"] == f"{PEOPLE}erin"
    body = answer.json()
    assert (body["role"], body["is_active"], body["is_invitable"], body["teams"]) == ("operator", True, True, [])
    link = dana_api.post(f"{PEOPLE}erin/invitation")
    assert link.status_code == 201
    page = client.get(urlsplit(link.json()["url"]).path, follow=True)
    assert "Welcome, erin" in page.content.decode()
    form = {"new_password1": "a long password", "new_password2": "a long password"}
    answer = client.post(page.redirect_chain[-1][0], form)
    assert answer.headers["Location"] == "/playground/"
    assert client.get("/playground/").status_code == 200
    assert code_of(dana_api.post(f"{PEOPLE}erin/invitation")) == (409, "not_new")
    actions = set(AuditEvent.objects.filter(subject_name="erin").values_list("action", flat=True))
    assert {"user.created", "user.invited", "user.joined"} <= actions


def test_an_invitation_works_once_and_never_replaces_a_password(dana_api, client, charlie):
    assert code_of(dana_api.post(f"{PEOPLE}charlie/invitation")) == (409, "not_new")
    person = accounts.create_person("erin", role="author")
    url, _end = accounts.make_invitation(person)
    person.set_password("another long password")
    person.save()
    page = client.get(urlsplit(url).path, follow=True)
    assert "This link is not valid" in page.content.decode()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"username": "Alice"}, 409, "name_taken"),
        ({"username": "not a name!"}, 422, "invalid"),
        ({"username": "x", "role": "king"}, 422, "invalid"),
        ({"username": "x", "email": "no address"}, 422, "invalid"),
        ({}, 422, "invalid"),
    ],
)
def test_what_is_no_account_is_refused(dana_api, alice, body, status, code):
    answer = dana_api.post(PEOPLE, body)
    assert answer.status_code == status, answer.content
    assert answer.json()["error"]["code"] == code
    assert not get_user_model().objects.filter(username="x").exists()


def test_nobody_is_made_a_superuser(dana_api):
    body = dana_api.post(PEOPLE, {"username": "x", "is_superuser": True, "is_active": False}).json()
    assert (body["is_superuser"], body["is_active"]) == (False, False)
    dana_api.patch(f"{PEOPLE}x", {"is_superuser": True}, JSON)
    assert not get_user_model().objects.get(username="x").is_superuser


def test_a_role_is_exactly_one_of_the_four(dana_api, alice, alice_api):
    for role in ("viewer", "author"):
        assert dana_api.patch(f"{PEOPLE}alice", {"role": role}, JSON).json()["role"] == role
        assert list(alice.groups.values_list("name", flat=True)) == [role]
    dana_api.patch(f"{PEOPLE}alice", {"role": "viewer"}, JSON)
    assert code_of(alice_api.post(f"{V1}/agents/", {"name": "a", "provider": "offline"})) == (403, "role_forbids")


def test_a_deactivated_person_is_out_until_the_account_is_reactivated(dana_api, alice_api):
    assert dana_api.patch(f"{PEOPLE}alice", {"is_active": False}, JSON).json()["is_active"] is False
    assert alice_api.get(f"{V1}/me").status_code == 401
    assert dana_api.patch(f"{PEOPLE}alice", {"is_active": True}, JSON).status_code == 200
    assert alice_api.get(f"{V1}/me").status_code == 200
    actions = list(AuditEvent.objects.filter(subject_kind="user").values_list("action", flat=True))
    assert sorted(actions) == ["user.deactivated", "user.reactivated"]


def test_the_last_administrator_of_the_site_stays_one(dana, alice):
    with pytest.raises(Conflict) as refused:
        accounts.set_role(dana, "author", by=alice)
    assert refused.value.code == "last_administrator"
    with pytest.raises(Conflict) as refused:
        accounts.deactivate(dana, by=alice)
    assert refused.value.code == "last_administrator"
    dana.refresh_from_db()
    assert dana.is_active and accounts.is_administrator(get_user_model().objects.get(pk=dana.pk))


def test_the_last_administrator_of_a_team_is_not_deactivated(dana_api, alice, bob, team):
    answer = dana_api.patch(f"{PEOPLE}alice", {"is_active": False}, JSON)
    assert code_of(answer) == (409, "no_administrator") and team.name in answer.json()["error"]["message"]
    Membership.objects.filter(user=bob).update(role="administrator")
    assert dana_api.patch(f"{PEOPLE}alice", {"is_active": False}, JSON).status_code == 200


def test_unknown_people_are_not_found(dana_api):
    for path in ("nobody", "nobody/belongings", "a%00b"):
        assert dana_api.get(f"{PEOPLE}{path}").status_code == 404


# -- handing over


@pytest.fixture
def shared_agent(alice, bob, agent, team):
    agent.team = team
    agent.save()
    agent.publish()
    return agent


def test_what_hangs_on_a_person_is_listed(dana_api, alice, shared_agent, alice_api):
    Schedule.objects.create(name="daily", owner=alice, agent=shared_agent, text="hi")
    body = dana_api.get(f"{PEOPLE}alice/belongings").json()
    assert {"kind": "agent", "name": "librarian", "team": "alice-and-bob", "moves": True} in body["rows"]
    assert {"kind": "schedule", "name": "daily", "team": None, "moves": True} in body["rows"]
    assert body["counts"]["api key"] == 1
    assert body["teams"] == [{"team": "alice-and-bob", "role": "administrator", "is_last": True}]


def test_handing_over_moves_rows_their_tools_and_the_team(dana_api, alice, bob, bob_api, shared_agent):
    Schedule.objects.create(name="daily", owner=alice, agent=shared_agent, text="hi")
    answer = dana_api.post(f"{PEOPLE}alice/hand-over", {"to": "bob"})
    assert answer.json() == {"rows": {"agent": ["librarian"], "schedule": ["daily"], "team": ["alice-and-bob"]}}
    assert Agent.objects.get(name="librarian").owner == bob
    assert Tool.objects.get(name="librarian").owner == bob
    schedule = Schedule.objects.get(name="daily")
    assert schedule.owner == bob and not schedule.enabled
    assert bob_api.patch(f"{V1}/agents/librarian", {"description": "Mine."}, JSON).status_code == 200
    assert Membership.of(bob, shared_agent.team_id).role == "administrator"
    assert dana_api.patch(f"{PEOPLE}alice", {"is_active": False}, JSON).status_code == 200
    event = AuditEvent.objects.get(action="user.handed_over")
    assert event.details["to"] == "bob" and event.details["rows"]["agent"] == ["librarian"]


def test_what_is_shared_moves_only_to_somebody_who_may_share_it(dana_api, charlie, shared_agent, alice):
    answer = dana_api.post(f"{PEOPLE}alice/hand-over", {"to": "charlie"})
    assert code_of(answer) == (409, "not_in_team")
    assert Agent.objects.get(name="librarian").owner == alice


def test_a_name_that_the_receiver_has_stops_all(dana_api, alice, charlie, agent):
    Provider.objects.create(name="mine", kind="offline", owner=alice)
    Provider.objects.create(name="mine", kind="offline", owner=charlie)
    answer = dana_api.post(f"{PEOPLE}alice/hand-over", {"to": "charlie"})
    assert code_of(answer) == (409, "name_taken") and "provider mine" in answer.json()["error"]["message"]
    assert Agent.objects.get(name="librarian").owner == alice


def test_a_mailbox_stays_with_its_person(dana_api, alice, charlie):
    mailbox = Connection.objects.create(name="inbox", provider="gmail", owner=alice)
    server = Connection.objects.create(name="shop", provider="openapi", owner=alice, base_url="https://shop.example")
    assert dana_api.post(f"{PEOPLE}alice/hand-over", {"to": "charlie"}).json() == {"rows": {"connection": ["shop"]}}
    mailbox.refresh_from_db()
    server.refresh_from_db()
    assert (mailbox.owner, server.owner) == (alice, charlie)


@pytest.mark.parametrize(("to", "code"), [("alice", "same_person"), ("nobody", "unknown_person"), ("", "invalid")])
def test_the_receiver_is_another_person_who_is_here(dana_api, alice, to, code):
    assert code_of(dana_api.post(f"{PEOPLE}alice/hand-over", {"to": to})) == (422, code)


# -- the command


def create_user(*arguments):
    out, err = StringIO(), StringIO()
    call_command("create_user", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_command_makes_an_account_and_prints_the_invitation_alone(db, client):
    out, err = create_user("erin", "--role", "author", "--email", "erin@example.org", "--invite")
    assert out.count("\n") == 1 and "Created erin as author" in err
    page = client.get(urlsplit(out.strip()).path, follow=True)
    assert "Welcome, erin" in page.content.decode()
    person = get_user_model().objects.get(username="erin")
    assert (person.site_role, person.email) == ("author", "erin@example.org")
    assert create_user("fred")[0] == "" and get_user_model().objects.get(username="fred").site_role == "operator"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(["alice"], "called “alice” already"), (["not a name!"], "valid username"), (["x", "--role", "king"], "king")],
)
def test_the_command_says_what_is_wrong(alice, arguments, complaint):
    with pytest.raises(CommandError, match=complaint):
        create_user(*arguments)


@pytest.mark.parametrize(("is_embedded", "role"), [(True, "author"), (False, "operator")])
def test_a_person_in_no_group_is_an_operator_but_an_author_on_a_laptop(monkeypatch, is_embedded, role):
    monkeypatch.delenv("MUSTER_DEFAULT_ROLE", raising=False)
    monkeypatch.setattr(broker, "EMBEDDED_VALKEY", is_embedded)
    assert runpy.run_path(str(site.BASE_DIR / "config" / "settings" / "login.py"))["DEFAULT_ROLE"] == role


def test_deactivating_withdraws_open_invitations_of_the_person(dana, charlie, team, alice):
    invitation = membership.invite(team, "charlie", "author", by=alice)
    accounts.deactivate(charlie, by=dana)
    assert Invitation.objects.get(pk=invitation.pk).status == "withdrawn"


def test_an_administrator_hands_over_neither_to_themselves_nor_to_a_superuser(dana, alice):
    root = get_user_model().objects.create_superuser("root", "root@example.org", "x")
    with pytest.raises(Forbidden, match="to yourself"):
        accounts.hand_over(alice, dana, by=dana)
    with pytest.raises(Forbidden, match="superuser"):
        accounts.hand_over(alice, root, by=dana)
    accounts.hand_over(alice, root, by=root)


def test_a_row_that_would_take_the_place_of_the_sites_is_not_handed_over(dana, alice, charlie):
    Provider.objects.create(name="model", kind="offline", owner=None)
    Provider.objects.create(name="model", kind="offline", owner=alice)
    with pytest.raises(Conflict, match="model"):
        accounts.hand_over(alice, charlie, by=dana)


def test_an_account_that_works_with_a_key_is_not_invited(dana):
    service = accounts.create_person("service", role="author")
    ApiKey.make(service, ["*"], name="job")
    with pytest.raises(Conflict, match="can sign in already"):
        accounts.make_invitation(service, by=dana)


def test_a_new_invitation_ends_the_one_before(dana, client):
    person = accounts.create_person("erin", role="operator")
    first, _ = accounts.make_invitation(person, by=dana)
    second, _ = accounts.make_invitation(person, by=dana)
    assert b"new_password1" not in client.get(urlsplit(first).path, follow=True).content
    assert b"new_password1" in client.get(urlsplit(second).path, follow=True).content
