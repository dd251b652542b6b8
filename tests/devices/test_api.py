import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import AuditEvent
from devices import calls
from devices.models import Device, DeviceCall, OfferedTool, Pairing
from devices.protocol import tool_hash
from tests.devices.scripted import paired

URL = "/api/v1/devices/"


@pytest.fixture
def laptop(alice):
    return paired(alice)[0]


def code_of(api) -> str:
    answer = api.post(f"{URL}pairings")
    assert answer.status_code == 201
    return answer.json()["code"]


def test_a_code_becomes_a_device_with_a_credential_shown_once(alice_api, client):
    code = code_of(alice_api)
    body = {"code": code.lower(), "name": "laptop", "platform": "Linux"}
    answer = client.post(f"{URL}pair", body, content_type="application/json")
    assert answer.status_code == 201
    paired = answer.json()
    assert paired["account"] == "alice"
    assert paired["credential"].startswith("dc_")
    shown = alice_api.get(f"{URL}{paired['device']}").json()
    assert (shown["name"], shown["platform"], shown["is_online"]) == ("laptop", "Linux", False)
    assert paired["credential"] not in str(shown)
    assert client.post(f"{URL}pair", body, content_type="application/json").status_code == 403


def test_a_preview_says_whose_code_it_is_and_leaves_it_usable(alice_api, client):
    body = {"code": code_of(alice_api), "preview": True}
    answer = client.post(f"{URL}pair", body, content_type="application/json")
    assert (answer.status_code, answer.json()["account"], answer.json()["credential"]) == (200, "alice", None)
    assert client.post(f"{URL}pair", {"code": body["code"]}, content_type="application/json").status_code == 201


def test_a_code_dies_after_five_tries(alice_api, client):
    code = code_of(alice_api)
    wrong = code[:-1] + ("A" if code[-1] != "A" else "B")
    for _ in range(5):
        answer = client.post(f"{URL}pair", {"code": wrong}, content_type="application/json")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "bad_code")
    assert client.post(f"{URL}pair", {"code": code}, content_type="application/json").status_code == 403


def test_a_code_lives_ten_minutes(alice_api, client):
    code = code_of(alice_api)
    Pairing.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert client.post(f"{URL}pair", {"code": code}, content_type="application/json").status_code == 403


@pytest.mark.parametrize("body", [{}, {"code": 7}, {"code": ""}, {"code": "x" * 100}, [], {"code": "AAAA", "name": ""}])
def test_a_body_that_is_no_pairing_is_refused(db, client, body):
    answer = client.post(f"{URL}pair", body, content_type="application/json")
    assert answer.status_code in (400, 422)


def test_pairing_codes_are_for_signed_in_people(db, client):
    assert client.post(f"{URL}pairings", {}, content_type="application/json").status_code in (401, 403)


def test_an_owner_lists_renames_and_revokes(alice_api, laptop):
    assert [row["id"] for row in alice_api.get(URL).json()["results"]] == [str(laptop.pk)]
    renamed = alice_api.patch(f"{URL}{laptop.pk}", {"name": "work laptop"}, content_type="application/json")
    assert renamed.json()["name"] == "work laptop"
    revoked = alice_api.post(f"{URL}{laptop.pk}/revoke").json()
    assert revoked["revoked_at"]
    assert not laptop.credentials.filter(revoked_at=None).exists()


