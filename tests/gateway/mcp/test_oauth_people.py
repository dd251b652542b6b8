"""What a stranger and a team-mate can do at each OAuth endpoint with what is another person's: nothing.

Each has a client of their own, which they allowed, and is signed in. A row of the table is an endpoint with something
of Alice; afterwards all that is hers must work as before.
"""

import pytest
from oauth2_provider.models import Application, Grant

from agents.models import ApiKey
from tests.gateway.mcp.oauth_requests import consent, exchange, refresh, register, send
from tests.gateway.mcp.test_protocol import error, modern
from tests.people import ApiClient

MANAGE = {"client_name": "Taken", "redirect_uris": ["https://evil.example/cb"], "token_endpoint_auth_method": "none"}


class Actor:
    """A person with a browser, a client and its tokens."""

    def __init__(self, person, browser, client):
        self.person, self.browser, self.client = person, browser, client
        self.registration = register(client).json()
        self.id = self.registration["client_id"]
        self.tokens = exchange(client, self.id, consent(browser, self.id)["code"]).json()

    def manage(self, method, id, token, **body):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        path = f"/oauth/register/{id}/"
        return getattr(self.browser, method)(path, body, content_type="application/json", headers=headers)

    def mcp(self):
        return modern(ApiClient(self.person, self.tokens["access_token"]), "tools/list").status_code


@pytest.fixture
def owner(alice, signed_in, client, team):
    return Actor(alice, signed_in(alice), client)


@pytest.fixture(params=["bob", "charlie"])
def other(request, owner, signed_in, client):
    """A team-mate and a stranger."""
    person = request.getfixturevalue(request.param)
    return Actor(person, signed_in(person), client)


def test_a_code_is_of_one_client(owner, other):
    code = consent(owner.browser, owner.id)["code"]
    for more in ({}, {"code_verifier": "w" * 64}):
        assert exchange(other.browser, other.id, code, **more).status_code == 400
    assert exchange(other.browser, owner.id, code, code_verifier="w" * 64).status_code == 400
    assert Grant.objects.filter(user=other.person).count() == 0


def test_a_code_gives_the_rights_of_the_person_who_allowed_it(owner, other, client):
    """The id of a client is public: another person can allow it, too, and gets only access of their own."""
    given = exchange(client, owner.id, consent(other.browser, owner.id)["code"]).json()
    assert ApiKey.objects.filter(user=other.person, authorization__isnull=False).count() == 2
    assert ApiKey.objects.filter(user=owner.person, authorization__isnull=False).count() == 1
    send(client, "/oauth/revoke_token/", {"token": given["refresh_token"], "client_id": owner.id})
    assert owner.mcp() == 200


@pytest.mark.parametrize("name", ["access_token", "refresh_token"])
def test_a_token_is_not_exchanged_by_another_client(owner, other, name):
    assert refresh(other.browser, other.id, owner.tokens[name]).status_code == 400
    assert exchange(other.browser, other.id, owner.tokens[name]).status_code == 400
    assert owner.mcp() == 200
    assert refresh(owner.client, owner.id, owner.tokens["refresh_token"]).status_code == 200


@pytest.mark.parametrize("name", ["access_token", "refresh_token"])
@pytest.mark.parametrize("hint", ["", "access_token", "refresh_token"])
def test_a_token_is_not_revoked_by_another_client(owner, other, name, hint):
    form = {"token": owner.tokens[name], "client_id": other.id, "token_type_hint": hint}
    assert send(other.browser, "/oauth/revoke_token/", form).status_code == 200  # RFC 7009: says nothing
    assert (owner.mcp(), other.mcp()) == (200, 200)
    assert ApiKey.objects.get(user=owner.person, authorization__isnull=False).revoked_at is None


def test_revoking_needs_a_client(owner, other):
    for form in ({}, {"client_id": "unknown"}):
        answer = send(other.browser, "/oauth/revoke_token/", {"token": owner.tokens["refresh_token"], **form})
        assert answer.status_code in (400, 401)
    assert owner.mcp() == 200


@pytest.mark.parametrize("method", ["get", "put", "delete"])
def test_a_registration_is_managed_with_its_own_token(owner, other, method):
    _, secret = ApiKey.make(other.person, ["*"])
    others = (other.registration["registration_access_token"], other.tokens["access_token"], secret, "", "x")
    for token in (*others, owner.tokens["access_token"]):
        answer = other.manage(method, owner.id, token, **MANAGE)
        assert answer.status_code in (401, 403), (token, answer.content)
        assert b"Desk" not in answer.content
    row = Application.objects.get(client_id=owner.id)
    assert (row.name, "evil" in row.redirect_uris) == ("Desk", False)
    assert owner.mcp() == 200


def test_the_token_of_a_registration_opens_nothing_else(owner):
    token = owner.registration["registration_access_token"]
    assert owner.manage("get", owner.id, token).json()["client_id"] == owner.id
    assert error(modern(ApiClient(owner.person, token), "tools/list")) == (401, -32000)
    assert ApiClient(owner.person, token).get("/api/v1/agents/").status_code == 401
    assert refresh(owner.client, owner.id, token).status_code == 400


def test_a_client_that_changes_its_address_is_refused_there(owner):
    """Whoever holds a registration's token cannot turn the codes of its users elsewhere unseen."""
    token = owner.registration["registration_access_token"]
    bad = {**MANAGE, "redirect_uris": ["http://evil.example/cb"]}
    owner.manage("put", owner.id, token, **bad)
    answer = owner.browser.get("/oauth/authorize/", {"client_id": owner.id, "redirect_uri": bad["redirect_uris"][0]})
    assert answer.status_code == 400 and "Location" not in answer


def test_deleting_a_registration_ends_its_authorizations(owner, other):
    token = owner.registration["registration_access_token"]
    assert owner.manage("delete", owner.id, token).status_code == 204
    assert owner.mcp() == 401 and other.mcp() == 200
    assert refresh(owner.client, owner.id, owner.tokens["refresh_token"]).status_code in (400, 401)


def test_the_keys_of_authorizations_are_their_persons_own(owner, other):
    key = ApiKey.objects.get(user=owner.person, authorization__isnull=False)
    api = ApiClient(other.person, ApiKey.make(other.person, ["*"])[1])
    assert str(key.pk) not in [str(row["id"]) for row in api.get("/api/v1/keys/").json()["results"]]
    for method in ("get", "delete", "patch"):
        assert getattr(api, method)(f"/api/v1/keys/{key.pk}").status_code in (404, 405)
    assert owner.mcp() == 200


@pytest.mark.parametrize(
    "path", ["oauth-authorization-server", "oauth-protected-resource", "oauth-protected-resource/mcp"]
)
def test_the_documents_are_the_same_for_everybody(owner, other, client, path):
    found = [one.get(f"/.well-known/{path}") for one in (client, owner.browser, other.browser)]
    assert len({answer.content for answer in found}) == 1 and found[0].status_code == 200
    assert owner.id not in found[0].content.decode()
    assert other.browser.post(f"/.well-known/{path}", {}).status_code == 405
