"""The worker's process: it needs no broker to start, stops when it is asked to, and holds little."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fakes import StubOpenAI, says
from tests.live import is_gone, running, wait_for

AWAY = {"MUSTER_CARRIER": "celery", "BROKER_URL": "amqp://guest@127.0.0.1:1//"}


@pytest.fixture
def without_broker(prepared, request):
    yield from running(prepared, request.config, **AWAY)


@pytest.mark.live
@pytest.mark.timeout(300)
def test_a_worker_starts_and_works_though_its_broker_is_away(without_broker):
    http = without_broker.http
    for _ in range(2):
        answer = http.post("/api/v1/agents/helper/messages", json={"message": "What is 17 * 23?", "wait": 60})
        assert answer.status_code == 200 and answer.json()["run"]["status"] == "succeeded", answer.text
        killed = without_broker.programs()["web"]
        os.kill(killed.pid, signal.SIGKILL)  # the next one starts without a broker as well
        wait_for(lambda killed=killed: is_gone(killed) and "web" in without_broker.programs())
        assert http.get("/healthz").status_code == 200
    checks = http.get("/readyz").json()["checks"]
    assert checks["broker"].startswith("not reachable") and checks["database"] == "ok"


@pytest.mark.live
@pytest.mark.timeout(300)
def test_a_process_that_is_asked_to_stop_ends_at_once_and_in_order(own_live):
    asked = own_live.programs()["web"]
    began = time.monotonic()
    os.kill(asked.pid, signal.SIGTERM)
    wait_for(lambda: is_gone(asked))
    assert time.monotonic() - began < 20  # a listening carrier notices within two seconds
    log = (own_live.data_dir / "logs" / "web.log").read_text()
    assert "Traceback" not in log
    wait_for(lambda: "web" in own_live.programs())


def loaded_by(module):
    """The modules that a process has loaded after it imported this one."""
    code = f"import django; django.setup(); import sys, {module}; print(*sys.modules)"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    return set(done.stdout.split())


HEAVY = {
    "celery.worker", "celery.concurrency", "kombu.transport.redis",
    "langchain_core", "langchain_openai", "openai", "anthropic", "tiktoken", "langsmith", "numpy", "pandas",
}  # fmt: skip


@pytest.mark.parametrize("module", ["runs.worker.process", "config.asgi, config.urls"])
def test_neither_program_loads_what_only_some_runs_need(module):
    assert not HEAVY & loaded_by(module)


@pytest.mark.live
@pytest.mark.timeout(300)
def test_what_a_stopping_process_cannot_finish_is_given_back_and_its_caller_answered(prepared, request):
    """SIGTERM beside a slow model: the caller gets 202, and the next process continues without a lease running out."""
    with StubOpenAI() as model:
        for muster in running(prepared, request.config, MUSTER_PRIVATE_HOSTS="127.0.0.1", MUSTER_LEASE="600"):
            give_back(muster, model)


def give_back(muster, model):
    make_talker(muster.http, model)
    model.script(says("too late", silent_s=100), says("from the next one"))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(muster.http.post, "/api/v1/agents/talker/messages", json={"message": "hi"})
        wait_for(lambda: model.requests)
        muster.programs()["web"].terminate()
        answer = waiting.result(60)
    assert answer.status_code == 202, answer.text
    run = f"/api/v1/runs/{answer.json()['run']['id']}"
    wait_for(lambda: muster.http.get(run).json()["status"] == "succeeded", 120)
    kinds = [event["type"] for event in muster.http.get(f"{run}/events").json()["results"]]
    assert kinds == ["run.queued", "run.started", "run.resumed", "model.finished", "run.finished"]


def make_talker(http, model):
    fields = {"name": "stub", "kind": "openai-compatible", "base_url": model.url, "api_key": "none"}
    assert http.post("/api/v1/providers/", json=fields).status_code == 201
    fields = {"name": "talker", "provider": "stub", "model_name": "stub", "system_prompt": "Talk."}
    assert http.post("/api/v1/agents/", json=fields).status_code == 201
    assert http.post("/api/v1/agents/talker/publish").status_code == 200


@pytest.mark.live
@pytest.mark.timeout(300)
def test_without_pools_it_only_serves(prepared, request):
    for muster in running(prepared, request.config, MUSTER_WORKER_POOLS=""):
        headers = {"Prefer": "respond-async"}
        path = "/api/v1/agents/helper/messages"
        answer = muster.http.post(path, json={"message": "What is 17 * 23?"}, headers=headers)
        assert answer.status_code == 202
        time.sleep(7)  # longer than between two looks for work
        assert muster.http.get(f"/api/v1/runs/{answer.json()['run']['id']}").json()["status"] == "queued"
        assert muster.http.get("/api/v1/workers/").json()["results"] == []
