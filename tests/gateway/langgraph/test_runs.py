"""Runs through LangGraph's SDK: waited for, in the background, streamed, cancelled, refused."""

import httpx2
import pytest
from langgraph_sdk import errors

from tests.fakes import calls, says
from tests.gateway.langgraph.sdk import human, texts_of, wait_until

pytestmark = pytest.mark.live


# -- runs ----------------------------------------------------------------------------------------------------------------


def test_a_run_is_waited_for(client, model):
    model.script(calls(("calculate", {"expression": "6 * 7"})), says("42."))
    thread = client.threads.create()["thread_id"]
    made = []
    values = client.runs.wait(thread, "clerk", input=human("6 * 7?"), on_run_created=made.append)
    _, asked, result, answer = values["messages"]
    assert asked["tool_calls"][0]["name"] == "calculate" and result["tool_call_id"] == asked["tool_calls"][0]["id"]
    assert result["status"] == "success" and "42" in result["content"] and answer["content"] == "42."
    assert client.threads.get_state(thread)["values"] == values
    run = client.runs.get(thread, made[0]["run_id"])
    assert run["status"] == "success" and client.assistants.get(run["assistant_id"])["name"] == "clerk"
    assert client.threads.search(metadata={"graph_id": "clerk"}, limit=1)[0]["thread_id"] == thread
    assert client.threads.search(metadata={"assistant_id": run["assistant_id"]}, limit=1)[0]["thread_id"] == thread


def test_a_run_in_the_background(client, model):
    model.script(says("Done."))
    thread = client.threads.create()["thread_id"]
    run = client.runs.create(thread, "plain", input=human("go"), metadata={"mine": 1})
    assert run["status"] in ("pending", "running", "success") and run["metadata"] == {"mine": 1}
    assert texts_of(client.runs.join(thread, run["run_id"])) == [("human", "go"), ("ai", "Done.")]
    assert [one["run_id"] for one in client.runs.list(thread)] == [run["run_id"]]
    assert client.runs.list(thread, status="error") == []
    assert client.runs.list(thread, select=["run_id"]) == [{"run_id": run["run_id"]}]
    events = list(client.runs.join_stream(thread, run["run_id"], stream_mode=["updates"], last_event_id="-1"))
    assert [one.event for one in events] == ["metadata", "updates", "end"]
    assert [one.event for one in client.runs.join_stream(thread, run["run_id"])][-1] == "end"  # without a mode
    with pytest.raises(errors.UnprocessableEntityError, match="history"):
        client.runs.delete(thread, run["run_id"])


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("values", {"values"}),
        ("updates", {"updates"}),
        ("messages-tuple", {"messages"}),
        ("messages", {"messages/metadata", "messages/partial", "messages/complete"}),
        ("events", {"events"}),
    ],
)
def test_stream_modes(client, model, mode, names):
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("It is two.", pause_s=0.05))
    thread = client.threads.create()["thread_id"]
    events = list(client.runs.stream(thread, "clerk", input=human("1 + 1?"), stream_mode=mode))
    assert events[0].event == "metadata" and events[-1].event == "end"
    assert {one.event for one in events[1:-1]} == names
    if mode == "values":
        assert events[-2].data == client.threads.get_state(thread)["values"]
    if mode == "updates":
        assert [list(one.data) for one in events[1:-1]] == [["model"], ["tools"], ["model"]]
    if mode == "messages-tuple":
        text = "".join(one.data[0]["content"] for one in events[1:-1] if one.data[0]["type"] == "AIMessageChunk")
        assert text == "It is two." and {one.data[1]["langgraph_node"] for one in events[1:-1]} == {"model", "tools"}


def test_a_stream_is_joined_where_it_broke_off(client, model):
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("Two."))
    thread = client.threads.create()["thread_id"]
    events = list(client.runs.stream(thread, "clerk", input=human("1 + 1?"), stream_mode="updates"))
    run = events[0].data["run_id"]
    again = list(client.runs.join_stream(thread, run, stream_mode="updates", last_event_id=events[1].id))
    assert [(one.event, one.data) for one in again] == [(one.event, one.data) for one in events[2:]]


def test_stateless_runs(client, model):
    model.script(says("One."), says("Two."), says("Three."), says("Four."))
    before = client.threads.count()
    assert texts_of(client.runs.wait(None, "plain", input=human("a")))[-1] == ("ai", "One.")
    events = list(client.runs.stream(None, "plain", input=human("b"), stream_mode="values"))
    assert texts_of(events[-2].data)[-1] == ("ai", "Two.")
    runs = client.runs.create_batch([{"assistant_id": "plain", "input": human(word)} for word in "cd"])
    for run in runs:
        client.runs.join(run["thread_id"], run["run_id"])
    assert client.threads.count() == before
    client.runs.wait(None, "plain", input=human("kept"), on_completion="keep")
    assert client.threads.count() == before + 1


