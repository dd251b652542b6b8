"""The local directory agents while their device is killed: each file exactly once, and no success without work."""

import json
import threading
import time

import pytest

from tests.devices.machine import Machine
from tests.fakes import StubOpenAI
from tests.journeys.directory_model import DirectoryModel
from tests.live import Live, data_directory, database_of, wait_for

pytestmark = pytest.mark.live
DONE = ("succeeded", "partial", "failed", "expired", "cancelled")
FILES = [f"note-{number}.md" for number in range(6)]
CHAIN = "/api/v1/chains/local-directory/runs"


@pytest.fixture(scope="module")
def stub():
    with StubOpenAI() as server:
        yield server


@pytest.fixture(scope="module")
def muster(stub, request):
    """A first start with a local model server, as the README says."""
    with data_directory() as directory:
        environment = {"MUSTER_LOCAL_MODEL": stub.url, "MUSTER_PRIVATE_HOSTS": "127.0.0.1", "MUSTER_DEVICE_WAIT": "40"}
        live = Live(directory, "--no-greeting", **environment, **database_of(request.config))
        yield live
        live.stop()


@pytest.fixture
def model(stub):
    stub.otherwise = DirectoryModel(delay_s=0.2)
    return stub.otherwise


@pytest.fixture
def laptop(muster, tmp_path):
    machine = Machine(tmp_path, muster.url, muster.http)
    (machine.folder / "work").mkdir()
    for file in FILES:
        (machine.folder / "work" / file).write_text(f"This is {file}.")
    yield machine.start()
    machine.stop()
    muster.http.post(f"/api/v1/devices/{machine.id}/revoke", json={}).raise_for_status()


def start(muster, laptop, paths=("docs/work",), **more):
    body = {"input": {"device": laptop.id, "directory_paths": list(paths), "data_types": ["tasks"], **more}}
    answer = muster.http.post(CHAIN, json=body)
    assert answer.status_code in (200, 201, 202), answer.text
    return answer.json()["id"]


def ended(muster, id, within=120):
    def look():
        run = muster.http.get(f"/api/v1/runs/{id}").json()
        return run if run["status"] in DONE else None

    return wait_for(look, within=within, told=lambda: muster.http.get(f"/api/v1/runs/{id}").text)


def titles(laptop):
    return sorted(json.loads(task["data"])["title"] for task in laptop.records("task"))


def paths(*files, root="docs/work"):
    return sorted(f"{root}/{file}" for file in files)


class Killer:
    """Kills the client with -9 before the model's answers at these moments, and starts it again after a while."""

    def __init__(self, laptop, moments, *, back_after_s=1.5, delay_s=0.0):
        self.laptop = laptop
        self.left = list(moments)
        self.back_after_s = back_after_s
        self.delay_s = delay_s
        self.threads = []
        self.lock = threading.Lock()
        self.kills = 0

    def __call__(self, number, moment):
        with self.lock:
            if moment not in self.left:
                return
            self.left.remove(moment)
        thread = threading.Thread(target=self.kill_and_return)
        thread.start()
        self.threads.append(thread)
        if not self.delay_s:
            thread.join(0.1)  # the kill itself

    def kill_and_return(self):
        time.sleep(self.delay_s)
        with self.lock:
            self.laptop.kill()
            self.kills += 1
            time.sleep(self.back_after_s)
            self.laptop.start()

    def join(self):
        for thread in self.threads:
            thread.join(180)


@pytest.mark.parametrize(
    ("moments", "delay_s"),
    [
        (["look", "grouped", "read", "create"], 0.0),  # the client is away when the calls are made
        (["look", "read", "read", "create", "create", "done"], 0.21),  # the calls are on their way or under way
    ],
)
def test_whenever_the_client_is_killed_each_file_is_processed_once(muster, laptop, model, moments, delay_s):
    killer = model.before = Killer(laptop, moments, delay_s=delay_s)
    run = ended(muster, start(muster, laptop))
    killer.join()
    assert run["status"] == "succeeded", run
    assert titles(laptop) == paths(*FILES), "each file once"
    assert run["counts"]["created"] == len(FILES)
    assert killer.kills >= 2
    calls = [call for call in laptop.journal() if call["tool"] == "create_task" and call["state"] == "done"]
    assert len(calls) == len(FILES)


def test_a_client_that_does_not_come_back_leaves_no_success_and_a_retry_does_the_rest(muster, laptop, model):
    killed = threading.Event()

    def kill(number, moment):
        if moment == "read" and not killed.is_set():
            killed.set()
            laptop.kill()

    model.before = kill
    run = ended(muster, start(muster, laptop), within=200)
    assert run["status"] == "failed" or (run["status"] == "partial" and run["error"]), run
    assert run["error"]["step"] == "process"
    assert titles(laptop) == []
    model.before = lambda number, moment: None
    laptop.start()
    again = muster.http.post(f"/api/v1/runs/{run['id']}/retry", json={}).json()["id"]
    assert ended(muster, again)["status"] == "succeeded"
    assert titles(laptop) == paths(*FILES)


def test_a_client_that_is_away_at_the_start_is_waited_for(muster, laptop, model):
    laptop.kill()
    id = start(muster, laptop, ["."])
    wait_for(lambda: muster.http.get(f"/api/v1/runs/{id}").json()["status"] == "waiting")
    laptop.start()
    assert ended(muster, id)["status"] == "succeeded"
    assert titles(laptop) == paths(*FILES, root="work")


@pytest.mark.parametrize(
    ("folders", "status", "processed"), [(["docs/nowhere"], "failed", []), (["work", "docs/nowhere"], "partial", FILES)]
)
def test_a_folder_that_cannot_be_listed_is_no_success(muster, laptop, model, folders, status, processed):
    run = ended(muster, start(muster, laptop, folders))
    assert (run["status"], run["error"]["step"]) == (status, "look"), run
    assert "docs/nowhere" in json.dumps(run["error"])
    assert titles(laptop) == paths(*processed, root="work")


def test_where_nothing_changed_nothing_is_asked(muster, laptop, model):
    count = model.count
    run = ended(muster, start(muster, laptop, last_run_at="2100-01-01T00:00:00Z"))
    assert (run["status"], run["output"]["groups"], model.count) == ("succeeded", {}, count)


def test_a_file_that_is_left_out_or_not_read_is_no_success(muster, laptop, model):
    group, process = model.group, model.process

    def forgetful(files, made):
        return group(files[1:], made)

    def careless(files, made):
        return process(files[:-1], made)

    model.group = forgetful
    run = ended(muster, start(muster, laptop))
    assert (run["status"], run["error"]["code"], run["error"]["step"]) == ("partial", "not_covered", "triage")
    assert run["error"]["missing"] == paths(FILES[0])
    model.group, model.process = group, careless
    run = ended(muster, start(muster, laptop))
    assert (run["status"], run["error"]["code"], run["error"]["step"]) == ("partial", "items_partial", "process")
