"""Schedules, triggers and webhooks over HTTP, with strangers at the door."""

import json
import time

import pytest

from devices.models import Device
from runs.models import Run, Schedule, ScheduleOccurrence, Trigger, Webhook, WebhookDelivery
from runs.rules import signing

V1 = "/api/v1"
MORNING = {
    "name": "morning", "agent": "clerk", "text": "Good morning", "crontab": "0 9 * * 1-5", "timezone": "Europe/Berlin",
}  # fmt: skip
JSON = {"content_type": "application/json"}


@pytest.fixture
def clerk(make_agent):
    return make_agent("clerk")


@pytest.fixture
def schedule(alice_api, clerk):
    answer = alice_api.post(f"{V1}/schedules/", MORNING)
    assert answer.status_code == 201, answer.json()
    return answer.json()


def test_a_schedule_is_made_shown_changed_and_deleted(alice_api, schedule):
    assert schedule["crontab"] == "0 9 * * 1-5" and schedule["agent"] == "clerk" and schedule["chain"] is None
    assert "T09:00:00+0" in schedule["next_due_local"]
    assert schedule["why_not"].startswith("The next due time is")
    path = f"{V1}/schedules/morning"
    changed = alice_api.patch(path, {"timezone": "America/New_York"}, **JSON).json()
    assert "T09:00:00-0" in changed["next_due_local"]
    every = alice_api.patch(path, {"interval": {"every": 2, "period": "hours"}}, **JSON).json()
    assert (every["crontab"], every["interval"]) == (None, {"every": 2, "period": "hours"})
    assert alice_api.delete(path).status_code == 204
    assert Schedule.objects.count() == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"crontab": "0 25 * * *"}, "crontab"),
        ({"crontab": "9 o'clock"}, "crontab"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"crontab": None}, "crontab"),
        ({"interval": {"every": 1, "period": "hours"}}, "crontab"),
        ({"crontab": None, "interval": {"every": 0, "period": "hours"}}, "interval.every"),
        ({"crontab": None, "interval": {"every": 1, "period": "eons"}}, "interval.period"),
        ({"agent": "nobody"}, None),
        ({"agent": None}, "agent"),
        ({"chain": "nothing"}, None),
        ({"missed_policy": "shrug"}, "missed_policy"),
        ({"overlap_policy": 7}, "overlap_policy"),
        ({"jitter_s": -1}, "jitter_s"),
        ({"device": "mine"}, "device"),
        ({"notify_email": "nobody"}, "notify_email"),
        ({"name": "Bad Name"}, "name"),
    ],
)
def test_what_makes_no_sense_is_422_and_not_stored(alice_api, clerk, change, field):
    answer = alice_api.post(f"{V1}/schedules/", {**MORNING, **change})
    assert answer.status_code == 422, answer.content
    if field:
        assert field in [detail["field"] for detail in answer.json()["error"]["details"]]
    assert Schedule.objects.count() == 0


def test_its_device_is_its_owner_s_own(alice, charlie, alice_api, clerk):
    hers, his = Device.objects.create(owner=alice, name="laptop"), Device.objects.create(owner=charlie, name="desktop")
    refused = alice_api.post(f"{V1}/schedules/", {**MORNING, "device": str(his.pk)})
    assert (refused.status_code, refused.json()["error"]["details"][0]["field"]) == (422, "device")
    assert alice_api.post(f"{V1}/schedules/", {**MORNING, "device": str(hers.pk)}).status_code == 201
    hers.revoke(reason="lost")
    path = f"{V1}/schedules/morning"
    assert alice_api.patch(path, {"device": str(hers.pk)}, **JSON).status_code == 422
    assert alice_api.patch(path, {"device": None}, **JSON).status_code == 200


@pytest.mark.parametrize("change", [{"crontab": "0 0 30 2 *"}, {"crontab": None, "at": "2020-01-01T00:00:00Z"}])
def test_what_is_never_due_is_refused(alice_api, clerk, change):
    answer = alice_api.post(f"{V1}/schedules/", {**MORNING, **change})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "never_due")


def test_preview_pause_resume_and_run_now(alice_api, schedule, worker):
    path = f"{V1}/schedules/morning"
    preview = alice_api.get(f"{path}/preview").json()
    assert len(preview["due"]) == 10 and all("T09:00:00" in due["due_local"] for due in preview["due"])
    assert len(alice_api.get(f"{path}/preview?count=3").json()["due"]) == 3
    assert alice_api.get(f"{path}/preview?count=null").status_code == 422
    paused = alice_api.post(f"{path}/pause").json()
    assert (paused["enabled"], paused["why_not"]) == (False, "It is paused: paused by alice.")
    assert alice_api.post(f"{path}/resume").json()["enabled"] is True
    with worker.capture(execute=True):
        now = alice_api.post(f"{path}/run-now")
    assert (now.status_code, now.json()["outcome"]) == (202, "started")
    [row] = alice_api.get(f"{path}/occurrences/").json()["results"]
    assert row["is_manual"] and row["run"] == str(Run.objects.get().pk)


def test_charlie_sees_none_of_alices_schedules(charlie_api, schedule):
    path = f"{V1}/schedules/morning"
    assert charlie_api.get(f"{V1}/schedules/").json()["results"] == []
    for verb, at in [
        ("get", path), ("patch", path), ("delete", path), ("get", f"{path}/occurrences/"), ("get", f"{path}/preview"),
        ("post", f"{path}/run-now"), ("post", f"{path}/pause"), ("post", f"{path}/resume"),
    ]:  # fmt: skip
        more = JSON if verb == "patch" else {}
        assert getattr(charlie_api, verb)(at, **more).status_code == 404, (verb, at)
    assert ScheduleOccurrence.objects.count() == 0


