"""OAuth of the MCP endpoint: discovery, registration, consent with PKCE, tokens, and what they may not do."""

import json
from datetime import timedelta
from urllib.parse import urlsplit

import httpx2
import pytest
from django.utils import timezone
from oauth2_provider.cimd import CIMDError
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from agents import roles
from agents.http import throttles
from agents.models import ApiKey, AuditEvent
from gateway.mcp import oauth
from plumbing.http import outbound
from runs.worker import pruning
from tests.gateway.mcp.oauth_requests import BACK, RESOURCE, SCOPE, asked, consent, exchange, refresh, register, send
from tests.gateway.mcp.test_protocol import error, modern
from tests.people import ApiClient


def test_a_client_discovers_where_to_ask(client, db):
    refused = client.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, content_type="application/json")
    assert refused.status_code == 401
    where = refused["WWW-Authenticate"].partition('resource_metadata="')[2].rstrip('"')
    about = client.get(urlsplit(where).path).json()
    assert about["resource"] == RESOURCE and "messages:write" in about["scopes_supported"]
    [server] = about["authorization_servers"]
    found = client.get("/.well-known/oauth-authorization-server").json()
    assert found["issuer"] == server == "http://testserver"
    assert found["code_challenge_methods_supported"] == ["S256"] and found["response_types_supported"] == ["code"]
    assert set(found["grant_types_supported"]) == {"authorization_code", "refresh_token"}
    for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"):
        assert found[name].startswith("http://testserver/oauth/")
    assert client.get("/.well-known/oauth-protected-resource").json()["resource"] == RESOURCE


def test_a_token_acts_with_a_key_that_is_listed_and_revoked(alice, alice_api, charlie_api, client, registered, tokens):
    assert tokens["token_type"] == "Bearer" and set(tokens["scope"].split()) == set(SCOPE.split())
    holder = ApiClient(alice, tokens["access_token"])
    assert modern(holder, "tools/list").status_code == 200
    [key] = [row for row in alice_api.get("/api/v1/keys/").json()["results"] if row["name"] == "Desk (OAuth)"]
    assert set(key["scopes"]) == set(SCOPE.split())
    assert AuditEvent.objects.filter(action="apikey.authorized", owner_id=alice.pk).count() == 1
    assert "Desk" not in charlie_api.get("/api/v1/keys/").content.decode()
    assert charlie_api.delete(f"/api/v1/keys/{key['id']}").status_code == 404
    assert alice_api.delete(f"/api/v1/keys/{key['id']}").status_code == 204
    assert error(modern(holder, "tools/list")) == (401, -32000)
    assert refresh(client, registered, tokens["refresh_token"]).status_code == 400


def test_a_token_opens_nothing_but_this_endpoint(alice, tokens):
    holder = ApiClient(alice, tokens["access_token"])
    assert holder.get("/api/v1/agents/").status_code == 401
    assert holder.post("/v1/responses", {}).status_code == 401
    AccessToken.objects.update(resource=["http://elsewhere.example/mcp"])
    assert error(modern(holder, "tools/list")) == (401, -32000)
    AccessToken.objects.update(resource=[])
    assert error(modern(holder, "tools/list")) == (401, -32000)


def test_secrets_are_stored_as_hashes(tokens):
    stored = json.dumps([*AccessToken.objects.values_list("token", flat=True)])
    assert tokens["access_token"] not in stored


def test_a_refresh_token_is_good_once(alice, client, registered, tokens):
    again = refresh(client, registered, tokens["refresh_token"]).json()
    assert modern(ApiClient(alice, again["access_token"]), "tools/list").status_code == 200
    assert error(modern(ApiClient(alice, tokens["access_token"]), "tools/list")) == (401, -32000)
    assert ApiKey.objects.filter(authorization__isnull=False).count() == 1
    assert refresh(client, registered, tokens["refresh_token"]).status_code == 400  # used twice: all of them end
    assert error(modern(ApiClient(alice, again["access_token"]), "tools/list")) == (401, -32000)


def reuse(client, registered, tokens):
    refresh(client, registered, tokens["refresh_token"])
    assert refresh(client, registered, tokens["refresh_token"]).status_code == 400


def delete_the_client(client, registered, tokens):
    Application.objects.get(client_id=registered).delete()


def give_back(client, registered, tokens):
    send(client, "/oauth/revoke_token/", {"token": tokens["refresh_token"], "client_id": registered})


