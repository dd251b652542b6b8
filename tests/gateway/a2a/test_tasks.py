"""Runs as A2A tasks, without a worker: their start, their states, and lists of them."""

from datetime import timedelta
from uuid import UUID

from a2a.types import ListTasksResponse, Task
from django.utils.timezone import now
from google.protobuf.json_format import ParseDict

from gateway import turns
from gateway.a2a import operations
from runs.models import InputRequest, Message, Run, Session, ToolCallRecord, Webhook
from runs.queue import endings
from runs.rules import task_states
from tests.gateway.a2a.calls import HELLO, NOW, V1, ended, rpc, send

TEXT_PART = {"type": "text", "text": "Done."}

# -- tasks ---------------------------------------------------------------------------------------------------------------


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
    answer = turns.answer_waiting_run

    def answered(*args, **more):
        turn = answer(*args, **more)
        assert endings.finish_run(Run.objects.get(pk=run.pk), "succeeded", reply="Blue it is.")
        return turn

    monkeypatch.setattr(turns, "answer_waiting_run", answered)
    message = {**HELLO, "messageId": "m2", "taskId": str(run.pk)}
    task, turn = operations.send_streaming(operations.Call(alice, None, str(agent)), {"message": message})
    assert (task["status"]["state"], task["artifacts"]) == (task_states.WORKING, [])
    assert [frame.type for frame in turns.iterate_stored_frames(turn)][-1] == "run.finished"


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
