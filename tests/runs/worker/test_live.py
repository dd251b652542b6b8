"""The whole of Muster at work: streams, sockets, cancelling, and a worker that is really killed."""

import asyncio
import json
import os
import signal
import threading
import time

import pytest
import websockets

from tests.fakes import StubOpenAI, calls, says
from tests.live import Live, copy_prepared, data_directory, database_of, wait_for
from tests.loops import in_a_loop

pytestmark = pytest.mark.live(database="postgres")
ADD = "def add(a: float, b: float) -> float:\n    '''Add two numbers.'''\n    return a + b\n"
SLOW = "import time\n\ndef slow(note: str) -> str:\n    '''Takes its time.'''\n    time.sleep(4)\n    return note\n"


@pytest.fixture(scope="module")
def model():
    with StubOpenAI() as server:
        yield server


@pytest.fixture(scope="module")
def muster(prepared, request, model):
    """With an agent “adder” behind a stub of a model; a lease lasts three seconds."""
    with data_directory() as directory:
        copy_prepared(prepared, directory)
        environment = {"MUSTER_PRIVATE_HOSTS": "127.0.0.1", "MUSTER_LEASE": "3", **database_of(request.config)}
        made = Live(directory, "--no-greeting", **environment)
        set_up(made, model)
        yield made
        made.stop()


@pytest.fixture(autouse=True)
def nothing_left_to_say(model):
    model.turns.clear()


def set_up(muster, model):
    def post(path, **body):
        answer = muster.http.post(f"/api/v1/{path}", json=body)
        assert answer.status_code < 300, answer.text

    url = f"http://127.0.0.1:{model.port}/v1"
    post("providers/", name="stub", kind="openai-compatible", base_url=url, api_key="none")
    post("functions/", name="add", source=ADD)
    post("functions/add/publish")
    post("functions/", name="slow", source=SLOW, allowed_imports=["time"], effect="write")
    post("functions/slow/publish")
    grants = [{"tool": "add", "mode": "allow"}, {"tool": "slow", "mode": "allow"}]
    post("agents/", name="adder", provider="stub", model_name="stub", system_prompt="Add.", grants=grants)
    post("agents/adder/publish")


def run_of(muster, run_id):
    return muster.http.get(f"/api/v1/runs/{run_id}").json()


def ended(muster, run_id, within=120):
    return wait_for(lambda: (run := run_of(muster, run_id)).get("finished_at") and run, within)


def start(muster, text="hi"):
    answer = muster.http.post(
        "/api/v1/agents/adder/messages", json={"message": text}, headers={"Prefer": "respond-async"}
    )
    assert answer.status_code == 202, answer.text
    return answer.json()["run"]["id"]


def read_sse(response):
    """(id, type, data) of each event."""
    found, fields = [], {}
    for line in response.iter_lines():
        if not line:
            if "event" in fields:
                found.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
    return found


def test_a_message_with_a_tool_call_is_answered_in_one_request(muster, model):
    model.script(calls(("add", {"a": 40, "b": 2})), says("It is 42"))
    answer = muster.http.post("/api/v1/agents/adder/messages", json={"message": "40 + 2?"}).json()
    assert answer["reply"]["text"] == "It is 42"
    (call,) = muster.http.get(f"/api/v1/runs/{answer['run']['id']}/tool-calls/").json()["results"]
    assert call["result"] == 42 and call["outcome"] == "ok"


