"""`acceptedOutputModes`, `referenceTaskIds` and `tenant`: honoured, or refused with their reason."""

import json

import pytest

from gateway.a2a.updates import Updates
from runs.events.frames import Frame
from runs.models import Message, Run
from tests.gateway.a2a.calls import HELLO, NOW, V1, ended, rpc, send

TEXT, DATA = "text/plain", "application/json"
OUTPUT = {"total": 3}


def start(api, agent, modes, **message):
    configuration = {**NOW, **({} if modes is None else {"acceptedOutputModes": modes})}
    body = {"message": {**HELLO, "messageId": f"m-{modes}", **message}, "configuration": configuration}
    return rpc(api, agent, "SendMessage", body).json()


def finish(task, *, output=None, reply=""):
    run = Run.objects.get(pk=task["id"])
    if reply:
        content = [{"type": "text", "text": reply}]
        Message.objects.create(session=run.session, run=run, seq=99, role="assistant", content=content)
    ended(task["id"], output=output)


def artifacts(api, agent, task):
    found = rpc(api, agent, "GetTask", {"id": task["id"]}).json()["result"]["artifacts"]
    return {one["artifactId"]: one["parts"] for one in found}


# -- modes -------------------------------------------------------------------------------------------------------------

BOTH = {"output": [{"data": OUTPUT, "mediaType": DATA}], "reply": [{"text": '{"total":3}'}]}
ACCEPTED = [
    (None, BOTH),
    ([], BOTH),
    (["*/*"], BOTH),
    (["file"], BOTH),
    (["text/*", "application/*"], BOTH),
    ([TEXT, "image/png"], {"reply": [{"text": '{"total":3}'}]}),
    (["text"], {"reply": [{"text": '{"total":3}'}]}),
    (["TEXT/PLAIN; charset=utf-8"], {"reply": [{"text": '{"total":3}'}]}),
    ([DATA], {"output": [{"data": OUTPUT, "mediaType": DATA}]}),
    (["data"], {"output": [{"data": OUTPUT, "mediaType": DATA}]}),
]


@pytest.mark.parametrize(("modes", "expected"), ACCEPTED)
def test_a_client_gets_what_it_accepts(alice_api, agent, modes, expected):
    task = start(alice_api, agent, modes)["result"]["task"]
    finish(task, output=OUTPUT, reply='{"total":3}')
    assert artifacts(alice_api, agent, task) == expected


def test_a_text_is_json_where_only_that_is_accepted_and_the_other_way_round(alice_api, agent):
    task = start(alice_api, agent, [DATA])["result"]["task"]
    finish(task, reply="Done.")
    assert artifacts(alice_api, agent, task) == {"reply": [{"data": "Done.", "mediaType": DATA}]}
    task = start(alice_api, agent, [TEXT])["result"]["task"]
    finish(task, output=OUTPUT)
    [part] = artifacts(alice_api, agent, task)["output"]
    assert json.loads(part["text"]) == OUTPUT


@pytest.mark.parametrize("modes", [["image/png"], ["audio/*", "application/pdf"]])
def test_a_client_that_accepts_neither_text_nor_json_is_refused(alice_api, agent, modes):
    error = start(alice_api, agent, modes)["error"]
    assert error["code"] == -32005 and "accept" in error["message"]
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    "modes", ["text/plain", [7], [None], [""], ["no type"], ["a/b/c"], ["text/plain"] * 51, [{}], 7]
)
def test_what_is_no_list_of_types_is_refused(alice_api, agent, modes):
    assert start(alice_api, agent, modes)["error"]["code"] == -32602
    assert not Run.objects.exists()


def frame(type, **data):
    return Frame.of({"run": "r", "seq": 1, "type": type, "data": data})


def streamed(run, *frames):
    updates = Updates(run)
    found = [
        update["artifactUpdate"]["artifact"]
        for one in frames
        for update in updates.take(one)
        if "artifactUpdate" in update
    ]
    return [(one["artifactId"], one["parts"]) for one in found]


def test_a_stream_holds_what_is_accepted(alice_api, agent):
    run = Run.objects.get(pk=start(alice_api, agent, [DATA])["result"]["task"]["id"])
    said = frame("message.delta", turn=1, offset=0, text="Do"), frame("message.delta", turn=1, offset=2, text="ne.")
    file = frame("artifact.created", file="f1", name="a.png", media_type="image/png")
    end = frame("run.finished", status="succeeded", output=None, reply={"text": "Done."}, usage={})
    found = streamed(run, *said, file, end)
    assert [id for id, _ in found] == ["f1", "reply"] and found[1][1] == [{"data": "Done.", "mediaType": DATA}]
    assert found[0][1][0]["data"].startswith("a.png (image/png): http")
    run.metadata = {"a2a_modes": [TEXT]}
    end = frame("run.finished", status="succeeded", output=OUTPUT, reply={"text": '{"total":3}'}, usage={})
    assert {id for id, _ in streamed(run, *said, end)} == {"reply"}


