"""Requests of an A2A client."""

from runs.models import Run

V1 = {"HTTP_A2A_VERSION": "1.0"}
HELLO = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
NOW = {"returnImmediately": True}


def rpc(api, agent, method, params=None, **headers):
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
    return api.post(f"/a2a/{agent}", body, **{**V1, **headers})


def send(api, agent, **message):
    answer = rpc(api, agent, "SendMessage", {"message": {**HELLO, **message}, "configuration": NOW}).json()
    return answer["result"]["task"] if "result" in answer else answer["error"]


def ended(id, status="succeeded", **values):
    run = Run.objects.get(pk=id)
    run.change(status, finished_at=run.created_at, **values)