def test_a_revoked_device_is_removed_and_its_calls_stay_with_their_runs(alice, alice_api, laptop):
    call = DeviceCall.objects.create(
        owner=alice, device=laptop, tool="list_tasks", deadline=timezone.now(), state="done", finished_at=timezone.now()
    )
    refused = alice_api.delete(f"{URL}{laptop.pk}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    assert "Revoke it first" in refused.json()["error"]["hint"]
    alice_api.post(f"{URL}{laptop.pk}/revoke")
    assert alice_api.delete(f"{URL}{laptop.pk}").status_code == 204
    assert alice_api.get(f"{URL}{laptop.pk}").status_code == 404
    call.refresh_from_db()
    assert call.device is None
    assert AuditEvent.objects.filter(action="device.removed", subject_name="laptop").exists()


def test_a_device_is_not_removed_while_a_call_to_it_is_open(alice, alice_api, laptop):
    later = timezone.now() + timedelta(days=1)
    DeviceCall.objects.create(owner=alice, device=laptop, tool="list_tasks", deadline=later, state="sent")
    alice_api.post(f"{URL}{laptop.pk}/revoke")
    assert alice_api.delete(f"{URL}{laptop.pk}").status_code == 409
    calls.expire_due()
    assert alice_api.delete(f"{URL}{laptop.pk}").status_code == 204


def test_calls_of_a_revoked_device_wait_no_longer(alice, alice_api, laptop):
    fields = {"owner": alice, "device": laptop, "tool": "list_tasks", "is_awaited": True}
    later = timezone.now() + timedelta(days=1)
    run = uuid.uuid4()
    never_sent = DeviceCall.objects.create(**fields, deadline=later, run_id=run)
    sent = DeviceCall.objects.create(**fields, deadline=later, state="sent")
    alice_api.post(f"{URL}{laptop.pk}/revoke")
    assert calls.expire_due() == [run]
    never_sent.refresh_from_db()
    sent.refresh_from_db()
    assert (never_sent.state, sent.state) == ("expired", "unknown")


def test_calls_are_listed_newest_first_and_narrowed(alice, alice_api, laptop):
    run = uuid.uuid4()
    fields = {"owner": alice, "device": laptop, "tool": "list_tasks", "deadline": timezone.now()}
    DeviceCall.objects.create(**fields)
    DeviceCall.objects.create(**fields, state="done", run_id=run, result=[1])
    rows = alice_api.get(f"{URL}{laptop.pk}/calls/").json()["results"]
    assert [row["state"] for row in rows] == ["done", "queued"]
    assert {"id", "device", "tool", "arguments", "state", "attempt", "deadline", "result", "error", "late"} <= set(
        rows[0]
    )
    assert len(alice_api.get(f"{URL}{laptop.pk}/calls/?run={run}").json()["results"]) == 1
    assert len(alice_api.get(f"{URL}{laptop.pk}/calls/?state=queued").json()["results"]) == 1
    assert alice_api.get(f"{URL}{laptop.pk}/calls/?state=lost").status_code == 422
    assert alice_api.get(f"{URL}{laptop.pk}/calls/?run=7").status_code == 422


@pytest.fixture
def offer(laptop):
    schema = {"type": "object"}
    return OfferedTool.objects.create(
        device=laptop, name="echo", input_schema=schema, hash=tool_hash("echo", "", schema)
    )


def test_an_owner_approves_and_rejects_offered_tools(alice_api, laptop, offer):
    assert alice_api.get(f"{URL}{laptop.pk}").json()["pending_offers"] == 1
    listed = alice_api.get(f"{URL}{laptop.pk}/offers/").json()["results"]
    assert (listed[0]["name"], listed[0]["status"]) == ("echo", "pending")
    approved = alice_api.post(f"{URL}{laptop.pk}/offers/{offer.hash}/approve").json()
    assert (approved["status"], approved["tool"]) == ("approved", "echo")
    assert alice_api.get("/api/v1/tools/echo").json()["kind"] == "device"
    rejected = alice_api.post(f"{URL}{laptop.pk}/offers/{offer.hash}/reject").json()
    assert rejected["status"] == "rejected"
    assert alice_api.post(f"{URL}{laptop.pk}/offers/{'0' * 64}/approve").status_code == 404


PATHS = [
    ("get", ""),
    ("patch", ""),
    ("post", "/revoke"),
    ("delete", ""),
    ("get", "/calls/"),
    ("get", "/offers/"),
    ("post", "/offers/{hash}/approve"),
    ("post", "/offers/{hash}/reject"),
]


@pytest.mark.parametrize(("verb", "path"), PATHS)
@pytest.mark.parametrize("stranger", ["charlie", "bob"])
def test_nobody_else_finds_a_device_not_even_in_the_team(request, api, laptop, offer, verb, path, stranger):
    other = api(request.getfixturevalue(stranger))
    url = f"{URL}{laptop.pk}{path.format(hash=offer.hash)}"
    more = {"data": {"name": "mine"}, "content_type": "application/json"} if verb == "patch" else {}
    assert getattr(other, verb)(url, **more).status_code == 404
    assert other.get(URL).json()["results"] == []
    offer.refresh_from_db()
    assert offer.status == "pending"
    assert Device.objects.get().revoked_at is None


def test_keys_need_the_scope(alice, api, laptop):
    reader = api(alice, "devices:read")
    assert reader.get(URL).status_code == 200
    assert reader.post(f"{URL}{laptop.pk}/revoke").status_code == 403
    assert reader.delete(f"{URL}{laptop.pk}").status_code == 403
    assert api(alice, "runs:read").get(URL).status_code == 403
