"""API keys over HTTP: shown once, never worth more than who made them, revoked and not forgotten."""

import threading
import time

import pytest

from agents.models import ApiKey
from plumbing.threads import run_with_connection

V1 = "/api/v1"


def fields_of(answer):
    return [detail["field"] for detail in answer.json()["error"]["details"]]


def test_a_key_is_shown_once_and_can_be_revoked(alice_api):
    made = alice_api.post(f"{V1}/keys/", {"name": "laptop", "scopes": ["runs:read"]})
    assert made.status_code == 201
    secret, path = made.json()["key"], f"{V1}/keys/{made.json()['id']}"
    assert ApiKey.find(secret)
    assert "key" not in alice_api.get(path).json()
    assert secret.partition(".")[2] not in alice_api.get(f"{V1}/keys/").content.decode()
    assert alice_api.delete(path).status_code == 204
    assert ApiKey.find(secret) is None
    assert alice_api.get(path).json()["is_live"] is False


def test_a_key_cannot_hand_out_more_than_it_has(alice, api):
    limited = api(alice, "keys:write", "runs:read")
    assert limited.post(f"{V1}/keys/", {"scopes": ["runs:read"]}).status_code == 201
    for scopes in (["*"], ["runs:*"], ["agents:read"], ["approvals:decide"]):
        assert limited.post(f"{V1}/keys/", {"scopes": scopes}).status_code == 403
    assert api(alice, "*").post(f"{V1}/keys/", {"scopes": ["approvals:decide"]}).status_code == 403


def test_an_unknown_scope_is_refused(alice_api):
    answer = alice_api.post(f"{V1}/keys/", {"scopes": ["agents:fly"]})
    assert (answer.status_code, fields_of(answer)) == (422, ["scopes"])


def test_charlie_sees_no_key_of_alices(alice_api, charlie_api):
    made = alice_api.post(f"{V1}/keys/", {"scopes": ["*"]}).json()
    assert charlie_api.get(f"{V1}/keys/{made['id']}").status_code == 404
    assert charlie_api.delete(f"{V1}/keys/{made['id']}").status_code == 404


def test_a_key_that_is_revoked_while_its_request_is_on_the_way_makes_no_key(alice_api, monkeypatch):
    monkeypatch.setattr(ApiKey, "mark_used", lambda key: key.revoke())
    refused = alice_api.post(f"{V1}/keys/", {"scopes": ["*"]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert not ApiKey.objects.filter(revoked_at=None).exists()


@pytest.mark.django_db(transaction=True)
def test_a_key_that_is_just_being_made_is_revoked_too(alice, monkeypatch):
    key, _ = ApiKey.make(alice, ["*"])
    is_held, hold = threading.Event(), ApiKey.hold

    def hold_long(self):
        hold(self)
        is_held.set()
        time.sleep(0.5)

    monkeypatch.setattr(ApiKey, "hold", hold_long)
    made = threading.Thread(target=run_with_connection, args=(lambda: ApiKey.make(alice, ["*"], made_by=key),))
    made.start()
    assert is_held.wait(60)
    key.revoke()
    made.join(60)
    assert ApiKey.objects.count() == 2 and not ApiKey.objects.filter(revoked_at=None).exists()
