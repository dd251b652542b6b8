"""Approvals and questions as interrupts, through LangGraph's SDK."""

import httpx
import pytest
from langgraph_sdk import errors

from tests.fakes import calls, says
from tests.gateway.langgraph.sdk import human, texts_of

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    ("decision", "outcome"),
    [
        ({"type": "approve"}, "2"),
        ({"type": "edit", "edited_action": {"name": "calculate", "args": {"expression": "2 + 2"}}}, "4"),
        ({"type": "reject", "message": "not now"}, "not now"),
    ],
)
def test_an_approval_is_an_interrupt(client, model, decision, outcome):
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("Done."))
    thread = client.threads.create()["thread_id"]
    events = list(client.runs.stream(thread, "careful", input=human("1 + 1?"), stream_mode=["values", "updates"]))
    (interrupt,) = events[-2].data["__interrupt__"]
    assert interrupt["value"]["action_requests"][0]["args"] == {"expression": "1 + 1"}
    assert interrupt["value"]["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject"]
    waiting = client.threads.get(thread)
    assert waiting["status"] == "interrupted" and list(waiting["interrupts"].values()) == [[interrupt]]
    state = client.threads.get_state(thread)
    assert state["next"] == ["tools"] and state["interrupts"] == state["tasks"][0]["interrupts"] == [interrupt]
    assert state["values"]["messages"][-1]["tool_calls"][0]["name"] == "calculate"
    command = {"resume": {"decisions": [decision]}}
    events = list(client.runs.stream(thread, "careful", command=command, stream_mode="values"))
    values = events[-2].data
    assert texts_of(values)[-1] == ("ai", "Done.") and outcome in values["messages"][-2]["content"]
    assert values == client.threads.get_state(thread)["values"] and client.threads.get(thread)["status"] == "idle"
    with pytest.raises(errors.ConflictError, match="waits for no answer"):
        client.runs.create(thread, "careful", command=command)


def test_two_approvals_are_decided_together(client, model):
    model.script(calls(("calculate", {"expression": "1 + 1"}), ("calculate", {"expression": "2 + 2"})), says("Done."))
    thread = client.threads.create()["thread_id"]
    (interrupt,) = client.runs.wait(thread, "careful", input=human("both"))["__interrupt__"]
    assert len(interrupt["value"]["action_requests"]) == 2
    with pytest.raises(httpx.HTTPStatusError):
        client.runs.wait(thread, "careful", command={"resume": {"decisions": [{"type": "approve"}]}})
    decisions = {"decisions": [{"type": "approve"}, {"type": "reject"}]}
    values = client.runs.wait(thread, "careful", command={"resume": {interrupt["id"]: decisions}})
    assert [one["status"] for one in values["messages"] if one["type"] == "tool"] == ["success", "error"]


def test_a_question_is_an_interrupt(client, model):
    model.script(calls(("ask_user", {"question": "Which?", "options": ["red", "blue"]})), says("Blue."))
    thread = client.threads.create()["thread_id"]
    run = client.runs.create(thread, "curious", input=human("paint"))["run_id"]
    (interrupt,) = client.runs.join(thread, run)["__interrupt__"]
    assert interrupt["value"]["question"] == "Which?" and interrupt["response_schema"]["enum"] == ["red", "blue"]
    assert client.runs.get(thread, run)["status"] == "interrupted"
    with pytest.raises(errors.UnprocessableEntityError):
        client.runs.create(thread, "curious", command={"resume": "green"})
    resumed = client.runs.create(thread, "curious", command={"resume": "blue"})["run_id"]
    assert resumed == run and texts_of(client.runs.join(thread, run))[-1] == ("ai", "Blue.")


def test_a_new_message_takes_the_place_of_what_waited(client, model):
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("Never mind."))
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "careful", input=human("1 + 1?"))
    assert texts_of(client.runs.wait(thread, "careful", input=human("Stop.")))[-1] == ("ai", "Never mind.")
    assert [one["status"] for one in client.runs.list(thread)] == ["success", "interrupted"]
