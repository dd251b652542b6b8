"""Parts are killed at random while runs are at work; a side-effecting stub counts what was really done.

`MUSTER_CHAOS_RUNS=200 pytest tests/journeys/test_chaos.py` is the long form.
"""

import os
import random
import re
import signal
import time

import httpx2
import pytest

from tests.connectors.loopback import Loopback
from tests.fakes import StubOpenAI, calls, says
from tests.live import Live, copy_prepared, data_directory, database_of, wait_for

pytestmark = pytest.mark.live(database="postgres")
RUNS = int(os.environ.get("MUSTER_CHAOS_RUNS", "40"))
SEED = 7


class Till(Loopback):
    """Each POST is a side effect that cannot be taken back."""

    def __init__(self):
        super().__init__()
        self.charged: list[str] = []
        self.routes.append(("POST", re.compile(r"/charges"), self.charge))

    def charge(self, asked):
        self.charged.append(asked.json["order"])
        time.sleep(0.05)
        return {"ok": True}

    def document(self):
        order = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
        body = {"required": True, "content": {"application/json": {"schema": order}}}
        return {
            "openapi": "3.1.0",
            "info": {"title": "Till", "version": "1"},
            "servers": [{"url": self.url}],
            "paths": {"/charges": {"post": {"operationId": "charge", "summary": "Charge.", "requestBody": body}}},
        }


def pay_once(body):
    """What the model does: charge the order that the message names, once, then say so."""
    if body["messages"][-1]["role"] == "tool":
        return says("done")
    asked = [message["content"] for message in body["messages"] if message["role"] == "user"][-1]
    tool = body["tools"][0]["function"]["name"]
    return calls((tool, {"body": {"order": asked}} if needs_body(body) else {"order": asked}))


def needs_body(request):
    return "body" in request["tools"][0]["function"]["parameters"].get("properties", {})


@pytest.fixture
def till():
    with Till() as shop:
        yield shop


@pytest.fixture
def muster(prepared, request, till):
    with StubOpenAI() as model, data_directory() as directory:
        model.otherwise = pay_once
        copy_prepared(prepared, directory)
        environment = {"MUSTER_PRIVATE_HOSTS": "127.0.0.1", "MUSTER_LEASE": "3", **database_of(request.config)}
        made = Live(directory, "--no-greeting", **environment)
        set_up(made, model, till)
        yield made
        made.stop()


def set_up(muster, model, till):
    def post(path, **body):
        answer = muster.http.post(f"/api/v1/{path}", json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    post("providers/", name="stub", kind="openai-compatible", base_url=f"http://127.0.0.1:{model.port}/v1", api_key="x")
    connection = post("connections/", name="till", provider="openapi")
    post(f"connections/{connection['id']}/import", document=till.document())
    (tool,) = muster.http.get("/api/v1/tools/?kind=http").json()["results"]
    grants = [{"tool": tool["name"], "mode": "allow"}]
    post("agents/", name="payer", provider="stub", model_name="stub", system_prompt="Pay.", grants=grants)
    post("agents/payer/publish")


def send(muster, order, until):
    """Send until somebody answers: the web server may be the part that was just killed. One key, one run."""
    headers = {"Prefer": "respond-async", "Idempotency-Key": order}
    while time.monotonic() < until:
        try:
            answer = muster.http.post("/api/v1/agents/payer/messages", json={"message": order}, headers=headers)
        except httpx2.HTTPError:
            time.sleep(0.1)
            continue
        if answer.status_code == 202:
            return answer.json()["run"]["id"]
        time.sleep(0.1)
    raise AssertionError(f"{order} was never taken")


def state_of(muster, run_id):
    try:
        return muster.http.get(f"/api/v1/runs/{run_id}").json()
    except (httpx2.HTTPError, ValueError):
        return {}


@pytest.mark.timeout(900)
def test_whatever_is_killed_no_run_is_lost_none_is_stuck_and_nothing_is_done_twice(muster, till):
    chance, runs = random.Random(SEED), {}
    until = time.monotonic() + 600
    for number in range(RUNS):
        order = f"order-{number}"
        runs[order] = send(muster, order, until)
        if number % 10 == 9:
            victim = chance.choice(["worker", "web", "valkey"])
            if process := muster.programs().get(victim):
                process.send_signal(signal.SIGKILL)
    ended = {}
    for order, run_id in runs.items():
        ended[order] = wait_for(
            lambda run_id=run_id: (run := state_of(muster, run_id)).get("finished_at") and run,
            within=max(until - time.monotonic(), 1),
        )
    assert len(set(runs.values())) == RUNS
    assert [run["error"] for run in ended.values() if run["status"] != "succeeded"] == []
    assert len(till.charged) == len(set(till.charged)), "an order was charged twice"
    for order in runs:
        if order not in till.charged:  # killed before it was sent: then the run says that it does not know
            (call,) = muster.http.get(f"/api/v1/runs/{runs[order]}/tool-calls/").json()["results"]
            assert call["outcome"] == "unknown", order
