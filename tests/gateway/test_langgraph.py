"""LangGraph's own SDK, unchanged, against a running Muster: assistants, threads and runs."""

import time
import uuid

import httpx
import pytest
from langgraph_sdk import errors, get_sync_client

from tests.fakes import calls, says
from tests.gateway.live_agents import new_key

pytestmark = pytest.mark.live


@pytest.fixture
def client(agents, model):
    live, key = agents
    model.turns.clear()
    model.requests.clear()
    return client_of(live, key)


def client_of(live, key):
    return get_sync_client(url=f"{live.url}/langgraph", api_key=key, timeout=60)


@pytest.fixture
def stranger(agents, langgraph_stranger_key):
    return client_of(agents[0], langgraph_stranger_key)


@pytest.fixture(scope="module")
def langgraph_stranger_key(agents):
    return new_key(agents[0], "langgraph_stranger", "*", "approvals:decide")


def human(text, **more):
    return {"messages": [{"type": "human", "content": text, **more}]}


def said(values):
    return [(one["type"], one["content"]) for one in values["messages"]]


def wait_until(condition, seconds=20):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


# -- assistants -------------------------------------------------------------------------------------------------------


def test_assistants_are_the_agents(client):
    found = client.assistants.search(graph_id="clerk")
    assert [(one["graph_id"], one["name"], one["version"]) for one in found] == [("clerk", "clerk", 1)]
    assert uuid.UUID(found[0]["assistant_id"]).version == 8
    assert client.assistants.get(found[0]["assistant_id"]) == client.assistants.get("clerk") == found[0]
    assert client.assistants.count(name="areful") == 1
    assert client.assistants.search(metadata={"tier": "gold"}) == []
    assert [one["version"] for one in client.assistants.get_versions("clerk")] == [1]
    assert client.assistants.set_latest("clerk", 1)["version"] == 1
    with pytest.raises(errors.UnprocessableEntityError, match="no version 7"):
        client.assistants.set_latest("clerk", 7)


def test_pages_of_assistants(client):
    page = client.assistants.search(limit=2, sort_by="name", sort_order="asc", response_format="object")
    assert len(page["assistants"]) == 2 and page["next"] == "2"
    assert client.assistants.search(limit=1, offset=1, sort_by="name", sort_order="asc") == page["assistants"][1:]
    assert client.assistants.search(limit=1, select=["name"])[0].keys() == {"name"}


def test_graph_and_schemas(client):
    graph = client.assistants.get_graph("clerk", xray=True)
    assert [node["id"] for node in graph["nodes"]] == ["__start__", "model", "tools", "__end__"]
    assert {"source": "tools", "target": "model"} in graph["edges"]
    assert "messages" in client.assistants.get_schemas("clerk")["input_schema"]["properties"]
    assert client.assistants.get_subgraphs("clerk") == {}


def test_assistants_are_not_edited_here(client):
    assert client.assistants.create("clerk", if_exists="do_nothing", config={"tags": ["x"]})["graph_id"] == "clerk"
    with pytest.raises(errors.ConflictError):
        client.assistants.create("clerk")
    with pytest.raises(errors.NotFoundError):
        client.assistants.create("nobody", if_exists="do_nothing")
    for refused in (lambda: client.assistants.update("clerk", name="x"), lambda: client.assistants.delete("clerk")):
        with pytest.raises(errors.UnprocessableEntityError, match="agents"):
            refused()


# -- threads ----------------------------------------------------------------------------------------------------------


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
    assert said(state["values"]) == texts and state["next"] == []
    history = client.threads.get_history(thread)
    assert [len(one["values"]["messages"]) for one in history] == [4, 3, 2, 1]
    assert history[0]["checkpoint"] == state["checkpoint"]
    assert history[0]["parent_checkpoint"] == history[1]["checkpoint"]
    earlier = client.threads.get_state(thread, checkpoint_id=history[2]["checkpoint"]["checkpoint_id"])
    assert earlier == client.threads.get_state(thread, checkpoint=history[2]["checkpoint"]) == history[2]
    assert client.threads.get_history(thread, limit=1, before=history[0]["checkpoint"]) == history[1:2]
    copy = client.threads.copy(thread)["thread_id"]
    assert said(client.threads.get_state(copy)["values"]) == texts
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


