"""What keys and other people may do with the LangGraph API."""

import httpx
import pytest
from langgraph_sdk import errors

from tests.fakes import calls, says
from tests.gateway.langgraph.sdk import client_of, human
from tests.gateway.live_agents import new_key

pytestmark = pytest.mark.live


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
