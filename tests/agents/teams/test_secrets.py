"""Secrets are used without being seen, and go nowhere their owner has not sent them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.exceptions import Forbidden, Invalid, NotFound
from agents.models import ApiKey, Membership, Secret
from functions.callers import alone
from functions.execution import ready
from functions.host import Host
from functions.models import StoredFunction
from functions.store import draft
from tests.functions.library import publish

V1 = "/api/v1"
JSON = "application/json"
SOURCE = "def call(ctx) -> int:\n    return 1\n"


@pytest.fixture
def token(alice):
    return Secret.objects.create(name="token", owner=alice, value="s3cret", hosts=["api.example.com"])


@pytest.mark.parametrize(
    "body",
    [{"hosts": ["api.example.com", "evil.example"]}, {"hosts": ["evil.example"]}, {"template": "{secret}"},
     {"header": "X-Echo"}],
)  # fmt: skip
def test_a_secret_that_would_go_elsewhere_loses_its_value(alice, api, token, body):
    answer = api(alice, "secrets:write").patch(f"{V1}/secrets/token", body, JSON)
    assert (answer.status_code, answer.json()["has_value"]) == (200, False)
    token.refresh_from_db()
    assert token.value == ""
    with pytest.raises(Invalid):
        Host(user=alice, secret_names=("token",)).secret("token")


@pytest.mark.parametrize("body", [{"hosts": ["API.example.com"]}, {"hosts": []}, {"name": "other"}])
def test_one_that_goes_nowhere_new_keeps_it(alice_api, token, body):
    assert alice_api.patch(f"{V1}/secrets/token", body, JSON).json()["has_value"] is True


def test_its_owner_enters_it_again_with_the_change(alice_api, token):
    body = {"hosts": ["other.example.com"], "value": "n3w"}
    assert alice_api.patch(f"{V1}/secrets/token", body, JSON).json()["has_value"] is True
    token.refresh_from_db()
    assert token.value == "n3w"


def test_a_draft_reaches_only_secrets_that_the_published_version_names(alice, token):
    tried = StoredFunction(name="call", owner=alice, source=SOURCE, secrets=["token"], requires_context=True)
    assert alone(alice, draft(tried)).host.secret_names == ()
    publish(alice, SOURCE, "call", secrets=["token"], requires_context=True)
    assert alone(alice, draft(tried)).host.secret_names == ("token",)


def test_another_person_s_function_does_not_reach_one_s_own_secret(alice, bob, team, token):
    theirs = publish(bob, SOURCE, "call", team=team, secrets=["token"], requires_context=True)
    version = ready(theirs.published.pk, theirs.published.sha256)
    with pytest.raises(PermissionError):
        alone(alice, version).host.secret("token")
    token.team = team
    token.save()
    assert alone(alice, version).host.secret("token") == token


def test_a_shared_function_does_not_lend_its_owner_s_private_secret(alice, bob, team, token):
    theirs = publish(alice, SOURCE, "call", team=team, secrets=["token"], requires_context=True)
    version = ready(theirs.published.pk, theirs.published.sha256)
    with pytest.raises(NotFound):
        alone(bob, version).host.secret("token")


def test_a_viewer_does_not_use_it(alice, bob, team, token):
    Secret.objects.update(team=team)
    Membership.objects.filter(user=bob).update(role="viewer")
    with pytest.raises(Forbidden):
        Host(user=bob, secret_names=("token",)).secret("token")


def test_a_key_makes_none_that_lives_longer(alice, api):
    end = timezone.now() + timedelta(hours=1)
    key, secret = ApiKey.make(alice, ["keys:write", "runs:read"], expires_at=end)
    client = api(alice)
    client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {secret}"
    longer = client.post(f"{V1}/keys/", {"scopes": ["runs:read"], "expires_at": "2030-01-01T00:00:00Z"})
    assert (longer.status_code, longer.json()["error"]["code"]) == (403, "expiry")
    made = client.post(f"{V1}/keys/", {"scopes": ["runs:read"]})
    assert ApiKey.objects.get(pk=made.json()["id"]).expires_at == end
    wider = client.post(f"{V1}/keys/", {"scopes": ["runs:write"]})
    assert wider.status_code == 403
    key.revoke()
    assert ApiKey.find(made.json()["key"]) is None
