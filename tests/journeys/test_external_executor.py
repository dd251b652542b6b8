"""The programs in docs/howto/external-executors.md work as they stand there."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.live import ROOT, wait_for

pytestmark = pytest.mark.live
PAGE = ROOT / "docs" / "howto" / "external-executors.md"


def example(language: str) -> str:
    return re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]


def prepare(live, message: str) -> str:
    answer = live.http.post("/api/v1/runs/", json={"agent": "helper", "message": message})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def program(live, tmp_path) -> subprocess.Popen:
    file = tmp_path / "executor.py"
    file.write_text(example("python"))
    environment = {**os.environ, "MUSTER_URL": live.url, "MUSTER_KEY": live.key}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, str(file)], env=environment, stdout=pipe, stderr=pipe, text=True)


def test_the_terminal_program_does_the_work_of_a_run(live, tmp_path):
    running = program(live, tmp_path)  # before there is work: it looks until there is
    try:
        run = prepare(live, "6 * 7")
        said, errors = running.communicate(timeout=90)
    finally:
        running.kill()
    assert running.returncode == 0, errors
    assert "asked: 6 * 7" in said and "calculate" in said and "ended: succeeded" in said
    events = {event["type"]: event["data"] for event in live.http.get(f"/api/v1/runs/{run}/events").json()["results"]}
    assert {"run.started", "run.progress", "tool.called", "artifact.created", "run.finished"} <= events.keys()
    ended = events["run.finished"]
    assert (ended["status"], ended["reply"]["text"]) == ("succeeded", "It is 42.")
    [call] = live.http.get(f"/api/v1/runs/{run}/tool-calls/").json()["results"]
    assert (call["name"], call["outcome"]) == ("calculate", "ok")
    [artifact] = live.http.get(f"/api/v1/runs/{run}/artifacts/").json()["results"]
    content = live.http.get(f"/api/v1/files/{artifact['file']}/content").text
    assert content == "6 * 7 = 42"


def test_it_stops_when_its_run_is_cancelled_while_a_person_is_asked(live, tmp_path):
    body = {"name": "asker", "description": "Asks", "provider": "offline", "model_name": "offline"}
    live.http.post("/api/v1/agents/", json={**body, "grants": [{"tool": "calculate", "mode": "ask"}]})
    live.http.post("/api/v1/agents/asker/publish", json={})
    run = live.http.post("/api/v1/runs/", json={"agent": "asker", "message": "6 * 7"}).json()["id"]
    running = program(live, tmp_path)
    try:
        approvals = f"/api/v1/approvals/?run={run}"
        wait_for(lambda: live.http.get(approvals).json()["results"], within=60, told=lambda: str(running.poll()))
        assert live.http.post(f"/api/v1/runs/{run}/cancel", json={}).status_code == 200
        _, errors = running.communicate(timeout=60)
    finally:
        running.kill()
    assert "cancelled" in errors


@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl")), reason="the example needs curl and jq")
def test_the_commands_for_a_shell_do_the_same(live):
    run = prepare(live, "6 * 7")
    environment = {**os.environ, "URL": live.url, "KEY": live.key, "RUN": run}
    first, commands = example("bash").split("\n", 1)
    assert first.startswith("URL=http://127.0.0.1:8000 KEY="), "the addresses of the reader's own site"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], env=environment, capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    assert "calculate" in done.stdout and "\n42\n" in done.stdout
    assert live.http.get(f"/api/v1/runs/{run}").json()["status"] == "succeeded"
