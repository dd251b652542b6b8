"""Push notifications of A2A tasks."""

import json

import pytest
from a2a.types import StreamResponse, TaskState
from google.protobuf.json_format import ParseDict

from runs.models import Run, Webhook, WebhookDelivery
from runs.worker import webhooks
from tests.gateway.a2a.calls import HELLO, NOW, V1, rpc, send

HOOK = "https://93.184.216.34/hook"


@pytest.fixture
def post(monkeypatch):
    """Deliver what is due: the requests that were sent."""
    sent = []

    class Sent:
        status_code = 200

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    def stream(self, method, url, *, content, headers):
        sent.append((url, json.loads(content), headers))
        return Sent()

    monkeypatch.setattr("httpx2.Client.stream", stream)

    def deliver():
        for delivery in WebhookDelivery.objects.filter(state="pending").order_by("id"):
            webhooks.deliver(str(delivery.pk))
        return sent

    return deliver


def test_a_push_config_is_made_read_listed_and_deleted(alice_api, agent):
    task = send(alice_api, agent)
    path = f"/a2a/{agent}/tasks/{task['id']}/pushNotificationConfigs"
    wanted = {"url": HOOK, "token": "t", "authentication": {"scheme": "Bearer", "credentials": "secret"}}
    made = alice_api.post(path, wanted, **V1).json()
    assert "secret" not in json.dumps(made)
    assert (made["taskId"], made["url"], made["token"]) == (task["id"], HOOK, "t")
    named = {"taskId": task["id"], "id": "mine", "url": HOOK}
    assert rpc(alice_api, agent, "CreateTaskPushNotificationConfig", named).json()["result"] == named
    assert alice_api.get(f"{path}/mine", **V1).json() == named
    assert [one["id"] for one in alice_api.get(path, **V1).json()["configs"]] == [made["id"], "mine"]
    assert alice_api.delete(f"{path}/mine", **V1).json() == {}
    assert alice_api.delete(f"{path}/mine", **V1).status_code == 200
    assert alice_api.get(f"{path}/mine", **V1).status_code == 404
    assert alice_api.get("/api/v1/webhooks/").json()["results"] == []


def test_the_states_of_the_task_are_pushed_with_the_credentials(alice_api, agent, post):
    config = {"url": HOOK, "token": "t", "authentication": {"scheme": "Bearer", "credentials": "secret"}}
    asked = {"message": HELLO, "configuration": {**NOW, "taskPushNotificationConfig": config}}
    task = rpc(alice_api, agent, "SendMessage", asked).json()["result"]["task"]
    send(alice_api, agent, messageId="another")
    rpc(alice_api, agent, "CancelTask", {"id": task["id"]})
    [(url, body, headers)] = post()
    update = StreamResponse()
    ParseDict(body, update)
    assert (url, update.status_update.task_id) == (HOOK, task["id"])
    assert update.status_update.context_id == task["contextId"]
    assert update.status_update.status.state == TaskState.TASK_STATE_CANCELED
    assert (headers["Authorization"], headers["X-A2A-Notification-Token"]) == ("Bearer secret", "t")
    assert headers["Content-Type"] == "application/a2a+json"
    assert not Webhook.objects.get().enabled


@pytest.mark.parametrize(
    "config",
    [
        {"url": "http://127.0.0.1/hook"},
        {"url": "http://169.254.169.254/latest"},
        {"url": "file:///etc/passwd"},
        {"url": ""},
        {"url": HOOK, "token": "a\r\nX-Other: b"},
        {"url": HOOK, "authentication": {"scheme": "Bearer", "credentials": "a\nb"}},
    ],
)
def test_a_push_config_that_would_do_harm_is_refused_with_its_message(alice_api, agent, config):
    asked = {"message": HELLO, "configuration": {**NOW, "taskPushNotificationConfig": config}}
    assert rpc(alice_api, agent, "SendMessage", asked).json()["error"]["code"] == -32602
    assert not Run.objects.exists() and not Webhook.objects.exists()


def test_a_stranger_sees_and_changes_no_push_config(alice_api, charlie_api, agent):
    task = send(alice_api, agent)
    named = {"taskId": task["id"], "id": "mine", "url": HOOK}
    rpc(alice_api, agent, "CreateTaskPushNotificationConfig", named)
    for method in ("Create", "Get", "Delete"):
        answer = rpc(charlie_api, "router", f"{method}TaskPushNotificationConfig", named).json()
        assert answer["error"]["code"] == -32001
    assert rpc(charlie_api, "router", "ListTaskPushNotificationConfigs", named).json()["error"]["code"] == -32001
    assert Webhook.objects.get().label == "mine"
