"""Requests to A2A agents that are refused, without a worker."""

import pytest

from agents.models import ApiKey
from runs.models import Run
from tests.gateway.a2a.calls import HELLO, V1, rpc, send


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
