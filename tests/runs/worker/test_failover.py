"""PostgreSQL is killed, and an earlier copy of its files takes its place: the last transactions are gone.

The copy is made while all its processes are stopped, as a replica that lags behind would have it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest
from django.conf import settings

from supervisor import postgres, processes
from tests.fakes import StubOpenAI, calls, says
from tests.live import ROOT, plain_environment, wait_for

pytestmark = [pytest.mark.live(database="postgres"), pytest.mark.timeout(300)]


class Server:
    """A PostgreSQL of this test."""

    def __init__(self, home):
        self.cluster = postgres.prepare_cluster(home, fsync="off", shared_buffers="32MB")
        self.copy = self.cluster.data.with_name("copy")
        self.start()
        postgres.make_database(self.cluster.sockets)

    def start(self):
        self.pid = processes.fork(postgres.command(self.cluster))
        wait_for(lambda: postgres.is_ready(self.cluster))

    def remember(self):
        main = psutil.Process(self.pid)
        main.suspend()  # from now on it starts no others
        everything = [*main.children(recursive=True), main]
        for one in everything:
            with suppress(psutil.NoSuchProcess):
                one.suspend()
        shutil.rmtree(self.copy, ignore_errors=True)
        subprocess.run(["cp", "-a", str(self.cluster.data), str(self.copy)], check=True)
        for one in everything:
            with suppress(psutil.NoSuchProcess):
                one.resume()

    def fail_over(self):
        self.kill()
        shutil.rmtree(self.cluster.data)
        self.copy.rename(self.cluster.data)
        (self.cluster.data / "postmaster.pid").unlink()
        self.start()

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        postgres.wait_for_earlier(self.cluster)

    def rows(self, statement, *values):
        with psycopg.connect(postgres.url(self.cluster.sockets), autocommit=True) as line:
            return line.execute(statement, values).fetchall()


class Muster:
    """The process of `failing_over.py`."""

    def __init__(self, server, folder, model):
        self.folder, self.said = folder, []
        environment = plain_environment() | {
            "DJANGO_SETTINGS_MODULE": "config.settings", "DATABASE_URL": postgres.url(server.cluster.sockets),
            "MUSTER_CARRIER": "postgres", "MUSTER_LEASE": "3", "MUSTER_DATA_DIR": str(folder / "data"),
            "MUSTER_PRIVATE_HOSTS": "127.0.0.1", "BROKER_URL": settings.BROKER_URL, "PYTHONPATH": str(ROOT),
            "CHANNEL_URL": settings.CHANNEL_URL, "CACHE_URL": settings.CACHE_URL,
        }  # fmt: skip
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("failing_over.py")), str(folder), model],
                cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        threading.Thread(target=self.hear, daemon=True).start()

    def hear(self):
        for line in self.process.stdout:
            self.said.append(line)

    def do(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def wait_for(self, word):
        """The rest of the next line that begins with this word."""

        def found():
            return next((line for line in self.said if line.startswith(word)), None)

        line = wait_for(found, 120, lambda: "".join(self.said) + self.log.read_text()[-3000:])
        self.said.remove(line)
        return line.removeprefix(word).strip()

    def ledger(self):
        file = self.folder / "ledger"
        return file.read_text().split() if file.exists() else []

    def let_calls_end(self):
        (self.folder / "go").touch()

    def hold_calls(self):
        (self.folder / "go").unlink(missing_ok=True)
        (self.folder / "ledger").unlink(missing_ok=True)


@pytest.fixture
def folder():
    made = Path(tempfile.mkdtemp(prefix="muster-failover-", dir="/var/tmp"))
    made.chmod(0o755)  # PostgreSQL runs as nobody where the tests run as root
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def server(folder):
    made = Server(folder / "postgres")
    yield made
    made.kill()
    shutil.rmtree(postgres.home(folder / "postgres"), ignore_errors=True)


@pytest.fixture
def model():
    with StubOpenAI() as made:
        yield made


@pytest.fixture
def muster(server, folder, model):
    made = Muster(server, folder, model.url)
    made.wait_for("ready")
    yield made
    made.process.kill()
    made.process.wait()


def outcomes(server, run):
    return [row[0] for row in server.rows("SELECT outcome FROM runs_toolcallrecord WHERE run_id = %s", run)]


def numbers(server, run):
    return [row[0] for row in server.rows("SELECT seq FROM runs_runevent WHERE run_id = %s ORDER BY seq", run)]


def test_a_failover_that_loses_the_last_transactions_leaves_nothing_stuck_or_counted_twice(server, muster, model):
    the_claim_is_gone(server, muster, model)
    the_run_is_gone(server, muster, model)
    the_end_is_gone(server, muster, model)
    assert server.rows("SELECT count(*) FROM runs_run WHERE lease_expires_at IS NOT NULL") == [(0,)]


def the_claim_is_gone(server, muster, model):
    """Nothing in the database says that the call was begun: the run begins again. What the worker still does of the
    first beginning, under a claim with the same number, is not written."""
    model.script(calls(("send", {"to": "x"})), calls(("send", {"to": "x"})), says("Done."))
    muster.do("ask")
    run = muster.wait_for("accepted")
    server.remember()
    muster.do("work")
    wait_for(lambda: len(muster.ledger()) == 1)
    server.fail_over()
    wait_for(lambda: len(muster.ledger()) == 2)
    muster.let_calls_end()
    assert muster.wait_for("succeeded") == run
    assert outcomes(server, run) == ["ok"] and len(set(muster.ledger())) == 2
    assert numbers(server, run) == [*range(1, len(numbers(server, run)) + 1)]


def the_run_is_gone(server, muster, model):
    """Whoever waits for it learns that; the worker lets go, and takes the next."""
    muster.hold_calls()
    model.script(calls(("send", {"to": "y"})), calls(("send", {"to": "z"})), says("Done."))
    server.remember()
    muster.do("ask")
    run = muster.wait_for("accepted")
    wait_for(lambda: len(muster.ledger()) == 1)
    server.fail_over()
    assert muster.wait_for("run_gone") == run
    muster.let_calls_end()
    assert server.rows("SELECT count(*) FROM runs_run WHERE id = %s", run) == [(0,)]
    muster.do("ask")
    again = muster.wait_for("accepted")
    assert muster.wait_for("succeeded") == again and len(muster.ledger()) == 2


def the_end_is_gone(server, muster, model):
    """The call was recorded and its result is gone: it is not made again, and the model learns that."""
    muster.hold_calls()
    model.script(calls(("send", {"to": "w"})), says("Done."), says("Perhaps."))
    muster.do("ask")
    run = muster.wait_for("accepted")
    wait_for(lambda: len(muster.ledger()) == 1)
    server.remember()
    muster.let_calls_end()
    assert muster.wait_for("succeeded") == run
    server.fail_over()
    ended = "SELECT status FROM runs_run WHERE id = %s AND finished_at IS NOT NULL"
    wait_for(lambda: server.rows(ended, run), 60, muster.log.read_text)
    assert server.rows(ended, run) == [("succeeded",)]
    assert outcomes(server, run) == ["unknown"] and len(muster.ledger()) == 1
    assert numbers(server, run) == [*range(1, len(numbers(server, run)) + 1)]
