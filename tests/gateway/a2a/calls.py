"""Requests of an A2A client."""

from runs.models import Run

V1 = {"HTTP_A2A_VERSION": "1.0"}
HELLO = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
NOW = {"returnImmediately": True}


def rpc(api, agent, method, params=None, **headers):
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
    return api.post(f"/a2a/{agent}", body, **{**V1, **headers})


def send(api, agent, **message):
    """The task that a message has started, or the error."""
    params = {"message": {**HELLO, **message}, "configuration": NOW}
    answer = rpc(api, agent, "SendMessage", params).json()
    if "error" in answer:
        return answer["error"]
    return answer["result"]["task"]


def ended(id, status="succeeded", **values):
    """Ends a run as its worker would."""
    run = Run.objects.get(pk=id)
    run.change(status, finished_at=run.created_at, **values)
