"""A2A without a worker: what is refused, tasks, lists, push notifications, and version 0.3."""

import json
from datetime import timedelta
from uuid import UUID

import pytest
from a2a.compat.v0_3.types import AgentCard as OlderCard
from a2a.types import ListTasksResponse, StreamResponse, Task, TaskState
from django.utils.timezone import now
from google.protobuf.json_format import ParseDict

from agents.models import ApiKey
from gateway import turns
from gateway.a2a import operations
from runs.lifecycle import endings
from runs.models import InputRequest, Message, Run, Session, ToolCallRecord, Webhook, WebhookDelivery
from runs.rules import task_states
from runs.schedules import webhooks
from tests.gateway.a2a_calls import HELLO, NOW, V1, ended, rpc, send

TEXT_PART = {"type": "text", "text": "Done."}


# -- requests that are refused ----------------------------------------------------------------------------------------


@pytest.fixture
def agent(make_agent):
    return make_agent()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[]", -32600),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "GetTask"}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "GetTask"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "Nothing"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": []}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"role": "ROLE_USER"}}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": 5}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 101}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageToken": "x"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"status": "TASK_STATE_RUNNING"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "nobody"}}', -32001),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": "nobody"}}', -32001),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": "nobody"}}', -32001),
    ],
)
def test_a_wrong_request_gets_its_code(alice_api, agent, body, code):
    answer = alice_api.generic("POST", f"/a2a/{agent}", body, content_type="application/json", **V1)
    assert (answer.status_code, answer.json()["jsonrpc"], answer.json()["error"]["code"]) == (200, "2.0", code)
    assert all("@type" in one for one in answer.json()["error"]["data"])


@pytest.mark.parametrize("version", ["", "0.3", "0.2", "0.5", "2.0", "x"])
def test_another_version_is_refused(alice_api, agent, version):
    answer = rpc(alice_api, agent, "SendMessage", {"message": HELLO}, HTTP_A2A_VERSION=version).json()
    assert (answer["error"]["code"], answer["id"]) == (-32009, 7)
    answer = alice_api.get(f"/a2a/{agent}/tasks", HTTP_A2A_VERSION=version)
    assert (answer.status_code, answer.json()["error"]["details"][0]["reason"]) == (400, "VERSION_NOT_SUPPORTED")
    assert not Run.objects.exists()


def test_the_version_may_be_a_parameter_and_a_patch_does_not_count(alice_api, agent):
    assert alice_api.get(f"/a2a/{agent}/tasks?A2A-Version=1.0.3").status_code == 200


def test_a_file_at_an_address_is_refused_before_anything_is_stored(alice_api, agent):
    part = {"url": "https://example.com/report.pdf", "mediaType": "application/pdf"}
    assert send(alice_api, agent, parts=[{"text": "x"}, part])["code"] == -32005
    assert not Run.objects.exists()


def test_bytes_of_any_type_become_a_file(alice_api, agent):
    part = {"raw": "eA==", "mediaType": "application/x-unknown", "filename": "x.bin"}
    task = send(alice_api, agent, parts=[{"text": "read it"}, part])
    file = Run.objects.get(pk=task["id"]).messages.get().content[1]["file"]
    assert alice_api.get(f"/api/v1/files/{file}/content").getvalue() == b"x"


def test_without_a_key_nothing_is_answered(client, agent):
    for path in (
        f"/a2a/{agent}/.well-known/agent-card.json",
        "/.well-known/agent-card.json",
        f"/a2a/{agent}/tasks",
        f"/a2a/{agent}/extendedAgentCard",
        "/a2a/nobody/.well-known/agent-card.json",
    ):
        answer = client.get(path, **V1)
        assert (answer.status_code, answer["WWW-Authenticate"]) == (401, 'Bearer realm="muster"')
        assert answer.json()["error"]
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}
    answer = client.post(f"/a2a/{agent}", body, "application/json", **V1)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, -32000)


