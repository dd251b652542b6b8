"""The whole of Muster as a person starts it: `manage.py serve` in a data directory of its own."""

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil
import psycopg
import pytest

from supervisor import postgres
from tests.servers import free_port

ROOT = Path(__file__).resolve().parent.parent
OURS = ("SECRET_KEY", "ALLOWED_HOSTS", "DATABASE_URL", "BROKER_URL", "CHANNEL_URL", "CACHE_URL", "DB", "DEBUG")
FIRST_START = "first_start.txt"
TITLES = {
    "web": "daphne",
    "worker": "muster worker",
    "valkey": "valkey-server",
    "postgres": "bin/postgres -D",
}


class Live:
    """A running Muster: `live.http.post("/api/v1/…", json={…})` is the development key's owner, a superuser."""

    def __init__(self, data_dir: Path, *arguments: str, **environment: str) -> None:
        self.data_dir = data_dir
        self.arguments = arguments
        self.environment = environment
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Come back when it said that it is ready; what it said up to then is in `said`."""
        self.process = serve(
            "--port", str(self.port), "--data-dir", str(self.data_dir), *self.arguments, **self.environment
        )
        self.said = read_until(self.process)
        self.key = (self.data_dir / "secrets" / "development_key").read_text().strip()
        self.http = httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=120)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit code. No run of a journey may have looked like a circle."""
        suspected = self.suspected_of_circles()
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=120)
        assert suspected == [], f"honest runs were warned of circles: {suspected}"
        return code

    def suspected_of_circles(self) -> list[str]:
        """The runs that were warned, those that were then stopped among them; [] of a database that was killed."""
        asked = "SELECT run_id FROM runs_runevent WHERE type = 'stuck.warned'"
        if self.environment.get("DB") == "postgres":
            try:
                with psycopg.connect(postgres.url(postgres.home(self.data_dir) / "run"), connect_timeout=5) as line:
                    return [str(run) for (run,) in line.execute(asked)]
            except psycopg.OperationalError:
                return []
        file = self.data_dir / "muster.sqlite3"
        if not file.exists():
            return []
        with closing(sqlite3.connect(file, timeout=20)) as line:
            return [str(run) for (run,) in line.execute(asked)]

    def programs(self) -> dict[str, psutil.Process]:
        """The supervisor's living children by name: web, worker, valkey, postgres."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            line = command_line(child)
            if name := next((name for name, title in TITLES.items() if title in line), None):
                found[name] = child
        return found

    def everything(self) -> list[psutil.Process]:
        """All processes below the supervisor, the sandbox's included."""
        return psutil.Process(self.process.pid).children(recursive=True)


def plain_environment() -> dict[str, str]:
    """Nothing of a person's own Muster, nor of the file .env of their checkout."""
    plain = {name: value for name, value in os.environ.items() if name not in OURS and not name.startswith("MUSTER_")}
    return plain | {"MUSTER_ENV_FILE": ""}


def environment_of(muster: Live) -> dict[str, str]:
    """For another program of this Muster, such as a second worker."""
    return plain_environment() | muster.environment | {"MUSTER_DATA_DIR": str(muster.data_dir)}


def serve(*arguments: str, **environment: str) -> subprocess.Popen:
    command = [sys.executable, "manage.py", "serve", *arguments]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=plain_environment() | environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def read_until(process: subprocess.Popen, within: float = 240) -> str:
    """What it prints up to the line about Ctrl-C; a thread takes the rest, so that a full pipe never stops it."""
    lines: list[str] = []
    ready = threading.Event()

    def take() -> None:
        for line in process.stdout:
            if not ready.is_set():
                lines.append(line)
            if "Ctrl-C" in line:
                ready.set()
        ready.set()

    threading.Thread(target=take, daemon=True).start()
    ready.wait(within)
    said = "".join(lines)
    assert "Muster is ready at" in said, f"it did not become ready:\n{said}"
    return said


def wait_for(condition: Any, within: float = 60, told: Callable[[], str] = str) -> Any:
    """The first true answer of a condition about other processes, which nothing in this one can wait upon.

    `told()` says what is known of them when the wait was in vain.
    """
    until = time.monotonic() + within
    while not (answer := condition()):
        assert time.monotonic() < until, f"still not so after {within} s: {told()}"
        time.sleep(0.02)
    return answer


def command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie is none either
        return ""


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def copy_prepared(prepared: Path, directory: Path) -> None:
    subprocess.run(["cp", "-a", f"{prepared}/.", str(directory)], check=True)


def database_of(config: pytest.Config) -> dict[str, str]:
    return {"DB": "postgres"} if config.getoption("db") == "postgres" else {}


@pytest.fixture(scope="session")
def live(prepared: Path, request: pytest.FixtureRequest) -> Iterator[Live]:
    """One Muster for all journeys of a session, which may reach our fakes; whoever kills a part takes `own_live`."""
    yield from running(prepared, request.config, MUSTER_PRIVATE_HOSTS="127.0.0.1", MUSTER_SHARED_LINKS="1")


@pytest.fixture
def own_live(prepared: Path, request: pytest.FixtureRequest) -> Iterator[Live]:
    """A Muster that this test may break."""
    yield from running(prepared, request.config)


@pytest.fixture
def new_live(request: pytest.FixtureRequest) -> Iterator[Live]:
    """A Muster in an empty directory: its first start."""
    with data_directory() as directory:
        muster = Live(directory, **database_of(request.config))
        yield muster
        muster.stop()


@pytest.fixture(scope="session")
def prepared(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A data directory after its first start; it is copied, never served from again. Worker processes side by side
    share one of each database.
    """
    if shared := os.environ.get("SHARED_BY_WORKERS"):
        directory = Path(shared) / f"prepared-{request.config.getoption('db')}"
        with (Path(shared) / f"{directory.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (directory / FIRST_START).exists():
                shutil.rmtree(directory, ignore_errors=True)  # half of one, if another worker failed
                directory.mkdir(mode=0o755)
                start_first(directory, request.config)
        yield directory
        return
    with data_directory() as directory:
        start_first(directory, request.config)
        yield directory


def start_first(directory: Path, config: pytest.Config) -> None:
    first = Live(directory, "--no-greeting", **database_of(config))
    first.stop()
    (directory / FIRST_START).write_text(first.said)  # the only place that tells the admin's password


def running(prepared: Path, config: pytest.Config, **environment: str) -> Iterator[Live]:
    with data_directory() as directory:
        copy_prepared(prepared, directory)
        muster = Live(directory, "--no-greeting", **environment, **database_of(config))
        yield muster
        muster.stop()


@contextmanager
def data_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="muster-live-"))
    directory.chmod(0o755)  # PostgreSQL runs as nobody where the tests run as root
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
