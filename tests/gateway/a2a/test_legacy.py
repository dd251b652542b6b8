"""Clients of A2A version 0.3."""

from a2a.compat.v0_3.types import AgentCard as OlderCard

from tests.gateway.a2a.test_pushes import HOOK


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
