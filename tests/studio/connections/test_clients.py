"""The page that shows the address and the key to paste into other programs."""

import re

import pytest

from agents.models import ApiKey, AuditEvent
from agents.models.key import SCOPES
from studio.connections.clients import CLIENTS, RESOURCES, describe_key_scopes


def made(browser, word, **form):
    page = browser.post(f"/clients/{word}/key", form)
    assert page.status_code == 200 and "no-store" in page["Cache-Control"]
    return re.search(r"mk_[0-9a-f]{8}\.[\w-]+", page.content.decode())[0]


def test_every_protocol_has_its_address_and_a_place_for_the_key(signed_in, alice, settings):
    settings.PUBLIC_URL = "https://muster.example.org"
    shown = signed_in(alice).get("/clients/").content.decode()
    for client in CLIENTS:
        assert f"https://muster.example.org{client.path}" in shown
    assert shown.count("YOUR_KEY") == len(CLIENTS) and "You have no key yet" in shown


@pytest.mark.parametrize(
    ("word", "ask"),
    [
        ("openai", ("get", "/v1/models", None)),
        ("langgraph", ("post", "/langgraph/assistants/search", {})),
        ("muster", ("get", "/api/v1/agents/", None)),
    ],
)
def test_a_key_is_shown_once_and_works(signed_in, client, alice, make_agent, word, ask):
    make_agent("helper")
    browser = signed_in(alice)
    secret = made(browser, word)
    method, path, body = ask
    answer = getattr(client, method)(
        path, body, content_type="application/json", headers={"Authorization": f"Bearer {secret}"}
    )
    assert answer.status_code == 200 and "helper" in answer.content.decode()
    assert secret not in browser.get("/clients/").content.decode()
    assert AuditEvent.objects.filter(action="apikey.created", actor=alice).exists()


def test_deciding_is_given_only_on_request(signed_in, alice):
    browser = signed_in(alice)
    made(browser, "muster")
    made(browser, "openai", decides="on")
    with_decide, plain = ApiKey.objects.order_by("-pk")
    assert (with_decide.allows("approvals:decide"), plain.allows("approvals:decide")) == (True, False)
    assert not with_decide.allows("agents:write") and plain.allows("agents:write")


def test_only_ones_own_key_is_seen_and_revoked(signed_in, alice, bob, charlie, team):
    key, _ = ApiKey.make(alice, ["*"], name="laptop")
    for person in (bob, charlie):
        browser = signed_in(person)
        assert "laptop" not in browser.get("/clients/").content.decode()
        assert browser.post(f"/clients/keys/{key.pk}/revoke").status_code == 404
    browser = signed_in(alice)
    assert browser.get(f"/clients/keys/{key.pk}/revoke").status_code == 405
    assert browser.post(f"/clients/keys/{key.pk}/revoke").status_code == 302
    key.refresh_from_db()
    assert not key.is_live() and "revoked" in browser.get("/clients/").content.decode()


def test_an_unknown_client_and_a_visitor_get_no_key(signed_in, client, alice):
    assert signed_in(alice).post("/clients/nobody/key").status_code == 404
    assert client.post("/clients/openai/key").status_code == 302
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize(
    ("scopes", "words"),
    [
        (["*"], "everything except deciding approvals"),
        (["*", "approvals:decide"], "everything"),
        (
            ["messages:read", "messages:write", "functions:execute"],
            "read: messages; write: messages; execute: functions",
        ),
        (["runs:*", "approvals:decide"], "read: runs; write: runs; decide approvals"),
        (["agents:*"], "read: agents; write: agents"),
        ([], "nothing"),
    ],
)
def test_scopes_are_said_in_words(scopes, words, signed_in, alice):
    assert describe_key_scopes(scopes) == words
    ApiKey.make(alice, scopes)
    assert words in signed_in(alice).get("/clients/").content.decode()


def test_every_resource_of_a_scope_has_its_word():
    assert {scope.partition(":")[0] for scope in SCOPES} <= set(RESOURCES)