def test_a_key_needs_the_scope_for_messages(client, alice, agent):
    _, token = ApiKey.make(alice, ["runs:read"], name="k")
    answer = client.get(f"/a2a/{agent}/tasks", HTTP_AUTHORIZATION=f"Bearer {token}", **V1)
    assert (answer.status_code, answer.json()["error"]["status"]) == (403, "PERMISSION_DENIED")


# -- tasks ------------------------------------------------------------------------------------------------------------


def test_a_task_as_it_begins(alice_api, agent):
    task = send(alice_api, agent)
    ParseDict(task, Task())
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED" and task["status"]["timestamp"].endswith("Z")
    assert task["history"][0]["messageId"] == "m1" and task["artifacts"] == []
    run = Run.objects.get()
    assert (str(run.pk), str(run.session_id)) == (task["id"], task["contextId"])


def test_the_same_task_over_both_bindings(alice_api, agent):
    task = send(alice_api, agent)
    answer = alice_api.get(f"/a2a/{agent}/tasks/{task['id']}?historyLength=0&unknown=1", **V1)
    assert answer["Content-Type"] == "application/json"
    named = alice_api.get(f"/a2a/{agent}/tasks/{task['id']}", HTTP_ACCEPT="application/a2a+json", **V1)
    assert named["Content-Type"] == "application/a2a+json"
    del task["history"]
    assert answer.json() == task
    assert rpc(alice_api, agent, "GetTask", {"id": task["id"], "historyLength": 0}).json()["result"] == task


def test_a_busy_context_and_a_working_task_take_no_message(alice_api, agent):
    task = send(alice_api, agent)
    assert "busy" in send(alice_api, agent, messageId="m2", contextId=task["contextId"])["message"].lower()
    assert send(alice_api, agent, messageId="m3", taskId=task["id"])["code"] == -32004
    assert send(alice_api, agent, messageId="m4", taskId=task["id"], contextId="other")["code"] == -32602
    ended(task["id"])
    assert send(alice_api, agent, messageId="m5", taskId=task["id"])["code"] == -32004
    answer = alice_api.post(f"/a2a/{agent}/tasks/{task['id']}:cancel", {}, **V1)
    assert (answer.status_code, answer.json()["error"]["details"][0]["reason"]) == (400, "TASK_NOT_CANCELABLE")
    assert alice_api.get(f"/a2a/{agent}/tasks/{task['id']}:subscribe", **V1).status_code == 400


def test_the_same_message_again_is_the_same_task_and_another_content_is_not(alice_api, agent):
    first, again, other = send(alice_api, agent), send(alice_api, agent), send(alice_api, agent, parts=[{"text": "x"}])
    assert first["id"] == again["id"] != other["id"]
    ended(first["id"])
    assert send(alice_api, agent)["id"] not in (first["id"], other["id"])


def test_a_message_that_is_sent_again_may_name_its_push_config(alice_api, agent):
    """The client did not get the first answer, and wants to be told of the end in another way."""
    config = {"url": "https://example.com/hook", "token": "t"}
    for _ in range(2):
        configuration = {**NOW, "taskPushNotificationConfig": config}
        answer = rpc(alice_api, agent, "SendMessage", {"message": HELLO, "configuration": configuration}).json()
    assert Webhook.objects.get().run_id == UUID(answer["result"]["task"]["id"])


def test_questions_and_answers_are_part_of_the_history(alice_api, agent, alice):
    task = send(alice_api, agent)
    run = Run.objects.get(pk=task["id"])
    for number, value in enumerate(("first", {"day": 2})):
        asked_at = now() + timedelta(seconds=10 * number)
        record = ToolCallRecord.objects.create(run=run, name="ask_user", arguments={})
        InputRequest.objects.create(
            run=run, call=record, kind="form", name="ask_user", prompt=f"Question {number}?", status="answered",
            value=value, expires_at=asked_at, created_at=asked_at, answered_at=asked_at + timedelta(seconds=5),
        )  # fmt: skip
    last = Message.objects.create(session=run.session, seq=9, run=run, role="assistant", content=[TEXT_PART])
    Message.objects.filter(pk=last.pk).update(created_at=now() + timedelta(minutes=1))
    history = rpc(alice_api, agent, "GetTask", {"id": task["id"]}).json()["result"]["history"]
    ParseDict({"id": "t", "status": {}, "history": history}, Task())
    said = [(one["role"][5:], one["parts"][0].get("text", one["parts"][0].get("data"))) for one in history]
    assert said == [
        ("USER", "hello"), ("AGENT", "Question 0?"), ("USER", "first"), ("AGENT", "Question 1?"), ("USER", {"day": 2}),
        ("AGENT", "Done."),
    ]  # fmt: skip
    last = rpc(alice_api, agent, "GetTask", {"id": task["id"], "historyLength": 1}).json()["result"]["history"]
    assert last == history[-1:]


