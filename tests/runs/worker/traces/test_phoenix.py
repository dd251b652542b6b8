"""Traces as Arize Phoenix shows them: a real Phoenix takes them, and its API is read back.

`phoenix` must be on the PATH (`pip install arize-phoenix` in an environment of its own). `PHOENIX_URL` names one that
runs already.
"""

import os
import shutil
import subprocess
import time
from uuid import uuid4

import httpx2
import pytest

from agents.models import Tool
from runs.worker.traces import export
from tests.fakes import calls, says
from tests.runs.worker.traces.test_traces import later
from tests.servers import free_port

PHOENIX = shutil.which("phoenix")
RUNNING = os.environ.get("PHOENIX_URL", "")
pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(not (PHOENIX or RUNNING), reason="Arize Phoenix is not installed (pip install arize-phoenix)"),
]
TOKENS = "query($id: ID!) { node(id: $id) { ... on Project { tokenCountTotal traceCount } } }"


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory):
    if RUNNING:
        yield RUNNING
        return
    port, folder = free_port(), tmp_path_factory.mktemp("phoenix")
    own = {"PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(free_port()),
           "PHOENIX_WORKING_DIR": str(folder), "PHOENIX_TELEMETRY_ENABLED": "false"}  # fmt: skip
    with (folder / "log").open("wb") as log:
        program = subprocess.Popen([PHOENIX, "serve"], env={**os.environ, **own}, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: httpx2.get(f"{url}/healthz").is_success, program, folder / "log")
        yield url
    finally:
        program.terminate()
        program.wait(30)


def wait_until(is_ready, program=None, log=None):
    for _ in range(1200):
        assert program is None or program.poll() is None, log.read_text()
        try:
            if found := is_ready():
                return found
        except httpx2.HTTPError:
            pass
        time.sleep(0.2)
    raise AssertionError("Phoenix did not answer")


class Shown:
    """What Phoenix shows of the runs that were sent since."""

    def __init__(self, url, project):
        self.url, self.project = url, project

    def spans(self, number):
        def all_there():
            answer = httpx2.get(f"{self.url}/v1/projects/{self.project}/spans", params={"limit": 1000})
            found = answer.json()["data"] if answer.is_success else []
            return found if len(found) >= number else None

        found = wait_until(all_there)
        assert len(found) == number
        return {span["name"]: span for span in sorted(found, key=lambda one: one["start_time"], reverse=True)}

    def totals(self):
        project = httpx2.get(f"{self.url}/v1/projects/{self.project}").json()["data"]["id"]
        body = {"query": TOKENS, "variables": {"id": project}}
        return httpx2.post(f"{self.url}/graphql", json=body).json()["data"]["node"]


@pytest.fixture
def shown(phoenix, settings):
    project = f"muster-{uuid4().hex[:8]}"
    settings.OTLP_ENDPOINT, settings.OTLP_HEADERS = phoenix, {"x-project-name": project}
    settings.OTLP_METRICS = False  # Phoenix takes none
    export.collector.cache_clear()
    assert export.tick_traces() == 0  # remembers where to begin
    yield Shown(phoenix, project)
    export.collector(phoenix, settings.SERVICE_NAME).meters.shutdown()
    export.collector.cache_clear()


def test_a_run_with_a_call(helper, stub, send, shown, settings):
    settings.TRACE_CONTENTS = True
    stub.script(calls(("add", {"a": 1, "b": 2})), says("3"))
    run = send()
    assert export.tick_traces(later()) == 1
    spans = shown.spans(4)
    kinds = {name: span["span_kind"] for name, span in spans.items()}
    root = spans["invoke_agent helper"]
    [chat] = [name for name in spans if name.startswith("chat")]
    assert kinds == {"invoke_agent helper": "AGENT", chat: "LLM", "execute_tool add": "TOOL"}
    assert {span["context"]["trace_id"] for span in spans.values()} == {run.pk.hex}
    assert root["parent_id"] is None
    assert spans["execute_tool add"]["parent_id"] == root["context"]["span_id"] == spans[chat]["parent_id"]
    tool, model = spans["execute_tool add"]["attributes"], spans[chat]["attributes"]
    assert (tool["tool.name"], tool["tool.parameters.a"], tool["tool.parameters.b"]) == ("add", 1, 2)
    assert tool["output.value"] == '{"sum": 42}'
    assert model["llm.model_name"] == chat.split()[1] and model["session.id"] == str(run.session_id)
    sent = [model[f"llm.input_messages.{place}.message.role"] for place in range(2)]
    assert sent == ["system", "user"] and model["llm.input_messages.1.message.content"] == "private words"
    assert "add" in str({name: value for name, value in model.items() if name.startswith("llm.output_messages")})
    assert {span["status_code"] for span in spans.values()} == {"OK"}
    assert shown.totals() == {"tokenCountTotal": run.input_tokens + run.output_tokens, "traceCount": 1}


def test_child_runs_and_steps_are_nested(alice, make_agent, stub_provider, stub, send, shown):
    make_agent("minion", provider=stub_provider)
    make_agent("boss", tools=[Tool.objects.get(kind="agent", owner=alice)], provider=stub_provider)
    stub.script(calls(("minion", {"task": "do it"})), says("done"), says("all done"))
    run = send("boss")
    export.tick_traces(later())
    spans = shown.spans(6)
    assert spans["invoke_agent minion"]["parent_id"] == spans["execute_tool minion"]["context"]["span_id"]
    assert spans["execute_tool minion"]["parent_id"] == spans["invoke_agent boss"]["context"]["span_id"]
    assert {span["context"]["trace_id"] for span in spans.values()} == {run.pk.hex}
    assert shown.totals()["traceCount"] == 1


def test_a_failed_run(helper, stub, send, shown):
    stub.script(says("", status=400))
    run = send()
    export.tick_traces(later())
    root = shown.spans(2)["invoke_agent helper"]
    assert (root["status_code"], root["status_message"]) == ("ERROR", run.error["code"])
