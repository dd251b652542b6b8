"""A client that another project's generator makes of the served document does the main job, without a patch."""

import importlib
import os
import re
import subprocess
import sys
import time

import pytest

from tests.live import ROOT

pytestmark = [pytest.mark.live, pytest.mark.slow]
PACKAGE = "generated_muster"
SOURCE = "def add(a: int, b: int) -> int:\n    return a + b\n"
NOT_GENERATED = {  # it knows no images and no archives
    "GET /api/v1/chains/{name}/graph.svg", "GET /api/v1/runs/{id}/graph.svg", "GET /api/v1/files/{id}/preview",
    "GET /api/v1/skills/{name}/export",
}  # fmt: skip


@pytest.fixture(scope="module")
def generated(live, tmp_path_factory):
    """The folder of the generated package, and what the generator printed."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.yaml").write_bytes(live.http.get("/api/schema/").content)
    (folder / "config.yaml").write_text("post_hooks: []\n")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--config", "config.yaml"]
    command += ["--path", "openapi.yaml", "--output-path", PACKAGE]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout + done.stderr


@pytest.fixture
def call(live, generated, monkeypatch):
    """`call("agents", "agents_create", body=…)`: the parsed answer; `call.models` are the generated classes."""
    monkeypatch.syspath_prepend(str(generated[0]))
    client = importlib.import_module(PACKAGE).AuthenticatedClient(
        base_url=live.url, token=deciding_key(live), raise_on_unexpected_status=True, timeout=60
    )

    def made(tag, operation, *place, **fields):
        return importlib.import_module(f"{PACKAGE}.api.{tag}.{operation}").sync(*place, client=client, **fields)

    made.models = importlib.import_module(f"{PACKAGE}.models")
    return made


def deciding_key(live):
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "BROKER_URL")}
    environment = kept | live.environment | {"MUSTER_DATA_DIR": str(live.data_dir)}
    command = [sys.executable, "manage.py", "create_key", "admin", "--scope", "*", "--scope", "approvals:decide"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return re.search(r"mk_\S+", done.stdout)[0]


def test_the_generator_leaves_out_nothing_but_pictures(generated):
    assert set(re.findall(r"WARNING parsing (\S+ \S+)", generated[1])) == NOT_GENERATED, generated[1]


def test_the_generated_client_makes_an_agent_and_processes_a_message(live, call):
    new = models = call.models
    call("functions", "functions_create", body=new.FunctionRequest(name="generated_add", source=SOURCE))
    assert call("functions", "functions_publish", "generated_add", body=new.PublishRequest()).version == 1

    grant = new.GrantRequest(tool="generated_add", mode=models.GrantModeEnum.ASK)
    agent = new.AgentRequest(
        name="generated", description="Adds.", provider="offline", model_name="offline", grants=[grant]
    )
    assert call("agents", "agents_create", body=agent).published_version is None
    assert call("agents", "agents_publish", "generated", body=new.PublishRequest()).version == 1

    sent = call(
        "agents", "agents_messages_create", "generated", body=new.SendRequest(message="generated add a 2 b 3", wait=5)
    )
    assert sent.run.status == models.RunStatusEnum.WAITING and sent.reply is None

    asked = call("approvals", "approvals_list", run=sent.run.id).results
    assert [one.tool for one in asked] == ["generated_add"]
    decision = new.DecisionRequest(decision=models.DecisionEnum.APPROVE)
    assert (
        call("approvals", "approvals_decide", asked[0].id, body=decision).status == models.ApprovalStatusEnum.APPROVED
    )

    until = time.monotonic() + 60
    while (run := call("runs", "runs_retrieve", sent.run.id)).finished_at is None and time.monotonic() < until:
        time.sleep(0.1)
    assert run.status == models.RunStatusEnum.SUCCEEDED, run.error
    assert run.id in [one.id for one in call("runs", "runs_list", agent="generated").results]
    types = [event.type_ for event in call("runs", "runs_events", run.id).results]
    assert types[-1] == "run.finished"


def test_the_generated_client_reads_errors(call):
    missing = call("agents", "agents_retrieve", "no-such-agent")
    assert isinstance(missing, call.models.Error) and missing.error.code == "not_found"
