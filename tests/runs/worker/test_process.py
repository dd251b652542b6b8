"""The worker's process: it needs no broker to start, stops when it is asked to, and holds little."""

import os
import signal
import subprocess
import sys
import time

import pytest

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
        worker = without_broker.programs()["worker"]
        os.kill(worker.pid, signal.SIGKILL)  # the next one starts without a broker as well
        wait_for(lambda killed=worker: is_gone(killed) and "worker" in without_broker.programs())
    checks = http.get("/readyz").json()["checks"]
    assert checks["broker"].startswith("not reachable") and checks["database"] == "ok"


@pytest.mark.live
@pytest.mark.timeout(300)
def test_a_worker_that_is_asked_to_stop_ends_at_once_and_in_order(own_live):
    worker = own_live.programs()["worker"]
    began = time.monotonic()
    os.kill(worker.pid, signal.SIGTERM)
    wait_for(lambda: is_gone(worker))
    assert time.monotonic() - began < 40  # a listening carrier notices within two seconds
    log = (own_live.data_dir / "logs" / "worker.log").read_text()
    assert "Traceback" not in log
    wait_for(lambda: "worker" in own_live.programs())


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