def test_cancelling(client, model):
    model.script(says("slow", silent_s=30), says("slow", silent_s=30))
    thread = client.threads.create()["thread_id"]
    run = client.runs.create(thread, "plain", input=human("go"))["run_id"]
    assert client.threads.get(thread)["status"] == "busy"
    assert client.runs.cancel(thread, run, wait=True)["status"] == "interrupted"
    assert client.runs.cancel(thread, run)["status"] == "interrupted"  # twice is no error
    other = client.runs.create(thread, "plain", input=human("go"))["run_id"]
    client.runs.cancel_many(thread_id=thread, run_ids=[other])
    assert wait_until(lambda: client.runs.get(thread, other)["status"] == "interrupted")


def test_a_busy_thread(client, model):
    model.script(says("slow", silent_s=30), says("Second."))
    thread = client.threads.create()["thread_id"]
    first = client.runs.create(thread, "plain", input=human("one"))["run_id"]
    with pytest.raises(errors.ConflictError):
        client.runs.create(thread, "plain", input=human("two"), multitask_strategy="reject")
    with pytest.raises(errors.UnprocessableEntityError, match="rollback"):
        client.runs.create(thread, "plain", input=human("two"), multitask_strategy="rollback")
    with pytest.raises(errors.ConflictError):
        client.threads.update_state(thread, human("meanwhile"))
    second = client.runs.create(thread, "plain", input=human("two"), multitask_strategy="interrupt")["run_id"]
    assert texts_of(client.runs.join(thread, second))[-1] == ("ai", "Second.")
    assert client.runs.get(thread, first)["status"] == "interrupted"


def test_enqueued_runs_are_streamed_with_what_was_said_before(client, model):
    model.script(says("First.", silent_s=0.5), says("Second."))
    thread = client.threads.create()["thread_id"]
    client.runs.create(thread, "plain", input=human("one"))
    events = list(client.runs.stream(thread, "plain", input=human("two"), stream_mode="values"))
    texts = [("human", "one"), ("ai", "First."), ("human", "two"), ("ai", "Second.")]
    assert texts_of(events[-2].data) == texts_of(client.threads.get_state(thread)["values"]) == texts


def test_the_reader_that_leaves_may_stop_the_run(client, model):
    model.script(says("one two three four", pause_s=2), says("x", silent_s=1))
    thread = client.threads.create()["thread_id"]
    stream = client.runs.stream(
        thread, "plain", input=human("go"), stream_mode="messages-tuple", on_disconnect="cancel"
    )
    run = next(iter(stream)).data["run_id"]
    stream.close()
    assert wait_until(lambda: client.runs.get(thread, run)["status"] == "interrupted")


def test_a_failed_run(client, model):
    model.script(*[says("", status=400)] * 8)
    thread = client.threads.create()["thread_id"]
    events = list(client.runs.stream(thread, "plain", input=human("hi"), stream_mode="values"))
    assert events[-1].event == "error" and events[-1].data["error"] and events[-1].data["message"]
    assert client.threads.get(thread)["status"] == "error"
    assert client.runs.wait(thread, "plain", input=human("hi"), raise_error=False)["__error__"]["error"]


# -- what is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"interrupt_before": ["tools"]}, "interrupt_before"),
        ({"webhook": "https://example.org"}, "webhook"),
        ({"after_seconds": 5}, "after_seconds"),
        ({"stream_mode": "debug"}, "debug"),
        ({"context": {"nobody": "asked"}}, "nobody"),
        ({"config": {"run_name": "x"}}, "run_name"),
    ],
)
def test_what_muster_does_not_have_is_refused(client, more, message):
    thread = client.threads.create()["thread_id"]
    with pytest.raises(errors.UnprocessableEntityError, match=message):
        client.runs.create(thread, "plain", input=human("hi"), **more)
    assert client.runs.list(thread) == []


def test_unknown_paths_and_fields(client, agents):
    live, key = agents
    with httpx2.Client(base_url=f"{live.url}/langgraph", headers={"x-api-key": key}) as http:
        assert http.post("/threads/prune", json={"thread_ids": []}).json()["code"] == "not_supported"
        for path in ("/threads/x/stream/events", "/nothing"):
            answer = http.get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_supported"), path
        assert http.post("/threads", json={"colour": "red"}).json()["code"] == "unknown_field"
        assert http.post("/threads/search", json=[]).status_code == 422
        assert http.get("/ok").json() == {"ok": True} and http.get("/info").json()["flags"]["assistants"]
