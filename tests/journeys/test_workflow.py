"""A workflow as a client sees it: one session through its steps, an agent that calls it, its cost, its rights."""

import pytest

from tests.live import wait_for

pytestmark = pytest.mark.live
V1 = "/api/v1"


def made(live, path, body):
    answer = live.http.post(f"{V1}/{path}", json=body)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def agent(live, name, **fields):
    made(live, "agents/", {"name": name, "provider": "offline", "model_name": "offline", **fields})
    made(live, f"agents/{name}/publish", {})


def ended(live, run):
    url = f"{V1}/runs/{run}"
    wait_for(lambda: live.http.get(url).json()["finished_at"], within=90, told=lambda: live.http.get(url).text)
    return live.http.get(url).json()


def test_a_chain_keeps_one_session_and_an_agent_calls_it(live):
    agent(live, "workflow-adder", description="Calculates", grants=[{"tool": "calculate"}])
    agent(live, "teller", description="Tells")
    steps = [
        {"key": "add", "agent": "workflow-adder", "input": {"message": "input.sum"}},
        {
            "key": "tell",
            "agent": "teller",
            "input": {"message": {"value": "Say it nicely"}},
            "instructions": "Be nice.",
        },
    ]
    schema = {"type": "object", "properties": {"sum": {"type": "string"}}, "required": ["sum"]}
    chain = {"name": "sums", "session": "run", "strategy": "sequential", "steps": steps, "input_schema": schema}
    made(live, "chains/", {**chain, "output": "{sum: steps.add.output, told: steps.tell.output}"})
    made(live, "chains/sums/publish", {})
    started = live.http.post(f"{V1}/chains/sums/runs", json={"input": {"sum": "6 * 7"}})
    assert started.status_code == 202, started.text
    run = ended(live, started.json()["id"])
    assert run["status"] == "succeeded" and "42" in run["output"]["sum"], run
    said = live.http.get(f"{V1}/sessions/{run['session']}/messages/").json()["results"]
    said.sort(key=lambda message: message["seq"])
    assert [message["role"] for message in said] == ["user", "assistant"] * 2
    children = live.http.get(f"{V1}/runs/{run['id']}/children/").json()["results"]
    assert {child["session"] for child in children} == {run["session"]}
    tokens = sum(child["usage"]["input_tokens"] for child in children)
    assert run["usage"]["input_tokens"] == tokens > 0
    assert live.http.get(f"{V1}/runs/live").json().keys() == {"queued", "running", "waiting"}
    assert live.http.get(f"{V1}/anomalies/").json()["results"] == []

    agent(live, "workflow-clerk", description="Does sums", grants=[{"tool": "sums"}])
    answer = live.http.post(
        f"{V1}/agents/workflow-clerk/messages", json={"message": "Use sums: 6 * 7", "wait": 90}
    ).json()
    run = answer["run"]
    [call] = live.http.get(f"{V1}/runs/{run['id']}/tool-calls/").json()["results"]
    assert (call["name"], call["kind"], call["outcome"]) == ("sums", "chain", "ok"), call
    [child] = live.http.get(f"{V1}/runs/{run['id']}/children/").json()["results"]
    assert (child["chain"], child["status"]) == ("sums", "succeeded"), child


def test_a_step_that_fails_is_named(live):
    step = {"key": "add", "tool": "calculate", "input": {"expression": {"value": "1 / 0"}}}
    made(live, "chains/", {"name": "broken", "steps": [step]})
    made(live, "chains/broken/publish", {})
    started = live.http.post(f"{V1}/chains/broken/runs", json={}).json()
    run = ended(live, started["id"])
    assert (run["status"], run["error"]["step"]) == ("failed", "add"), run
