"""A2A with several people: a team-mate uses a shared agent, and never sees the tasks of another person."""

import json

import pytest

from agents.models import Agent
from runs.models import Run, Session, Webhook
from tests.gateway.a2a.calls import HELLO, NOW, V1, rpc, send

PUSH = {"id": "p1", "url": "https://example.com/hook", "token": "secret-token"}


@pytest.fixture
def shared(agent, team):
    """Alice's agent, which Bob uses too."""
    agent.team = team
    agent.save()
    return agent


@pytest.fixture
def task(alice_api, shared):
    """A task of Alice with a push config."""
    configuration = {**NOW, "taskPushNotificationConfig": PUSH}
    body = {"message": {**HELLO, "parts": [{"text": "the launch code is 4711"}]}, "configuration": configuration}
    return rpc(alice_api, shared, "SendMessage", body).json()["result"]["task"]


def over_rpc(task):
    """Every operation that names a task, as parameters of JSON-RPC."""
    about = {"taskId": task["id"]}
    follow_up = {"message": {**HELLO, "messageId": "m2", **about}}
    yield from (
        ("GetTask", {"id": task["id"]}), ("CancelTask", {"id": task["id"]}), ("SubscribeToTask", {"id": task["id"]}),
        ("SendMessage", {**follow_up, "configuration": NOW}), ("SendStreamingMessage", follow_up),
        ("CreateTaskPushNotificationConfig", {**about, **PUSH, "url": "https://example.com/theirs"}),
        ("GetTaskPushNotificationConfig", {**about, "id": "p1"}), ("ListTaskPushNotificationConfigs", about),
        ("DeleteTaskPushNotificationConfig", {**about, "id": "p1"}),
    )  # fmt: skip


def over_http(task):
    """The same as method, path and body."""
    path = f"tasks/{task['id']}"
    configs = f"{path}/pushNotificationConfigs"
    follow_up = {"message": {**HELLO, "messageId": "m2", "taskId": task["id"]}}
    yield from (
        ("GET", path, None), ("POST", f"{path}:cancel", {}), ("GET", f"{path}:subscribe", None),
        ("POST", f"{path}:subscribe", {}), ("POST", "message:send", {**follow_up, "configuration": NOW}),
        ("POST", "message:stream", follow_up), ("POST", configs, {**PUSH, "url": "https://example.com/theirs"}),
        ("GET", configs, None), ("GET", f"{configs}/p1", None), ("DELETE", f"{configs}/p1", None),
    )  # fmt: skip


def over_older_rpc(task):
    """The same in version 0.3."""
    message = {"kind": "message", "messageId": "m2", "role": "user", "parts": [{"kind": "text", "text": "x"}]}
    follow_up = {"message": {**message, "taskId": task["id"]}}
    named = {"id": task["id"], "pushNotificationConfigId": "p1"}
    config = {"taskId": task["id"], "pushNotificationConfig": {"id": "p1", "url": "https://example.com/theirs"}}
    yield from (
        ("tasks/get", {"id": task["id"]}), ("tasks/cancel", {"id": task["id"]}),
        ("tasks/resubscribe", {"id": task["id"]}), ("message/send", follow_up), ("message/stream", follow_up),
        ("tasks/pushNotificationConfig/set", config), ("tasks/pushNotificationConfig/get", named),
        ("tasks/pushNotificationConfig/list", {"id": task["id"]}), ("tasks/pushNotificationConfig/delete", named),
    )  # fmt: skip


@pytest.mark.parametrize("who", ["bob_api", "charlie_api"])
@pytest.mark.parametrize("router", [False, True])
def test_the_task_of_another_user_is_not_found(request, task, shared, who, router):
    """A team-mate with the shared agent, and a stranger, over each binding and version."""
    api, name = request.getfixturevalue(who), "router" if router else shared
    for method, params in over_rpc(task):
        assert rpc(api, name, method, params).json()["error"]["code"] == -32001, method
    for method, params in over_older_rpc(task):
        answer = rpc(api, name, method, params, HTTP_A2A_VERSION="0.3")
        assert answer.json()["error"]["code"] == -32001, method
    for method, path, body in over_http(task):
        answer = api.generic(
            method,
            f"/a2a/{name}/{path}",
            json.dumps(body) if body is not None else "",
            content_type="application/json",
            **V1,
        )
        assert (answer.status_code, answer.json()["error"]["details"][0]["reason"]) == (404, "TASK_NOT_FOUND"), path
    found = [api.get(f"/a2a/{name}/tasks?{query}", **V1) for query in ("", f"contextId={task['contextId']}")]
    assert all(answer.json()["totalSize"] == 0 and "4711" not in answer.content.decode() for answer in found)
    run, config = Run.objects.get(), Webhook.objects.get()
    assert (run.status, config.url, run.session.messages.count()) == ("queued", PUSH["url"], 1)


def test_the_owner_does_not_see_the_tasks_of_a_team_mate(alice_api, bob_api, shared):
    task = send(bob_api, shared)
    assert rpc(alice_api, shared, "GetTask", {"id": task["id"]}).json()["error"]["code"] == -32001
    assert rpc(alice_api, shared, "ListTasks").json()["result"]["tasks"] == []
    assert [one["id"] for one in rpc(bob_api, shared, "ListTasks").json()["result"]["tasks"]] == [task["id"]]


def test_a_team_mate_reads_the_card_and_does_not_change_it(bob_api, charlie_api, shared):
    for path in (f"/a2a/{shared}/.well-known/agent-card.json", f"/a2a/{shared}/extendedAgentCard"):
        assert bob_api.get(path, **V1).json()["name"] == shared.name
        assert charlie_api.get(path, **V1).status_code == 404
    for fields in ({"public_card": True}, {"a2a_reply": "message"}):
        assert bob_api.patch(f"/api/v1/agents/{shared}", fields, content_type="application/json").status_code == 403
        assert charlie_api.patch(f"/api/v1/agents/{shared}", fields, content_type="application/json").status_code == 404


def test_a_stranger_finds_neither_agent_nor_task(alice_api, charlie_api, agent):
    task = send(alice_api, agent)
    assert charlie_api.get(f"/a2a/{agent}/.well-known/agent-card.json").status_code == 404
    assert send(charlie_api, agent)["code"] == -32602
    for name in (agent, "router"):
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            assert rpc(charlie_api, name, method, {"id": task["id"]}).json()["error"]["code"] == -32001
        assert rpc(charlie_api, name, "ListTasks").json()["result"]["tasks"] == []
        assert rpc(charlie_api, name, "ListTasks", {"contextId": task["contextId"]}).json()["result"]["tasks"] == []
    assert send(charlie_api, "router", taskId=task["id"])["code"] == -32001
    assert Run.objects.get().status == "queued"


def test_a_context_of_another_user_is_not_continued(alice_api, bob_api, agent, make_agent, bob):
    task = send(alice_api, agent, contextId="shared")
    mine = make_agent("bobs")
    Agent.objects.filter(pk=mine.pk).update(owner=bob)
    first = send(bob_api, mine, contextId="shared")
    assert first["contextId"] == "shared" and first["id"] != task["id"]
    other = send(bob_api, mine, contextId=str(Run.objects.get(pk=task["id"]).session_id), messageId="m2")
    sessions = Session.objects.values_list("owner__username", flat=True)
    assert sorted(sessions) == ["alice", "bob", "bob"] and "id" in other
