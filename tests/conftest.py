"""The test environment: a data directory of its own, an embedded Valkey, and either database.

`pytest` runs on SQLite, `pytest --db=postgres` (or DB=postgres) on the embedded PostgreSQL. People are in people.py.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pytest
from django.db import connection, connections

from supervisor import postgres, processes, valkey

SHARED_MEMORY, ROOM = Path("/dev/shm"), 1 << 30  # a container may have as little as 64 MB of it
FOR_TESTS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "64MB"}
PLUGINS = (  # they import models, so they come after Django's set-up
    "tests.people",
    "tests.live_agents",
    "tests.worker",
    "tests.chains",
    "tests.schedules",
    "tests.live",
    "tests.journeys.browser",
    "tests.connectors.linked",
    "tests.runs.pages.finished",
)
OURS = ("SECRET_KEY", "ALLOWED_HOSTS", "DATABASE_URL", "BROKER_URL", "CHANNEL_URL", "CACHE_URL", "DB", "DEBUG",
        "OPENAI_BASE_URL")  # fmt: skip
FOR_JOURNEYS = ("MUSTER_CHAOS_RUNS",)
OTHER_SESSIONS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
children: list[int] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--db", choices=["sqlite", "postgres"], default=os.environ.get("DB") or "sqlite")


def pytest_configure(config: pytest.Config) -> None:
    """Before Django reads its settings: decide where data lives and start the servers that the settings name."""
    data_dir = Path(tempfile.mkdtemp(prefix="muster-test-", dir=SHARED_MEMORY if has_room(SHARED_MEMORY) else None))
    data_dir.chmod(0o755)  # PostgreSQL runs as nobody where the tests run as root
    forget_what_is_set_here()
    os.environ["MUSTER_DATA_DIR"] = str(data_dir)
    start_valkey(data_dir)
    if config.getoption("db") == "postgres":
        start_postgres(data_dir)
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    django.setup()
    for plugin in PLUGINS:
        config.pluginmanager.import_plugin(plugin)


def pytest_unconfigure(config: pytest.Config) -> None:
    for one in connections.all(initialized_only=True):
        one.close()
        if one.vendor == "postgresql":
            one.close_pool()  # it would try to reach the server that is stopped now
    for child in children:
        os.kill(child, signal.SIGINT)
    for child in children:
        os.waitpid(child, 0)
    if data_dir := os.environ.get("MUSTER_DATA_DIR"):
        shutil.rmtree(data_dir, ignore_errors=True)


def pytest_report_header(config: pytest.Config) -> str:
    return f"database: {config.getoption('db')}"


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """PostgreSQL drops no database that anybody is connected to, and threads of asynchronous tests live on."""
    yield
    if connection.vendor == "postgresql":
        with django_db_blocker.unblock(), connection.cursor() as cursor:
            cursor.execute(OTHER_SESSIONS)


def forget_what_is_set_here() -> None:
    """A person's own Muster, keys of models, and proxies are not for tests."""
    for name in list(os.environ):
        is_set_for_us = name in OURS or (name.startswith("MUSTER_") and name not in FOR_JOURNEYS)
        if is_set_for_us or name.endswith("_API_KEY") or name.lower().endswith("_proxy"):
            del os.environ[name]


def has_room(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > ROOM


def start_valkey(data_dir: Path) -> None:
    at = data_dir / "valkey.sock"
    child = start(valkey.command(data_dir / "valkey", at), data_dir / "valkey.log")
    if not valkey.wait_until(
        lambda: valkey.is_ready(at), valkey.STARTS_WITHIN, still_alive=lambda: processes.is_alive(child)
    ):
        raise pytest.UsageError((data_dir / "valkey.log").read_text())


def start_postgres(data_dir: Path) -> None:
    cluster = postgres.prepare(data_dir, **FOR_TESTS)
    child = start(postgres.command(cluster), data_dir / "postgres.log")
    if not valkey.wait_until(
        lambda: postgres.is_ready(cluster), postgres.STARTS_WITHIN, still_alive=lambda: processes.is_alive(child)
    ):
        raise pytest.UsageError((data_dir / "postgres.log").read_text())
    postgres.make_database(cluster.sockets)
    os.environ["DB"] = "postgres"


def start(work, log: Path) -> int:
    with log.open("wb") as output:
        child = processes.fork(work, output=output.fileno(), death_signal=signal.SIGINT)
    children.append(child)
    return child
