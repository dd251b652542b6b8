"""A backup under load, restored elsewhere: the ledger outside counts what was really done."""

import os
import subprocess
import sys
import threading

import pytest

from tests.fakes import StubOpenAI
from tests.journeys.test_chaos import Till, pay_once, send, set_up, state_of
from tests.live import OURS, ROOT, Live, copy_prepared, data_directory, database_of, wait_for

LATE, LOAD = 4, 20


class Ledger(Till):
    """Orders named “late” are charged when the gate opens."""

    def __init__(self):
        super().__init__()
        self.gate = threading.Event()
        self.asked: list[str] = []

    def charge(self, asked):
        self.asked.append(asked.json["order"])
        if asked.json["order"].startswith("late"):
            self.gate.wait(120)
        return super().charge(asked)


@pytest.fixture
def ledger():
    with Ledger() as shop:
        yield shop
        shop.gate.set()


@pytest.fixture
def muster(prepared, request, ledger):
    with StubOpenAI() as model, data_directory() as directory:
        model.otherwise = pay_once
        copy_prepared(prepared, directory)
        environment = {"MUSTER_PRIVATE_HOSTS": "127.0.0.1", "MUSTER_LEASE": "3", **database_of(request.config)}
        made = Live(directory, "--no-greeting", **environment)
        set_up(made, model, ledger)
        yield made
        made.stop()


def manage(data_dir, environment, *arguments):
    """What a management command of this Muster prints."""
    known = {name: value for name, value in os.environ.items() if name not in OURS and not name.startswith("MUSTER_")}
    done = subprocess.run(
        [sys.executable, "manage.py", *map(str, arguments)], cwd=ROOT, text=True, capture_output=True,
        env=known | environment | {"MUSTER_DATA_DIR": str(data_dir)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def is_done(muster, run):
    return state_of(muster, run).get("finished_at")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "database",
    [
        pytest.param("sqlite", marks=pytest.mark.live(database="sqlite")),
        pytest.param("postgres", marks=pytest.mark.live(database="postgres")),
    ],
)
def test_a_restored_site_repeats_nothing(muster, ledger, database, request, tmp_path):
    if database != request.config.getoption("db"):
        pytest.skip("this lane uses the other database")
    until = 10**9
    file = muster.http.post("/api/v1/files/", json={"name": "a.txt", "text": "All is well."}).json()
    late = [send(muster, f"late-{number}", until) for number in range(LATE)]
    wait_for(
        lambda: len(ledger.asked) >= LATE, told=lambda: f"{ledger.asked} {[state_of(muster, one) for one in late]}"
    )
    load = threading.Thread(target=lambda: [send(muster, f"load-{number}", until) for number in range(LOAD)])
    load.start()
    backup = tmp_path / "site.backup"
    said = manage(muster.data_dir, muster.environment, "backup", backup)
    assert "checksums hold" in said and "Keep MUSTER_FIELD_KEYS apart" in said
    load.join()
    ledger.gate.set()
    wait_for(lambda: len(ledger.charged) == LATE + LOAD and all(is_done(muster, run) for run in late))
    muster.stop()

    (muster.data_dir / "serve.lock").unlink()
    said = manage(muster.data_dir, muster.environment, "restore", backup, "--replace")
    assert "on hold" in said
    muster.start()
    assert muster.http.get("/readyz").status_code == 200
    answer = muster.http.post("/api/v1/agents/payer/messages", json={"message": "after", "wait": 6})  # twice the lease
    assert answer.status_code == 202  # it is taken, and nobody works on it
    run = answer.json()["run"]["id"]
    assert [state_of(muster, one)["status"] for one in late] == ["running"] * LATE
    assert muster.http.get(f"/api/v1/files/{file['id']}/content").text == "All is well."
    said = manage(muster.data_dir, muster.environment, "resume")
    assert all(one in said for one in late)
    wait_for(lambda: is_done(muster, run))
    assert [state_of(muster, one)["error"]["code"] for one in late] == ["restored"] * LATE
    charged = sorted(ledger.charged)
    assert charged == sorted([*(f"late-{n}" for n in range(LATE)), *(f"load-{n}" for n in range(LOAD)), "after"])