@pytest.mark.parametrize("deed", [reuse, delete_the_client, give_back])
def test_an_open_stream_ends_with_the_authorization(client, registered, tokens, deed):
    key = oauth.find_token_key(tokens["access_token"], RESOURCE)
    standing = oauth.build_key_standing(key)
    refreshed = refresh(client, registered, tokens["refresh_token"]).json()
    assert standing.is_good(), "a client that gets another token keeps its streams"
    deed(client, registered, refreshed)
    assert not standing.is_good()


def test_a_client_gives_its_access_back(alice, client, registered, tokens):
    form = {"token": tokens["refresh_token"], "client_id": registered}
    assert send(client, "/oauth/revoke_token/", form).status_code == 200
    assert error(modern(ApiClient(alice, tokens["access_token"]), "tools/list")) == (401, -32000)
    assert ApiKey.objects.get(authorization__isnull=False).revoked_at is not None


def test_another_client_cannot_use_or_revoke_what_is_not_its_own(alice, client, registered, tokens):
    other = register(client).json()["client_id"]
    assert refresh(client, other, tokens["refresh_token"]).status_code == 400
    send(client, "/oauth/revoke_token/", {"token": tokens["refresh_token"], "client_id": other})
    assert modern(ApiClient(alice, tokens["access_token"]), "tools/list").status_code == 200


@pytest.mark.parametrize(
    "more",
    [
        {"code_challenge": "", "code_challenge_method": ""},
        {"response_type": "token"},
        {"scope": "keys:write"},
        {"scope": "*"},
        {"redirect_uri": "https://evil.example/callback"},
        {"client_id": "unknown"},
    ],
)
def test_what_is_never_granted(alice, signed_in, registered, more):
    answer = signed_in(alice).get("/oauth/authorize/", asked(registered, **more))
    assert answer.status_code in (302, 400, 401, 403)
    assert "code=" not in answer.get("Location", "").partition("?")[2]
    assert not answer.get("Location", "").startswith("https://evil")


def test_a_challenge_in_plain_text_is_refused(alice, signed_in, registered):
    assert consent(signed_in(alice), registered, code_challenge_method="plain")["error"] == "invalid_request"


def test_a_code_needs_its_verifier_and_is_good_once_for_this_endpoint(alice, signed_in, client, registered):
    browser = signed_in(alice)
    code = consent(browser, registered)["code"]
    assert exchange(client, registered, code, code_verifier="x" * 64).status_code == 400
    code = consent(browser, registered)["code"]
    assert exchange(client, registered, code).status_code == 200
    assert exchange(client, registered, code).status_code == 400
    code = consent(browser, registered, resource="https://elsewhere.example/mcp")["code"]
    assert exchange(client, registered, code, resource="https://elsewhere.example/mcp").status_code == 400


def test_the_person_signs_in_and_may_refuse(alice, client, signed_in, registered):
    stranger = client.get("/oauth/authorize/", asked(registered))
    assert stranger.status_code == 302 and stranger["Location"].startswith("/login/?next=")
    assert consent(signed_in(alice), registered, answer="")["error"] == "access_denied"
    page = signed_in(alice).get("/oauth/authorize/", asked(registered))
    assert "form-action 'self' http://127.0.0.1:4711" in page["Content-Security-Policy"]
    assert b"Desk" in page.content and b"alice" in page.content
    forged = type(client)(enforce_csrf_checks=True)
    forged.force_login(alice)
    assert forged.post("/oauth/authorize/", {**asked(registered), "allow": "true"}).status_code == 403


def test_no_more_is_granted_than_the_persons_role_allows(alice, signed_in, client, registered, monkeypatch):
    monkeypatch.setattr(roles, "allows", lambda user, scope: scope.endswith(":read"))
    found = exchange(client, registered, consent(signed_in(alice), registered)["code"]).json()
    assert found["scope"].split() == ["runs:read"]
    assert ApiKey.objects.get(authorization__isnull=False).scopes == ["runs:read"]


@pytest.mark.parametrize("uri", ["http://evil.example/cb", "javascript:alert(1)", "ftp://127.0.0.1/x"])
def test_a_code_is_only_sent_to_a_safe_address(alice, signed_in, client, db, uri):
    answer = register(client, redirect_uris=[uri])
    if answer.status_code == 201:
        request = asked(answer.json()["client_id"], redirect_uri=uri)
        assert signed_in(alice).get("/oauth/authorize/", request).status_code == 400