# -- runs -------------------------------------------------------------------------------------------------------------


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
    assert said(client.runs.join(thread, run["run_id"])) == [("human", "go"), ("ai", "Done.")]
    assert [one["run_id"] for one in client.runs.list(thread)] == [run["run_id"]]
    assert client.runs.list(thread, status="error") == []
    assert client.runs.list(thread, select=["run_id"]) == [{"run_id": run["run_id"]}]
    events = list(client.runs.join_stream(thread, run["run_id"], stream_mode=["updates"], last_event_id="-1"))
    assert [one.event for one in events] == ["metadata", "updates", "end"]
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
    assert said(client.runs.wait(None, "plain", input=human("a")))[-1] == ("ai", "One.")
    events = list(client.runs.stream(None, "plain", input=human("b"), stream_mode="values"))
    assert said(events[-2].data)[-1] == ("ai", "Two.")
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
    assert said(client.runs.join(thread, second))[-1] == ("ai", "Second.")
    assert client.runs.get(thread, first)["status"] == "interrupted"


def test_enqueued_runs_are_streamed_with_what_was_said_before(client, model):
    model.script(says("First.", silent_s=0.5), says("Second."))
    thread = client.threads.create()["thread_id"]
    client.runs.create(thread, "plain", input=human("one"))
    events = list(client.runs.stream(thread, "plain", input=human("two"), stream_mode="values"))
    texts = [("human", "one"), ("ai", "First."), ("human", "two"), ("ai", "Second.")]
    assert said(events[-2].data) == said(client.threads.get_state(thread)["values"]) == texts


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


# -- interrupts -------------------------------------------------------------------------------------------------------


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
    assert said(values)[-1] == ("ai", "Done.") and outcome in values["messages"][-2]["content"]
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
    assert resumed == run and said(client.runs.join(thread, run))[-1] == ("ai", "Blue.")


def test_a_new_message_takes_the_place_of_what_waited(client, model):
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("Never mind."))
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "careful", input=human("1 + 1?"))
    assert said(client.runs.wait(thread, "careful", input=human("Stop.")))[-1] == ("ai", "Never mind.")
    assert [one["status"] for one in client.runs.list(thread)] == ["success", "interrupted"]


# -- what is refused --------------------------------------------------------------------------------------------------


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
    with httpx.Client(base_url=f"{live.url}/langgraph", headers={"x-api-key": key}) as http:
        for path in ("/threads/x/stream/events", "/nothing"):
            answer = http.get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_supported"), path
        assert http.post("/threads", json={"colour": "red"}).json()["code"] == "unknown_field"
        assert http.post("/threads/search", json=[]).status_code == 422
        assert http.get("/ok").json() == {"ok": True} and http.get("/info").json()["flags"]["assistants"]


# -- keys and other people --------------------------------------------------------------------------------------------


def test_keys(agents):
    live, key = agents
    with httpx.Client(base_url=f"{live.url}/langgraph") as http:
        assert http.get("/info").status_code == 200
        assert http.get("/info", headers={"x-api-key": "mk_no.no"}).status_code == 401
        assert http.get("/assistants/plain").json()["code"] == "not_authenticated"
        assert http.get("/assistants/plain", headers={"Authorization": f"Bearer {key}"}).status_code == 200
        reader = {"x-api-key": new_key(live, "langgraph_reader", "sessions:read")}
        assert http.post("/threads/search", json={}, headers=reader).json() == []
        assert http.post("/threads", json={}, headers=reader).status_code == 403
        assert http.post("/runs/wait", json={"assistant_id": "x"}, headers=reader).status_code == 403
        assert http.post("/assistants/search", json={}, headers=reader).status_code == 403


def test_a_decision_needs_its_scope(agents, client, model):
    live, _ = agents
    model.script(calls(("calculate", {"expression": "1 + 1"})))
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "careful", input=human("1 + 1?"))
    weak = client_of(live, live.key)
    with pytest.raises(errors.PermissionDeniedError, match="approvals:decide"):
        weak.runs.create(thread, "careful", command={"resume": True})


