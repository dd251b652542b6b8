"""Web push: only the browser can read the message, and the push service can check who sent it."""

import json
from datetime import timedelta

import http_ece
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.utils import timezone

from agents.models import AuditEvent
from plumbing import clock
from runs.models import Notice, PushSubscription
from runs.worker.notices import channels, planning, push, sending

from .claiming import claim_notices

pytestmark = pytest.mark.django_db
AUTH = push.to_text(b"sixteen bytes ok")
ENDPOINT = "https://push.example.com/send/abc"


@pytest.fixture
def browser_key():
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
def body(browser_key):
    point = browser_key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return {"endpoint": ENDPOINT, "keys": {"p256dh": push.to_text(point), "auth": AUTH}, "browser": "Firefox"}


@pytest.fixture
def posted(monkeypatch):
    """What was sent, and what the push service answers."""
    found = {"status": 201, "sent": []}

    def post(url, body, headers):
        found["sent"].append((url, body, headers))
        return found["status"]

    monkeypatch.setattr(channels, "post_notice", post)
    return found


def deliver():
    planning.plan_notices()
    for pk in claim_notices(clock.now()):
        sending.deliver(pk)


def test_a_subscribed_browser_can_read_what_is_sent_to_it(asked, alice_api, body, browser_key, posted):
    assert alice_api.post("/api/v1/account/push/", body).status_code == 201
    approval = asked()
    deliver()
    [(url, content, headers)] = posted["sent"]
    plain = http_ece.decrypt(content, private_key=browser_key, auth_secret=push.from_text(AUTH), version="aes128gcm")
    about = json.loads(plain)
    assert url == ENDPOINT and about["title"] == "Approval needed: add" and "/approvals/link/" in about["url"]
    assert b"Approval" not in content and headers["Topic"] == approval.pk.hex and int(headers["TTL"]) > 3600
    deliver()
    assert len(posted["sent"]) == 1 and Notice.objects.get().state == "sent"


def test_the_signature_names_the_push_service_and_is_the_sites(alice_api, settings):
    settings.PUBLIC_URL = "https://muster.example.org"
    key = alice_api.get("/api/v1/account/push/key").json()["public_key"]
    words = push.authorization(ENDPOINT)
    token, given = words.removeprefix("vapid t=").split(", k=")
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), push.from_text(key))
    claims = jwt.decode(token, public, algorithms=["ES256"], audience="https://push.example.com")
    assert given == key and claims["sub"] == "https://muster.example.org"
    assert timedelta(hours=1) < timedelta(seconds=claims["exp"] - timezone.now().timestamp()) < timedelta(hours=24)


def test_a_browser_that_is_gone_is_forgotten(asked, alice_api, body, posted):
    alice_api.post("/api/v1/account/push/", body)
    asked()
    posted["status"] = 410
    deliver()
    assert not PushSubscription.objects.exists() and Notice.objects.get().state == "dead"


def test_a_push_service_that_is_busy_is_asked_again(asked, alice_api, body, posted):
    alice_api.post("/api/v1/account/push/", body)
    asked()
    posted["status"] = 503
    deliver()
    assert Notice.objects.get().state == "pending" and PushSubscription.objects.exists()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"endpoint": "http://push.example.com/1"}, "endpoint"),
        ({"endpoint": "https://user:secret@push.example.com/1"}, "endpoint"),
        ({"endpoint": "file:///etc/passwd"}, "endpoint"),
        ({"keys": {"p256dh": "AAAA", "auth": AUTH}}, "keys"),
        ({"keys": {"p256dh": "not base64!", "auth": AUTH}}, "keys"),
        ({"keys": {"p256dh": push.to_text(b"\4" + b"\1" * 64), "auth": AUTH}}, "keys"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_a_wrong_subscription_is_refused_and_nothing_is_stored(alice_api, body, change, field):
    answer = alice_api.post("/api/v1/account/push/", {**body, **change})
    assert answer.status_code == 422 and field in json.dumps(answer.json()["error"]["details"])
    assert not PushSubscription.objects.exists()


def test_team_mates_and_strangers_neither_see_nor_remove_a_browser(alice_api, bob_api, charlie_api, client, body):
    made = alice_api.post("/api/v1/account/push/", body).json()
    assert "endpoint" not in made and "keys" not in made
    for other in (bob_api, charlie_api):
        assert other.get("/api/v1/account/push/").json()["results"] == []
        assert other.delete(f"/api/v1/account/push/{made['id']}").status_code == 404
    assert client.get("/api/v1/account/push/").status_code == 401
    assert alice_api.delete(f"/api/v1/account/push/{made['id']}").status_code == 204
    actions = AuditEvent.objects.filter(subject_kind="pushsubscription").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["pushsubscription.created", "pushsubscription.deleted"]


def test_a_browser_that_another_person_signs_in_to_serves_only_that_person(alice_api, charlie_api, charlie, body):
    alice_api.post("/api/v1/account/push/", body)
    charlie_api.post("/api/v1/account/push/", body)
    assert PushSubscription.objects.get().owner == charlie


def test_a_person_has_a_limited_number_of_browsers(alice_api, body):
    for number in range(20):
        assert alice_api.post("/api/v1/account/push/", {**body, "endpoint": f"{ENDPOINT}{number}"}).status_code == 201
    refused = alice_api.post("/api/v1/account/push/", body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "too_many_browsers")


def test_settings_of_the_account_are_ones_own(alice_api, bob_api, charlie_api, client, alice):
    path = "/api/v1/account/settings"
    sent = {
        "language": "de",
        "zone": "Europe/Berlin",
        "push_notices": False,
        "teams_url": "https://flows.example.com/s3cret",
    }
    saved = alice_api.patch(path, sent, content_type="application/json")
    assert saved.status_code == 200 and "s3cret" not in saved.content.decode()
    mine = alice_api.get(path).json()
    assert (mine["language"], mine["zone"], mine["push_notices"], mine["teams_notices"]) == (
        "de",
        "Europe/Berlin",
        False,
        True,
    )
    for other in (bob_api, charlie_api):
        theirs = other.get(path).json()
        assert (theirs["language"], theirs["teams_notices"], theirs["push_notices"]) == ("", False, True)
    assert client.get(path).status_code == 401
    assert AuditEvent.objects.get(action="account.changed").details == {"fields": sorted(sent)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"language": "tlh"},
        {"zone": "Mars/Base"},
        {"teams_url": "http://flows.example.com"},
        {"email_notices": "yes"},
        {"colour": 1},
    ],
)
def test_wrong_settings_are_refused(alice_api, wrong):
    answer = alice_api.patch("/api/v1/account/settings", wrong, content_type="application/json")
    assert answer.status_code == 422
    assert alice_api.get("/api/v1/account/settings").json()["email_notices"] is True