@pytest.mark.parametrize("grant", ["client_credentials", "password", "implicit"])
def test_other_grants_give_nothing(client, db, grant):
    more = {"grant_types": [grant], "token_endpoint_auth_method": "client_secret_post"}
    made = register(client, **more)
    if made.status_code == 201:
        row = made.json()
        form = {"grant_type": grant, "client_id": row["client_id"], "client_secret": row.get("client_secret", "x"),
                "username": "alice", "password": "x"}  # fmt: skip
        assert send(client, "/oauth/token/", form).status_code in (400, 401)


def test_a_refresh_token_ends_with_its_time(alice, client, registered, tokens, time_machine):
    time_machine.move_to(timezone.now() + timedelta(days=31))
    assert refresh(client, registered, tokens["refresh_token"]).status_code == 400


def test_rows_that_open_nothing_any_more_are_deleted(alice, client, registered, tokens, time_machine):
    again = refresh(client, registered, tokens["refresh_token"]).json()
    now = timezone.now()
    pruning.prune(now + timedelta(hours=2))
    assert refresh(client, registered, again["refresh_token"]).status_code == 200, "an expired access token is in use"
    assert refresh(client, registered, tokens["refresh_token"]).status_code == 400, "its reuse is noticed"
    pruning.prune(now + timedelta(days=31))
    left = {model: model.objects.count() for model in (AccessToken, RefreshToken, Grant, Application)}
    assert set(left.values()) == {0} and not ApiKey.objects.filter(authorization__isnull=False).exists()


def test_registrations_are_limited(client, db, monkeypatch):
    monkeypatch.setattr(throttles, "admit_request", lambda *_: False)
    answer = register(client)
    assert answer.status_code == 429 and int(answer["Retry-After"]) > 0 and not Application.objects.exists()


@pytest.mark.parametrize(
    "uri", [f"{BACK}/more", BACK.replace("callback", "other"), f"{BACK}?next=x", "https://evil.example/"]
)
def test_the_address_of_the_answer_is_the_registered_one(alice, signed_in, registered, uri):
    answer = signed_in(alice).get("/oauth/authorize/", asked(registered, redirect_uri=uri))
    assert answer.status_code == 400 and not answer.has_header("Location")


HOSTS = [
    "127.0.0.1",
    "localhost",
    "[::1]",
    "10.0.0.1",
    "169.254.169.254",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "0.0.0.0",
]


@pytest.mark.parametrize("address", [*(f"https://{host}/client.json" for host in HOSTS), "http://example.com/c.json"])
def test_a_client_document_is_fetched_from_public_addresses_alone(alice, signed_in, db, address):
    with pytest.raises(CIMDError):
        oauth.Documents().fetch(address)
    answer = signed_in(alice).get("/oauth/authorize/", asked(address))
    assert answer.status_code in (400, 401) and not answer.has_header("Location") and not Application.objects.exists()


def serves(monkeypatch, answer):
    """Public addresses answer like this."""
    line = httpx2.MockTransport(lambda request: answer)
    monkeypatch.setattr(outbound, "client", lambda allowed: httpx2.Client(transport=line))


DOCUMENT = "https://executor.example/client.json"


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(302, headers={"Location": "http://127.0.0.1/"}), httpx2.Response(200, text="no JSON"),
        httpx2.Response(200, json={"client_id": DOCUMENT, "more": "x" * 20_000}), httpx2.Response(200, json=[]),
        httpx2.Response(404, json={}),
    ],
)  # fmt: skip
def test_what_is_no_client_document_is_refused(monkeypatch, answer):
    serves(monkeypatch, answer)
    with pytest.raises(CIMDError):
        oauth.Documents().fetch(DOCUMENT)


def test_a_client_is_known_by_its_document(alice, signed_in, client, db, monkeypatch):
    serves(monkeypatch, httpx2.Response(200, json={
        "client_id": DOCUMENT, "client_name": "Desk", "redirect_uris": [BACK], "token_endpoint_auth_method": "none",
    }))  # fmt: skip
    code = consent(signed_in(alice), DOCUMENT)["code"]
    tokens = exchange(client, DOCUMENT, code).json()
    assert tokens["token_type"] == "Bearer"
    assert ApiKey.objects.get(authorization__isnull=False).name == "Desk (OAuth)"


def test_a_client_that_nobody_allowed_is_deleted(client, registered, time_machine):
    time_machine.move_to(timezone.now() + timedelta(days=2))
    pruning.prune()
    assert not Application.objects.filter(client_id=registered).exists()