def test_charlie_cannot_schedule_alices_agent(charlie_api, clerk):
    assert charlie_api.post(f"{V1}/schedules/", MORNING).status_code == 422


def test_a_hook_is_made_and_called(alice_api, clerk, client, worker):
    made = alice_api.post(
        f"{V1}/triggers/", {"name": "orders", "kind": "webhook", "agent": "clerk", "input": {"n": "event.id"}}
    )
    assert made.status_code == 201, made.json()
    secret, url = made.json()["secret"], made.json()["url"]
    assert "secret" not in alice_api.get(f"{V1}/triggers/orders").json()
    path = url[url.index("/api/") :]
    body = json.dumps({"id": 7}).encode()
    headers = signing.sign(secret, "msg_1", int(time.time()), body)
    with worker.capture(execute=True):
        answer = client.post(path, body, headers=headers, **JSON)
    assert (answer.status_code, answer.json()["outcome"]) == (202, "started")
    assert Run.objects.get().input == {"n": 7}
    again = client.post(path, body, headers=headers, **JSON)
    assert again.json()["run"] == answer.json()["run"]
    assert client.post(path, b"{}", headers=headers, **JSON).json()["error"]["code"] == "bad_signature"
    assert client.post(path, body, **JSON).status_code == 401
    assert len(alice_api.get(f"{V1}/triggers/orders/firings/").json()["results"]) == 1
    renewed = alice_api.post(f"{V1}/triggers/orders/renew-secret").json()["secret"]
    assert renewed != secret
    assert (
        client.post(path, body, headers=signing.sign(secret, "msg_2", int(time.time()), body), **JSON).status_code
        == 401
    )


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "shrug"},
        {"input": {"n": "event.["}},
        {"input": [1]},
        {"on_status": ["fine"]},
        {"agent": None},
        {"on_agent": "nobody"},
    ],
)
def test_a_trigger_that_makes_no_sense_is_422(alice_api, clerk, change):
    body = {"name": "orders", "kind": "run_ended", "agent": "clerk", **change}
    assert alice_api.post(f"{V1}/triggers/", body).status_code == 422
    assert Trigger.objects.count() == 0


def test_an_unknown_hook_is_not_there(client, db):
    assert client.post(f"{V1}/hooks/0198c0de-0000-7000-8000-000000000001", b"{}", **JSON).status_code == 404


def test_charlie_sees_none_of_alices_triggers(alice_api, charlie_api, clerk):
    alice_api.post(f"{V1}/triggers/", {"name": "orders", "kind": "webhook", "agent": "clerk"})
    path = f"{V1}/triggers/orders"
    assert charlie_api.get(f"{V1}/triggers/").json()["results"] == []
    for verb, at in [
        ("get", path), ("patch", path), ("delete", path), ("get", f"{path}/firings/"), ("post", f"{path}/renew-secret")
    ]:  # fmt: skip
        assert getattr(charlie_api, verb)(at, **(JSON if verb == "patch" else {})).status_code == 404


@pytest.fixture
def webhook(alice_api, settings):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    answer = alice_api.post(f"{V1}/webhooks/", {"url": "http://127.0.0.1:9/hook", "events": ["run.finished"]})
    assert answer.status_code == 201, answer.json()
    return answer.json()


def test_a_webhook_tells_its_secret_once_and_lists_what_it_sent(alice_api, webhook, worker, alice, clerk):
    path = f"{V1}/webhooks/{webhook['id']}"
    assert webhook["secret"].startswith("whsec_") and "secret" not in alice_api.get(path).json()
    worker.send_message(alice, "hello", clerk)
    [row] = alice_api.get(f"{path}/deliveries/").json()["results"]
    assert (row["type"], row["state"]) == ("run.finished", "pending")
    WebhookDelivery.objects.update(state="dead", attempts=8)
    [dead] = alice_api.get(f"{path}/deliveries/?state=dead").json()["results"]
    again = alice_api.post(f"{path}/deliveries/{dead['id']}/send-again")
    assert (again.status_code, again.json()["state"]) == (202, "pending")
    secret = Webhook.objects.get().secret
    alice_api.patch(path, {"url": "http://127.0.0.1:10/hook"}, **JSON)
    assert Webhook.objects.get().secret != secret
    assert alice_api.delete(path).status_code == 204


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/x", "http://169.254.169.254/", "ftp://example.com/", "http://user:pass@127.0.0.1/", "no address", "http://[::ffff:10.0.0.1]/"]  # noqa: E501
)  # fmt: skip
def test_a_private_or_broken_address_is_refused(alice_api, settings, url):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    assert alice_api.post(f"{V1}/webhooks/", {"url": url}).status_code == 422
    assert Webhook.objects.count() == 0


def test_an_unknown_event_is_refused(alice_api, settings):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    answer = alice_api.post(f"{V1}/webhooks/", {"url": "http://127.0.0.1/", "events": ["run.exploded"]})
    assert answer.status_code == 422


def test_charlie_sees_none_of_alices_webhooks(charlie_api, webhook):
    path = f"{V1}/webhooks/{webhook['id']}"
    assert charlie_api.get(f"{V1}/webhooks/").json()["results"] == []
    for verb, at in [
        ("get", path), ("patch", path), ("delete", path), ("get", f"{path}/deliveries/"), ("post", f"{path}/renew-secret"),  # noqa: E501
        ("post", f"{path}/deliveries/0198c0de-0000-7000-8000-000000000001/send-again"),
    ]:  # fmt: skip
        assert getattr(charlie_api, verb)(at, **(JSON if verb == "patch" else {})).status_code == 404