# -- references --------------------------------------------------------------------------------------------------------


def test_a_message_goes_on_in_the_context_of_the_tasks_it_refers_to(alice_api, agent):
    first = send(alice_api, agent)
    ended(first["id"])
    task = send(alice_api, agent, messageId="m2", referenceTaskIds=[first["id"], first["id"]])
    assert task["contextId"] == first["contextId"]
    ended(task["id"])
    again = send(alice_api, agent, messageId="m3", referenceTaskIds=[first["id"]], contextId=first["contextId"])
    assert again["contextId"] == first["contextId"]


def test_tasks_of_other_contexts_are_refused(alice_api, agent):
    first, second = send(alice_api, agent), send(alice_api, agent, messageId="m2")
    ended(first["id"])
    ended(second["id"])
    both = [first["id"], second["id"]]
    assert send(alice_api, agent, messageId="m3", referenceTaskIds=both)["code"] == -32004
    other = send(alice_api, agent, messageId="m4", referenceTaskIds=both[:1], contextId=second["contextId"])
    assert other["code"] == -32004 and "context" in other["message"]
    assert send(alice_api, agent, messageId="m5", referenceTaskIds=both[:1], contextId="new")["code"] == -32004
    assert Run.objects.count() == 2


@pytest.mark.parametrize("ids", [["nobody"], ["00000000-0000-0000-0000-000000000000"], ["\u200b"], [""]])
def test_tasks_that_are_not_there_are_refused(alice_api, agent, ids):
    assert send(alice_api, agent, referenceTaskIds=ids)["code"] == -32001
    assert not Run.objects.exists()


@pytest.mark.parametrize("ids", ["text", 7, [7], [{}], [f"{n}" for n in range(21)]])
def test_what_is_no_list_of_ids_is_refused(alice_api, agent, ids):
    assert send(alice_api, agent, referenceTaskIds=ids)["code"] == -32602
    assert not Run.objects.exists()


def test_a_team_mates_task_is_not_there(alice_api, bob_api, agent, team):
    agent.team = team
    agent.save()
    theirs = send(alice_api, agent)
    assert send(bob_api, agent, messageId="m2", referenceTaskIds=[theirs["id"]])["code"] == -32001
    assert Run.objects.count() == 1


def test_nor_is_a_strangers(alice_api, charlie_api, charlie, agent, make_agent):
    theirs = send(alice_api, agent)
    own = make_agent("own")
    own.owner = charlie
    own.save()
    assert send(charlie_api, own, messageId="m2", referenceTaskIds=[theirs["id"]])["code"] == -32001
    assert Run.objects.count() == 1


# -- tenants -----------------------------------------------------------------------------------------------------------

METHODS = ["SendMessage", "GetTask", "ListTasks", "CancelTask", "GetTaskPushNotificationConfig"]


@pytest.mark.parametrize("method", METHODS)
def test_a_tenant_is_refused_everywhere(alice_api, agent, method):
    task = send(alice_api, agent)
    params = {"id": task["id"], "taskId": task["id"], "message": {**HELLO, "messageId": "m2"}, "tenant": "acme"}
    error = rpc(alice_api, agent, method, params).json()["error"]
    assert error["code"] == -32602 and "tenant" in error["message"]
    assert Run.objects.count() == 1


def test_a_tenant_in_an_address_or_inside_the_configuration_is_refused(alice_api, agent):
    assert alice_api.get(f"/a2a/{agent}/tasks?tenant=acme", **V1).status_code == 400
    assert alice_api.get(f"/a2a/{agent}/acme/tasks", **V1).status_code == 404
    push = {"url": "https://example.com/hook", "tenant": "acme"}
    configuration = {**NOW, "taskPushNotificationConfig": push}
    answer = rpc(alice_api, agent, "SendMessage", {"message": HELLO, "configuration": configuration}).json()
    assert "tenant" in answer["error"]["message"] and not Run.objects.exists()


@pytest.mark.parametrize("tenant", ["", None])
def test_no_tenant_is_none(alice_api, agent, tenant):
    body = {"message": HELLO, "configuration": NOW, "tenant": tenant}
    assert "result" in rpc(alice_api, agent, "SendMessage", body).json()
