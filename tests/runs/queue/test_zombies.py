"""Real processes that stop for longer than their lease, or whose clock is a minute off."""

import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tests.fakes import StubOpenAI, calls, says
from tests.live import ROOT, Live, data_directory, environment_of, wait_for

pytestmark = [pytest.mark.live(database="postgres"), pytest.mark.timeout(600)]
WORKER = """
import time
import time_machine
time_machine.travel(time.time() + {}, tick=True).start()
from config.celery import app
app.worker_main(["worker", "--pool=threads", "-Q", "runs,default", "--loglevel=INFO"])
"""
SLOW = "import time\n\ndef slow(note: str) -> str:\n    '''Takes its time.'''\n    time.sleep(5)\n    return note\n"


@pytest.fixture(scope="module")
def model():
    with StubOpenAI() as server:
        yield server


@pytest.fixture(scope="module")
def muster(prepared, model):
    """On PostgreSQL, the database that has a clock of its own. A function takes longer than a lease. It only serves."""
    yield from serving(model, MUSTER_WORKER_POOLS="")


@pytest.fixture
def two_processes(prepared, model):
    """Each with a port and a run pool."""
    yield from serving(model, MUSTER_PROCESSES="2")


def serving(model, **more):
    with data_directory() as directory:
        environment = {"DB": "postgres", "MUSTER_PRIVATE_HOSTS": "127.0.0.1", "MUSTER_LEASE": "3", **more}
        made = Live(directory, "--no-greeting", **environment)
        set_up(made, model)
        yield made
        made.stop()


def set_up(muster, model):
    def post(path, **body):
        answer = muster.http.post(f"/api/v1/{path}", json=body)
        assert answer.status_code < 300, answer.text

    post("providers/", name="stub", kind="openai-compatible", base_url=model.url, api_key="none")
    post("functions/", name="slow", source=SLOW, allowed_imports=["time"], effect="write")
    post("functions/slow/publish")
    grants = [{"tool": "slow", "mode": "allow"}]
    post("agents/", name="sleeper", provider="stub", model_name="stub", system_prompt="Sleep.", grants=grants)
    post("agents/sleeper/publish")


@contextmanager
def another_worker(muster, clock_error=0):
    """A worker of the same Muster, whose clock is so many seconds fast."""
    log = muster.data_dir / "logs" / f"worker-{time.time_ns()}.log"
    environment = environment_of(muster) | {"MUSTER_WORKER_POOLS": "default"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER.format(clock_error)],
            cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            wait_for(lambda: " ready." in log.read_text(), 120, lambda: log.read_text()[-2000:])
            yield process
        finally:
            process.kill()
            process.wait()


def start(muster):
    answer = muster.http.post(
        "/api/v1/agents/sleeper/messages", json={"message": "hi"}, headers={"Prefer": "respond-async"}
    )
    assert answer.status_code == 202, answer.text
    return answer.json()["run"]["id"]


def ended(muster, run_id):
    def read():
        return muster.http.get(f"/api/v1/runs/{run_id}").json()

    return wait_for(lambda: (run := read())["finished_at"] and run, 120)


def events_of(muster, run_id):
    return [event["type"] for event in muster.http.get(f"/api/v1/runs/{run_id}/events").json()["results"]]


def calls_of(muster, run_id):
    found = muster.http.get(f"/api/v1/runs/{run_id}/tool-calls/").json()["results"]
    return [(call["outcome"], call["attempt"]) for call in found]


@pytest.mark.parametrize("error", [0, -60])
def test_a_worker_that_was_stopped_past_its_lease_writes_nothing_afterwards(muster, model, error):
    """The one that takes over may have a slow clock: by its own it would wait a minute longer."""
    model.script(calls(("slow", {"note": "once"})), says("It may have been done"))
    run_id = start(muster)
    with another_worker(muster) as zombie:
        wait_for(lambda: calls_of(muster, run_id))
        zombie.send_signal(signal.SIGSTOP)
        with another_worker(muster, clock_error=error):
            taken_over(muster, run_id, zombie)


def test_a_process_with_a_port_that_was_stopped_past_its_lease_writes_nothing_afterwards(two_processes, model):
    """The other process answers meanwhile, and a rescue takes over."""
    muster = two_processes
    model.script(calls(("slow", {"note": "once"})), says("It may have been done"))
    run_id = start(muster)
    wait_for(lambda: calls_of(muster, run_id))
    zombie = muster.holder(run_id)
    zombie.suspend()
    try:
        muster.connect()
        taken_over(muster, run_id, zombie)
    finally:
        zombie.resume()


def taken_over(muster, run_id, zombie):
    """The run ends while the zombie stands still, and nothing of it changes when that goes on."""
    began = time.monotonic()
    run = ended(muster, run_id)
    assert time.monotonic() - began < 55  # usually less than the lease and the tick of recovery
    before = events_of(muster, run_id)
    zombie.send_signal(signal.SIGCONT)
    others = [start(muster) for _ in range(4)]
    assert [ended(muster, other)["status"] for other in others] == ["succeeded"] * 4
    assert run["status"] == "succeeded" and calls_of(muster, run_id) == [("unknown", 1)]
    assert events_of(muster, run_id) == before and before.count("tool.finished") == 1


def test_a_worker_whose_clock_is_a_minute_fast_takes_no_run_from_another(muster, model):
    with another_worker(muster), another_worker(muster, clock_error=60):
        started = [start(muster) for _ in range(4)]
        assert [ended(muster, run)["status"] for run in started] == ["succeeded"] * 4
    assert [calls_of(muster, run) for run in started] == [[("ok", 1)]] * 4
    assert not any("run.recovered" in events_of(muster, run) for run in started)