def test_another_person_has_nothing_of_it(agents, client, stranger, model, langgraph_stranger_key):
    live, _ = agents
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("Mine."))
    thread = client.threads.create(metadata={"mark": "stranger"})["thread_id"]
    (interrupt,) = client.runs.wait(thread, "careful", input=human("1 + 1?"))["__interrupt__"]
    run = client.runs.list(thread)[0]["run_id"]
    assert stranger.threads.search(metadata={"mark": "stranger"}) == [] and stranger.threads.count() == 0
    assert stranger.assistants.search(graph_id="careful") == []
    (visible,) = client.assistants.search(graph_id="careful")
    own = stranger.threads.create()["thread_id"]
    with pytest.raises(errors.ConflictError):
        stranger.threads.create(thread_id=thread, if_exists="do_nothing")
    resume = {"resume": {interrupt["id"]: True}}
    for refused in (
        lambda: stranger.assistants.get(visible["assistant_id"]),
        lambda: stranger.assistants.get_graph("careful"),
        lambda: stranger.assistants.get_versions("careful"),
        lambda: stranger.assistants.set_latest("careful", 1),
        lambda: stranger.threads.get(thread),
        lambda: stranger.threads.update(thread, metadata={"a": 1}),
        lambda: stranger.threads.delete(thread),
        lambda: stranger.threads.copy(thread),
        lambda: stranger.threads.get_state(thread),
        lambda: stranger.threads.get_state(thread, checkpoint_id=run),
        lambda: stranger.threads.update_state(thread, human("lie")),
        lambda: stranger.threads.get_history(thread),
        lambda: stranger.runs.list(thread),
        lambda: stranger.runs.get(thread, run),
        lambda: stranger.runs.get(own, run),
        lambda: stranger.runs.cancel(thread, run),
        lambda: stranger.runs.cancel(own, run),
        lambda: stranger.runs.create(thread, "router", input=human("lie")),
        lambda: stranger.runs.create(thread, "router", command=resume),
        lambda: list(stranger.runs.join_stream(thread, run)),
        lambda: stranger.runs.create(own, "careful", input=human("hi")),
    ):
        with pytest.raises(errors.NotFoundError):
            refused()
    for waits in (
        lambda: stranger.runs.join(thread, run),
        lambda: stranger.runs.wait(thread, "router", input=human("lie")),
    ):
        with pytest.raises(httpx.HTTPStatusError) as refusal:
            waits()
        assert refusal.value.response.status_code == 404
    answer = httpx.get(f"{live.url}/langgraph/runs/{run}/stream", headers={"x-api-key": langgraph_stranger_key})
    assert answer.status_code == 404
    with pytest.raises(errors.ConflictError):
        stranger.runs.create(own, "router", command=resume)
    stranger.runs.cancel_many(run_ids=[run], status="all")
    assert client.runs.get(thread, run)["status"] == "interrupted"
    assert client.threads.get(thread)["status"] == "interrupted"


# -- crons ------------------------------------------------------------------------------------------------------------


def test_crons_are_schedules(client, agents, stranger):
    live, _ = agents
    thread = client.threads.create()["thread_id"]
    cron = client.crons.create(
        "plain", schedule="0 9 * * 1-5", input=human("Good morning"), timezone="Europe/Berlin", enabled=False
    )
    assert (cron["schedule"], cron["timezone"], cron["enabled"]) == ("0 9 * * 1-5", "Europe/Berlin", False)
    assert cron["payload"]["input"]["messages"] == [{"role": "user", "content": "Good morning"}]
    assert live.http.get(f"/api/v1/schedules/{cron['metadata']['name']}").json()["text"] == "Good morning"
    changed = client.crons.update(cron["cron_id"], schedule="30 9 * * *", enabled=True)
    assert changed["schedule"] == "30 9 * * *" and changed["next_run_date"]
    assert [one["cron_id"] for one in client.crons.search(assistant_id="plain")] == [cron["cron_id"]]
    assert client.crons.count(assistant_id="plain") == 1 and client.crons.search(enabled=False) == []
    assert stranger.crons.search() == [] and stranger.crons.count() == 0
    for refused in (
        lambda: stranger.crons.update(cron["cron_id"], enabled=False),
        lambda: stranger.crons.delete(cron["cron_id"]),
        lambda: stranger.crons.create("plain", schedule="0 9 * * *", input=human("mine")),
    ):
        with pytest.raises(errors.NotFoundError):
            refused()
    for refused in (
        lambda: client.crons.create("plain", schedule="at noon", input=human("hi")),
        lambda: client.crons.create_for_thread(thread, "plain", schedule="0 9 * * *", input=human("hi")),
        lambda: client.crons.create("plain", schedule="0 9 * * *", input=human("hi"), webhook="https://example.org"),
    ):
        with pytest.raises(errors.UnprocessableEntityError):
            refused()
    client.crons.delete(cron["cron_id"])
    assert client.crons.count(assistant_id="plain") == 0


def test_the_store(client):
    space = ["prefs", uuid.uuid4().hex]
    client.store.put_item(space, "theme", {"dark": True})
    assert client.store.get_item(space, "theme")["value"] == {"dark": True}
    assert [one["key"] for one in client.store.search_items(space, filter={"dark": True})["items"]] == ["theme"]
    assert client.store.list_namespaces(prefix=space)["namespaces"] == [space]
    client.store.delete_item(space, "theme")
    with pytest.raises(errors.NotFoundError):
        client.store.get_item(space, "theme")