def test_a_quick_agent_does_not_end_before_the_stream_of_its_answer(alice, alice_api, agent, monkeypatch):
    """The run ends between the answer and the first event: the stream still shows all of it."""
    run = Run.objects.get(pk=send(alice_api, agent)["id"])
    record = ToolCallRecord.objects.create(run=run, name="ask_user", arguments={}, waiting_for="input")
    about = {"kind": "form", "name": "ask_user", "prompt": "Which?", "expires_at": now() + timedelta(hours=1)}
    InputRequest.objects.create(run=run, call=record, **about)
    run.change("waiting", waiting_for="input")
    answer = turns.answer

    def answered(*args, **more):
        turn = answer(*args, **more)
        assert endings.finish(Run.objects.get(pk=run.pk), "succeeded", reply="Blue it is.")
        return turn

    monkeypatch.setattr(turns, "answer", answered)
    message = {**HELLO, "messageId": "m2", "taskId": str(run.pk)}
    task, turn = operations.send_streaming(operations.Call(alice, None, str(agent)), {"message": message})
    assert (task["status"]["state"], task["artifacts"]) == (task_states.WORKING, [])
    assert [frame.type for frame in turns.stored(turn)][-1] == "run.finished"


def test_a_body_of_another_media_type_is_refused_in_their_form(alice_api, agent):
    answer = alice_api.post(f"/a2a/{agent}", "x", content_type="text/plain", **V1)
    assert answer.json()["error"]["code"] == -32005


def test_a_queued_task_is_cancelled(alice_api, agent):
    task = send(alice_api, agent)
    cancelled = rpc(alice_api, agent, "CancelTask", {"id": task["id"]}).json()["result"]
    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"


def test_a_refused_message_leaves_nothing_behind(alice_api, agent):
    assert send(alice_api, agent, contextId="mine", parts=[{"text": ""}])["code"] == -32602
    assert send(alice_api, agent, role="ROLE_AGENT")["code"] == -32602
    assert send(alice_api, agent, messageId="x" * 300)["code"] == -32602
    assert not Session.objects.exists()


def test_every_state_of_a_run_is_found_by_its_name(alice_api, agent):
    cases = {
        "TASK_STATE_SUBMITTED": ("queued", {}),
        "TASK_STATE_WORKING": ("waiting", {"waiting_for": "device"}),
        "TASK_STATE_INPUT_REQUIRED": ("waiting", {"waiting_for": "input"}),
        "TASK_STATE_AUTH_REQUIRED": ("waiting", {"waiting_for": "approval"}),
        "TASK_STATE_COMPLETED": ("partial", {}),
        "TASK_STATE_CANCELED": ("cancelled", {}),
        "TASK_STATE_FAILED": ("failed", {"error": {"code": "model_failed", "message": "no"}}),
        "TASK_STATE_REJECTED": ("failed", {"error": {"code": task_states.REFUSED, "message": "no"}}),
    }
    ids = {}
    for number, (state, (status, values)) in enumerate(cases.items()):
        ids[state] = send(alice_api, agent, messageId=f"m{number}")["id"]
        Run.objects.get(pk=ids[state]).change(status, **values)
    for state, id in ids.items():
        found = rpc(alice_api, agent, "ListTasks", {"status": state}).json()["result"]
        assert [(task["id"], task["status"]["state"]) for task in found["tasks"]] == [(id, state)], state


