"""Sessions as threads, with their state and history, through LangGraph's SDK."""

import uuid

import pytest
from langgraph_sdk import errors

from tests.fakes import says
from tests.gateway.langgraph.sdk import human, texts_of

pytestmark = pytest.mark.live


def test_threads(client):
    mark = uuid.uuid4().hex
    thread = client.threads.create(metadata={"mark": mark, "vip": True}, graph_id="plain")
    assert thread["status"] == "idle" and thread["metadata"]["graph_id"] == "plain"
    id = thread["thread_id"]
    assert client.threads.get(id)["metadata"]["mark"] == mark
    assert client.threads.create(thread_id=id, if_exists="do_nothing")["thread_id"] == id
    with pytest.raises(errors.ConflictError):
        client.threads.create(thread_id=id)
    client.threads.update(id, metadata={"colour": "red"})
    assert client.threads.search(metadata={"mark": mark, "vip": True})[0]["metadata"]["colour"] == "red"
    assert client.threads.search(metadata={"mark": mark, "vip": False}) == []
    assert client.threads.count(metadata={"mark": mark}) == 1
    assert client.threads.count(metadata={"mark": mark}, status="busy") == 0
    assert client.threads.search(ids=[id], select=["thread_id"]) == [{"thread_id": id}]
    client.threads.delete(id)
    with pytest.raises(errors.NotFoundError):
        client.threads.get(id)


def test_state_history_and_a_copy(client, model):
    model.script(says("Hello."), says("Again."))
    thread = client.threads.create()["thread_id"]
    assert client.threads.get_state(thread)["values"] == {"messages": []} and client.threads.get_history(thread) == []
    client.runs.wait(thread, "plain", input=human("hi"))
    client.runs.wait(thread, "plain", input=human("more"))
    state = client.threads.get_state(thread)
    texts = [("human", "hi"), ("ai", "Hello."), ("human", "more"), ("ai", "Again.")]
    assert texts_of(state["values"]) == texts and state["next"] == []
    history = client.threads.get_history(thread)
    assert [len(one["values"]["messages"]) for one in history] == [4, 3, 2, 1]
    assert history[0]["checkpoint"] == state["checkpoint"]
    assert history[0]["parent_checkpoint"] == history[1]["checkpoint"]
    earlier = client.threads.get_state(thread, checkpoint_id=history[2]["checkpoint"]["checkpoint_id"])
    assert earlier == client.threads.get_state(thread, checkpoint=history[2]["checkpoint"]) == history[2]
    assert client.threads.get_history(thread, limit=1, before=history[0]["checkpoint"]) == history[1:2]
    copy = client.threads.copy(thread)["thread_id"]
    assert texts_of(client.threads.get_state(copy)["values"]) == texts
    with pytest.raises(errors.UnprocessableEntityError, match="latest checkpoint"):
        client.runs.create(thread, "plain", input=human("no"), checkpoint=history[2]["checkpoint"])


def test_messages_are_added_to_a_state(client, model):
    model.script(says("Alice."))
    steps = [{"updates": [{"values": human("I am Alice."), "as_node": "__start__"}]}]
    thread = client.threads.create(supersteps=steps)["thread_id"]
    client.threads.update_state(thread, {"messages": [{"role": "assistant", "content": "Hello Alice."}]})
    values = client.threads.get_state(thread)["values"]
    client.runs.wait(thread, "plain", input={"messages": [*values["messages"], {"role": "user", "content": "Who?"}]})
    sent = [one["content"] for one in model.requests[0]["messages"]][1:]
    assert sent == ["I am Alice.", "Hello Alice.", "Who?"]  # what the thread has already is not repeated