def test_a_stream_tells_everything_in_order_with_deltas_and_resumes(muster, model):
    model.script(calls(("add", {"a": 40, "b": 2})), says("It is forty two, all told.", pause_s=0.02))
    headers = {"Accept": "text/event-stream"}
    with muster.http.stream("POST", "/api/v1/agents/adder/messages", json={"message": "?"}, headers=headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        run_id = stream.headers["muster-run"]
        events = read_sse(stream)
    numbered = [(int(number), kind) for number, kind, _ in events if number]
    assert [kind for _, kind in numbered] == [
        "run.queued", "run.started", "model.finished", "tool.called", "tool.finished", "model.finished", "run.finished",
    ]  # fmt: skip
    assert [number for number, _ in numbered] == list(range(1, 8))
    deltas = [data["data"]["text"] for _, kind, data in events if kind == "message.delta"]
    assert "".join(deltas) == "It is forty two, all told."
    with muster.http.stream("GET", f"/api/v1/runs/{run_id}/stream", headers={"Last-Event-ID": "5"}) as stream:
        assert [kind for _, kind, _ in read_sse(stream)] == ["model.finished", "run.finished"]


def test_a_cancel_stops_a_model_that_is_still_thinking_within_a_second(muster, model):
    model.script(says("too late", silent_s=300))
    run_id = start(muster)
    wait_for(lambda: run_of(muster, run_id)["status"] == "running")
    began = time.monotonic()
    assert muster.http.post(f"/api/v1/runs/{run_id}/cancel", json={"reason": "enough"}).status_code == 200
    run = ended(muster, run_id)
    assert run["status"] == "cancelled" and run["error"]["message"] == "enough"
    assert time.monotonic() - began < 60  # a second on an idle machine; the model would take minutes


def test_a_cancel_stops_a_function_that_is_still_running(muster, model):
    model.script(calls(("slow", {"note": "a"})), says("never"))
    run_id = start(muster)
    wait_for(lambda: muster.http.get(f"/api/v1/runs/{run_id}/tool-calls/").json()["results"])
    muster.http.post(f"/api/v1/runs/{run_id}/cancel", json={})
    assert ended(muster, run_id)["status"] == "cancelled"


def test_the_session_socket_talks_and_watches(muster, model):
    model.script(says("first"), says("Hello over a socket", pause_s=0.02))
    session = muster.http.post("/api/v1/agents/adder/messages", json={"message": "hi"}).json()["session"]

    async def talk():
        url = f"ws://127.0.0.1:{muster.port}/ws/sessions/{session}/"
        headers = {"Authorization": f"Bearer {muster.key}"}
        async with websockets.connect(url, additional_headers=headers) as socket:
            await socket.send(json.dumps({"type": "nonsense"}))
            await socket.send("no json")
            await socket.send(json.dumps({"type": "message", "text": "again"}))
            frames = []
            while not frames or frames[-1]["type"] != "run.finished":
                frames.append(json.loads(await asyncio.wait_for(socket.recv(), 60)))
            return frames

    frames = in_a_loop(talk())
    assert [frame["type"] for frame in frames[:2]] == ["error", "error"]
    assert (
        "".join(frame["data"]["text"] for frame in frames if frame["type"] == "message.delta") == "Hello over a socket"
    )
    assert frames[-1]["data"]["reply"]["text"] == "Hello over a socket"


@pytest.mark.parametrize(
    ("path", "key", "code"),
    [
        ("sessions/00000000-0000-7000-8000-000000000000", None, 4404),
        ("runs/00000000-0000-7000-8000-000000000000", None, 4404),
        ("runs/00000000-0000-7000-8000-000000000000", "mk_wrong.key", 4401),
    ],
)
def test_a_socket_that_may_not_be_is_closed_with_its_code(muster, path, key, code):
    async def knock():
        headers = {"Authorization": f"Bearer {key or muster.key}"}
        async with websockets.connect(f"ws://127.0.0.1:{muster.port}/ws/{path}/", additional_headers=headers) as socket:
            told = json.loads(await asyncio.wait_for(socket.recv(), 60))
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await asyncio.wait_for(socket.recv(), 60)
            return told["error"]["message"], closed.value.rcvd.code

    reason, closed_with = in_a_loop(knock())
    assert closed_with == code and reason


def test_the_run_socket_replays_from_a_cursor_and_closes_at_the_end(muster, model):
    model.script(says("hi"))
    run_id = start(muster)
    ended(muster, run_id)

    async def watch():
        url = f"ws://127.0.0.1:{muster.port}/ws/runs/{run_id}/?after=2"
        async with websockets.connect(url, additional_headers={"Authorization": f"Bearer {muster.key}"}) as socket:
            return [json.loads(frame)["type"] async for frame in socket]

    assert in_a_loop(watch()) == ["model.finished", "run.finished"]


def test_a_killed_worker_loses_no_run_and_repeats_no_effect(muster, model):
    """kill -9 while a call with an effect is under way: its outcome is unknown, said once, and the run ends."""
    model.script(calls(("slow", {"note": "once"})), says("I do not know whether it was done"))
    run_id = start(muster)
    wait_for(lambda: muster.http.get(f"/api/v1/runs/{run_id}/tool-calls/").json()["results"])
    os.kill(muster.programs()["worker"].pid, signal.SIGKILL)
    run = ended(muster, run_id, within=120)
    assert run["status"] == "succeeded"
    (call,) = muster.http.get(f"/api/v1/runs/{run_id}/tool-calls/").json()["results"]
    assert call["outcome"] == "unknown" and call["attempt"] == 1
    kinds = [event["type"] for event in muster.http.get(f"/api/v1/runs/{run_id}/events").json()["results"]]
    assert "run.recovered" in kinds


@pytest.mark.parametrize("moment", ["the model thinks", "the call is under way"])
def test_a_killed_postgres_loses_no_run_and_repeats_no_effect(muster, model, moment):
    """kill -9 of the database's server: requests are told 503, the run goes on when it is back."""
    if "postgres" not in muster.programs():
        pytest.skip("SQLite is no server")
    silence = 2 if moment == "the model thinks" else 0
    model.script(calls(("slow", {"note": "once"}), silent_s=silence), says("Done, or not."), says("Done, or not."))
    before = len(model.requests)
    run_id = start(muster)
    if not silence:
        wait_for(lambda: muster.http.get(f"/api/v1/runs/{run_id}/tool-calls/").json()["results"])
    wait_for(lambda: run_of(muster, run_id)["status"] == "running")
    os.kill(muster.programs()["postgres"].pid, signal.SIGKILL)
    away = muster.http.get(f"/api/v1/runs/{run_id}")
    assert away.status_code in (200, 503) and (away.status_code == 200 or "error" in away.json())
    wait_for(lambda: muster.http.get(f"/api/v1/runs/{run_id}").status_code == 200, 60)
    run = ended(muster, run_id, within=120)
    assert run["status"] == "succeeded", run["error"]
    read = wait_for(lambda: (answer := muster.http.get(f"/api/v1/runs/{run_id}/tool-calls/")).is_success and answer)
    made = [(call["outcome"], call["attempt"]) for call in read.json()["results"]]
    # An answer that came while the database was away is lost: then the model was asked anew, and wanted no call.
    asked = [{said["role"] for said in request["messages"]} for request in model.requests[before:]]
    is_asked_anew = sum("tool" not in roles for roles in asked) > 1
    assert made in ([("ok", 1)], [("unknown", 1)]) or (silence and is_asked_anew and not made)


def test_fifty_messages_at_once_are_all_answered(muster, model):
    answers = []

    def ask():
        answer = muster.http.post("/api/v1/agents/adder/messages", json={"message": "a = 40, b = 2"})
        answers.append((answer.status_code, answer.json().get("reply", {}).get("text", "")))

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(answers) == 50 and {status for status, _ in answers} == {200}


def test_a_killed_worker_with_many_in_flight_loses_none(muster, model):
    """Each waits for its model when the worker dies; once the leases have expired the next worker asks again."""
    model.script(*[says("too late", silent_s=60)] * 40)
    asked, run_ids = len(model.requests), [start(muster, f"many {number}") for number in range(40)]
    wait_for(lambda: len(model.requests) == asked + 40)
    os.kill(muster.programs()["worker"].pid, signal.SIGKILL)
    assert {ended(muster, run_id)["status"] for run_id in run_ids} == {"succeeded"}
    assert len(model.requests) >= asked + 80


def test_a_worker_that_is_asked_to_end_finishes_what_is_in_flight(muster, model):
    model.script(*[says("in time", silent_s=4)] * 40)
    asked, run_ids = len(model.requests), [start(muster, f"drained {number}") for number in range(40)]
    wait_for(lambda: len(model.requests) == asked + 40)
    worker = muster.programs()["worker"]
    os.kill(worker.pid, signal.SIGTERM)
    assert {ended(muster, run_id)["status"] for run_id in run_ids} == {"succeeded"}
    assert len(model.requests) == asked + 40  # no other worker asked again
    wait_for(lambda: (now := muster.programs().get("worker")) and now.pid != worker.pid)
