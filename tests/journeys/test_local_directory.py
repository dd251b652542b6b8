"""The local directory agent from end to end: a chain, a real device client, a model that is told what to say."""

import json
import subprocess

import pytest

from tests.devices.machine import Machine
from tests.fakes import StubOpenAI, calls, says
from tests.live import Live, data_directory, database_of, wait_for

pytestmark = pytest.mark.slow
AGENTS = ("directory-triage", "directory-processor")


@pytest.fixture
def stub():
    with StubOpenAI() as server:
        server.otherwise = model
        yield server


@pytest.fixture
def muster(prepared, request, stub):
    with data_directory() as directory:
        subprocess.run(["cp", "-a", f"{prepared}/.", str(directory)], check=True)
        allowed = {"MUSTER_PRIVATE_HOSTS": "127.0.0.1", "MUSTER_MODEL_BACKOFF": "0.01"}
        live = Live(directory, "--no-greeting", **allowed, **database_of(request.config))
        use_stub(live, stub)
        yield live
        live.stop()


@pytest.fixture
def laptop(muster, tmp_path):
    machine = Machine(tmp_path, muster.url, muster.http)
    yield machine.start()
    machine.stop()


def use_stub(live, stub):
    body = {"name": "stub", "kind": "openai-compatible", "base_url": stub.url, "api_key": "none"}
    assert live.http.post("/api/v1/providers/", json=body).status_code == 201
    for name in AGENTS:
        change = {"provider": "stub", "model_name": "stub"}
        assert live.http.patch(f"/api/v1/agents/{name}", json=change).status_code == 200
        assert live.http.post(f"/api/v1/agents/{name}/publish", json={}).status_code == 200


def results(body) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def offered(body) -> set[str]:
    return {tool["function"]["name"] for tool in body.get("tools", [])}


def model(body):
    """What a language model would do: look, group, read, create; the broken group makes it fail."""
    text = json.dumps(body["messages"])
    done = results(body)
    if "Group the files" in text:
        since = "2020-01-01T00:00:00+00:00" if "2020-01-01" in text else None
        if not done:
            arguments = {"path": ".", "recursive": True, "extensions": [".md"], "modified_since": since}
            return calls(("list_all_projects", {}), ("list_directory", arguments))
        groups = (
            {"standalone": ["plan.md"]}
            if "broken.md" not in text
            else {"standalone": ["plan.md"], "p-9": ["broken.md"]}
        )
        return says(f"Here is the map:\n```json\n{json.dumps(groups)}\n```\nThat is all.")
    if "broken.md" in text:
        return says("") if done else calls(("read_file_content", {"path": "broken.md"}))
    if not done:
        return calls(("read_file_content", {"path": "plan.md"}), ("list_tasks", {}))
    if len(done) == 2:
        return calls(("create_task", {"title": "Buy milk"}), ("create_note", {"title": "Not chosen", "content": "x"}))
    return says("One task was created.")


def start(muster, laptop, **more) -> dict:
    body = {"input": {"device": laptop.id, "directory_paths": ["."], "data_types": ["tasks"], **more}}
    answer = muster.http.post("/api/v1/chains/local-directory/runs", json=body, headers={"Prefer": "respond-async"})
    assert answer.status_code in (200, 201, 202), answer.text
    id = answer.json().get("run", answer.json())
    return ended(muster, id["id"] if isinstance(id, dict) else id)


def ended(muster, id) -> dict:
    def look():
        run = muster.http.get(f"/api/v1/runs/{id}").json()
        return run if run["status"] in ("succeeded", "partial", "failed", "expired", "cancelled") else None

    return wait_for(look, within=90)


def test_it_groups_the_files_of_a_device_and_keeps_its_tasks(muster, laptop, stub):
    (laptop.folder / "plan.md").write_text("We must buy milk.")
    (laptop.folder / "old.txt").write_text("not asked for")
    run = start(muster, laptop, file_extensions=[".md"])
    assert run["status"] == "succeeded", run
    assert run["output"]["groups"] == {"standalone": ["plan.md"]}
    tasks = laptop.records("task")
    assert [json.loads(task["data"])["title"] for task in tasks] == ["Buy milk"]
    assert (tasks[0]["isAiSuggested"], tasks[0]["isApproved"]) == (1, 0)
    assert run["counts"] == {"processed": 1, "created": 1, "updated": 0}, "counted from results"
    assert laptop.records("note") == [], "notes were not among the chosen kinds"
    assert all("create_note" not in offered(body) for body in stub.requests)
    assert wait_for(lambda: "succeeded" in laptop.client("status"))
    assert "Buy milk" in laptop.client("review")
    laptop.client("review", "approve", "all")
    assert laptop.records("task")[0]["isApproved"] == 1


def test_a_failing_group_leaves_the_others_and_makes_the_run_partial(muster, laptop):
    (laptop.folder / "plan.md").write_text("We must buy milk.")
    (laptop.folder / "broken.md").write_text("nonsense")
    run = start(muster, laptop)
    assert run["status"] == "partial", run
    assert len(laptop.records("task")) == 1


def test_without_the_device_the_run_fails_and_says_why(muster, laptop):
    laptop.stop()
    wait_for(lambda: not laptop.is_online())
    run = start(muster, laptop)
    rows = muster.http.get(f"/api/v1/runs/{run['id']}/children/").json()["results"]
    called = [
        call for row in rows for call in muster.http.get(f"/api/v1/runs/{row['id']}/tool-calls/").json()["results"]
    ]
    codes = {(call["error"] or {}).get("code") for call in called}
    assert "device_offline" in codes
    assert codes <= {"device_offline", "denied"}
