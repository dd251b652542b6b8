"""The local directory agent from end to end: a chain, a real device client, the offline provider with a script."""

import json
from pathlib import Path

import pytest

from tests.devices.machine import Machine
from tests.live import Live, copy_prepared, data_directory, database_of, wait_for

pytestmark = pytest.mark.live
SCRIPT = Path(__file__).with_name("local_directory.yaml")


@pytest.fixture
def muster(prepared, request):
    with data_directory() as directory:
        copy_prepared(prepared, directory)
        environment = {"MUSTER_OFFLINE_SCRIPT": str(SCRIPT), "MUSTER_DEVICE_WAIT": "6"}
        live = Live(directory, "--no-greeting", **environment, **database_of(request.config))
        yield live
        live.stop()


@pytest.fixture
def laptop(muster, tmp_path):
    machine = Machine(tmp_path, muster.url, muster.http)
    yield machine.start()
    machine.stop()


def start(muster, laptop, **more) -> dict:
    body = {"input": {"device": laptop.id, "directory_paths": ["."], "data_types": ["tasks"], **more}}
    answer = muster.http.post("/api/v1/chains/local-directory/runs", json=body, headers={"Prefer": "respond-async"})
    assert answer.status_code in (200, 201, 202), answer.text
    id = answer.json().get("run", answer.json())
    return ended(muster, id["id"] if isinstance(id, dict) else id)


def called(muster, run) -> list[str]:
    rows = muster.http.get(f"/api/v1/runs/{run['id']}/children/").json()["results"]
    return [
        call["name"]
        for row in rows
        for call in muster.http.get(f"/api/v1/runs/{row['id']}/tool-calls/").json()["results"]
    ]


def ended(muster, id) -> dict:
    def look():
        run = muster.http.get(f"/api/v1/runs/{id}").json()
        return run if run["status"] in ("succeeded", "partial", "failed", "expired", "cancelled") else None

    return wait_for(look, within=90)


def test_it_groups_the_files_of_a_device_and_keeps_its_tasks(muster, laptop):
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
    assert "create_note" not in called(muster, run), "not even asked for: it was not offered"
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
    assert run["error"].get("step") == "look", run
    assert run["status"] == "failed", run
    assert [item["code"] for item in run["error"]["items"]] == ["device_offline"]
    assert called(muster, run) == []
