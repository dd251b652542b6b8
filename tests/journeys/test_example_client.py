"""The client in docs/protocol.md works as it stands there."""

import json
import re
import subprocess
import sys

import pytest

from tests.live import ROOT, wait_for

pytestmark = pytest.mark.live


def example() -> str:
    return re.search(r"```python\n(.*?)```", (ROOT / "docs" / "protocol.md").read_text(), re.DOTALL)[1]


def test_the_client_in_the_docs_has_at_most_sixty_lines_of_code():
    assert len([line for line in example().splitlines() if line.strip()]) <= 60


def test_a_stranger_can_write_a_client_from_the_docs(live, tmp_path):
    code = live.http.post("/api/v1/devices/pairings", json={}).json()["code"]
    paired = live.http.post("/api/v1/devices/pair", json={"code": code, "name": "example"}).json()
    state, program = tmp_path / "state.json", tmp_path / "client.py"
    state.write_text(json.dumps({"credential": paired["credential"]}))
    program.write_text(example())
    client = subprocess.Popen([sys.executable, str(program), live.url.replace("http", "ws"), str(state)])
    try:
        offers = f"/api/v1/devices/{paired['device']}/offers/"
        offer = wait_for(lambda: live.http.get(offers).json()["results"], within=60)[0]
        assert live.http.post(f"{offers}{offer['hash']}/approve").json()["tool"] == "shout"
        body = {"name": "shouter", "description": "Shouts", "provider": "offline", "model_name": "offline"}
        live.http.post("/api/v1/agents/", json={**body, "grants": [{"tool": "shout", "mode": "allow"}]})
        live.http.post("/api/v1/agents/shouter/publish", json={})
        message, later = {"message": "shout the text hello world"}, {"Prefer": "respond-async"}
        run = live.http.post("/api/v1/agents/shouter/messages", json=message, headers=later).json()["run"]["id"]
        url = f"/api/v1/runs/{run}"
        wait_for(lambda: live.http.get(url).json()["status"] not in ("queued", "running"), within=60)
        assert live.http.get(url).json()["status"] == "succeeded"
        made = live.http.get(f"/api/v1/runs/{run}/tool-calls/").json()["results"]
        assert "HELLO WORLD" in made[0]["result"]["text"], made
    finally:
        client.kill()
        client.wait(60)