def test_a_list_is_read_page_by_page(alice_api, agent):
    ids = [send(alice_api, agent, messageId=f"m{number}")["id"] for number in range(5)]
    seen, token = [], ""
    for _ in range(3):
        page = alice_api.get(f"/a2a/{agent}/tasks?pageSize=2&pageToken={token}", **V1).json()
        ParseDict(page, ListTasksResponse())
        assert (page["totalSize"], page["pageSize"]) == (5, 2)
        assert all("artifacts" not in task and "history" not in task for task in page["tasks"])
        seen += [task["id"] for task in page["tasks"]]
        token = page["nextPageToken"]
    assert (seen, token) == (ids[::-1], "")


def test_a_list_takes_as_many_queries_for_one_task_as_for_many(alice_api, agent, django_assert_max_num_queries):
    for number in range(5):
        id = send(alice_api, agent, messageId=f"m{number}")["id"]
        Run.objects.get(pk=id).change("waiting", waiting_for="input")
    with django_assert_max_num_queries(7):
        answer = alice_api.get(f"/a2a/{agent}/tasks?includeArtifacts=true&historyLength=3", **V1)
    assert len(answer.json()["tasks"]) == 5


# -- push notifications -----------------------------------------------------------------------------------------------

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

    monkeypatch.setattr("httpx.Client.stream", stream)

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


# -- version 0.3 ------------------------------------------------------------------------------------------------------


def older(api, agent, method, params):
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return api.post(f"/a2a/{agent}", body).json()


def test_an_older_client_sends_a_message_and_reads_its_task(alice_api, agent):
    message = {"kind": "message", "messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
    task = older(alice_api, agent, "message/send", {"message": message, "configuration": {"blocking": False}})["result"]
    assert (task["kind"], task["status"]["state"]) == ("task", "submitted")
    assert task["history"][0]["parts"] == [{"kind": "text", "text": "hello"}]
    assert older(alice_api, agent, "tasks/get", {"id": task["id"]})["result"]["id"] == task["id"]
    config = {"taskId": task["id"], "pushNotificationConfig": {"id": "mine", "url": HOOK}}
    assert older(alice_api, agent, "tasks/pushNotificationConfig/set", config)["result"] == config
    listed = older(alice_api, agent, "tasks/pushNotificationConfig/list", {"id": task["id"]})
    assert listed["result"] == [config]
    assert older(alice_api, agent, "tasks/cancel", {"id": task["id"]})["result"]["status"]["state"] == "canceled"
    assert older(alice_api, agent, "tasks/get", {"id": "nobody"})["error"]["code"] == -32001
    assert older(alice_api, agent, "message/send", {"message": {"kind": "message"}})["error"]["code"] == -32602
    assert older(alice_api, agent, "tasks/list", {})["error"]["code"] == -32601


def test_an_older_client_over_http_is_refused_in_its_form(client, alice_api, agent):
    for path in ("v1/message:send", "v1/tasks/x:cancel"):
        answer = alice_api.post(f"/a2a/{agent}/{path}", {"message": {}})
        assert (answer.status_code, answer.json()["error"]["details"][0]["reason"]) == (400, "VERSION_NOT_SUPPORTED")
        assert client.post(f"/a2a/{agent}/{path}", {}, "application/json").status_code == 401
    assert alice_api.get(f"/a2a/{agent}/v1/card").status_code == 400


def test_an_older_client_reads_the_card(alice_api, agent):
    card = OlderCard.model_validate(alice_api.get(f"/a2a/{agent}/.well-known/agent.json").json())
    assert (card.url.rsplit("/", 1)[-1], card.preferred_transport, card.protocol_version) == (
        str(agent),
        "JSONRPC",
        "0.3",
    )
    again = alice_api.get(f"/a2a/{agent}/.well-known/agent-card.json", HTTP_A2A_VERSION="0.3").json()
    assert again["url"] == card.url
    newer = alice_api.get(f"/a2a/{agent}/.well-known/agent-card.json").json()
    assert "url" not in newer
