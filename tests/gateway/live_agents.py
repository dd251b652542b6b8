"""Agents with a scripted model on a running Muster, for the tests of the gateway's protocols."""

import os
import subprocess
import sys

from tests.live import ROOT

GRANTS = {
    "plain": [],
    "clerk": [{"tool": "calculate", "mode": "allow"}],
    "careful": [{"tool": "calculate", "mode": "ask"}],
    "curious": [{"tool": "ask_user", "mode": "allow"}],
}


def make_agents(live, model):
    """`plain` has no tool, `clerk` has a function, and `careful` asks before it calls the same."""
    provider = {"name": "scripted", "kind": "openai-compatible", "base_url": model.url}
    answer = live.http.post("/api/v1/providers/", json=provider)
    assert answer.status_code == 201, answer.text
    for name, grants in GRANTS.items():
        body = {"name": name, "description": name, "provider": "scripted", "model_name": "scripted", "grants": grants}
        assert live.http.post("/api/v1/agents/", json=body).status_code == 201
        assert live.http.post(f"/api/v1/agents/{name}/publish", json={}).status_code == 200


def new_key(live, name, *scopes):
    """A key of this user, who is created if there is none."""
    environment = {**os.environ, "MUSTER_DATA_DIR": str(live.data_dir), **live.environment}
    command = [sys.executable, "manage.py", "create_key", name]
    for scope in scopes:
        command += ["--scope", scope]
    printed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    return next(word for word in printed.split() if word.startswith("mk_"))
