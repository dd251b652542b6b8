"""The test environment: a data directory of its own, an embedded Valkey, and either database.

`pytest` runs every test on SQLite, `pytest --db=postgres` (or DB=postgres) on the embedded PostgreSQL. `make test` starts
one pytest with a worker process for each lane (see LANES), side by side. People are in people.py.
"""

import gc
import logging
import math
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from django.db import connection, connections

from supervisor import postgres, processes, valkey
from tests.matrices import is_exhaustive
from tests.rewriting import compile_test_modules

SHARED_MEMORY, ROOM = Path("/dev/shm"), 1 << 30  # a container may have as little as 64 MB of it
FOR_TESTS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "64MB",
             "idle_in_transaction_session_timeout": "600s"}  # fmt: skip
PLUGINS = (  # they import models, so they come after Django's set-up
    "tests.people",
    "tests.transactions",
    "tests.emptying",
    "tests.live_agents",
    "tests.worker",
    "tests.chains",
    "tests.schedules",
    "tests.live",
    "tests.journeys.browser",
    "tests.agents.model_server",
    "tests.connectors.linked",
    "tests.devices.written",
    "tests.runs.queue.carriers.brokers",
    "tests.runs.worker.notices.asked",
    "tests.studio.finished",
    "tests.zoo.keepers",
)
OURS = ("SECRET_KEY", "ALLOWED_HOSTS", "DATABASE_URL", "BROKER_URL", "CHANNEL_URL", "CACHE_URL", "DB", "DEBUG",
        "OPENAI_BASE_URL")  # fmt: skip
FOR_JOURNEYS = ("MUSTER_CHAOS_RUNS",)
OTHER_SESSIONS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
FEW = 4  # cases of a test that `make test-fast` runs; `make test` runs them all
children: list[int] = []


def needs_database(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    return item.get_closest_marker("django_db") is not None or "db" in fixtures or "transactional_db" in fixtures


def live_on(item: pytest.Item) -> str | None:
    """The database of the whole Muster that this test starts; None for a test that starts none."""
    marker = item.get_closest_marker("live")
    return marker.kwargs.get("database", "sqlite") if marker else None


def in_browser(item: pytest.Item) -> bool:
    return item.get_closest_marker("browser") is not None


# Of these the statements are Django's own and take no lock, so that PostgreSQL could find no fault here which the tests
# of the same rows elsewhere do not find: what is checked is a table of rights, a file, or the text of a starter.
ON_SQLITE_ALONE = (
    "tests/agents/definitions/",
    "tests/agents/teams/test_table.py",
    "tests/config/test_open_addresses.py",  # the CPU of this process, which on SQLite holds that of the database
    "tests/connectors/test_starter.py",
    "tests/docs/",
    "tests/runs/chains/test_starter_chains.py",
    "tests/studio/test_german.py",
    "tests/studio/test_help.py",
)


# Of these each case asks the database another question or sends it another value, so each runs on PostgreSQL too. Of
# every other test with parameters the first case does: the rest differ in what is refused, before or after the same
# statements.
EACH_CASE_ON_POSTGRES = (
    "tests/agents/http/test_filters.py",
    "tests/agents/test_admin.py",
    "tests/agents/test_api.py::test_lists_ask_a_constant_number_of_queries",
    "tests/config/test_odd_values.py",
    "tests/gateway/langgraph/test_rows.py",
    "tests/runs/loop/test_hostile_json.py",
    "tests/runs/schedules/test_calendar_ends.py",
    "tests/runs/worker/test_deletes_beside_runs.py",
    "tests/studio/activity/",
    "tests/studio/test_admin.py::test_every_list_opens_and_can_be_searched",
    "tests/studio/test_forms.py::test_a_nul_character_is_refused_before_the_database_sees_it",
    "tests/studio/test_pages.py",
    "tests/zoo/test_runs.py",
)


# Of these the first case of each runs on PostgreSQL, although their transactions are committed: whether a credential is
# still good is one statement, whatever connection asks.
FIRST_CASE_ON_POSTGRES = ("tests/config/test_lost_rights.py",)


# These take more than a second of CPU each: `make test-fast` leaves them out, as it does what is marked slow.
TAKE_SECONDS = (
    "tests/agents/definitions/test_files.py::test_the_starters_say_what_their_rows_are",
    "tests/agents/definitions/test_model_names.py::test_init_db",
    "tests/agents/http/test_known.py::test_the_parameters_of_the_document_are_those_that_are_read",
    "tests/agents/http/test_sent_back.py",
    "tests/agents/test_options.py::test_every_option_is_in_the_reference",
    "tests/agents/test_ways_up.py::test_no_role_finds_people_by_a_part_of_their_name",
    "tests/attacks/people/",
    "tests/attacks/test_storage_floods.py",
    "tests/config/test_names.py::test_the_api_gives_names_in_english",
    "tests/config/test_odd_values.py",
    "tests/config/test_open_addresses.py::test_no_address",
    "tests/config/test_schema.py::test_the_served_document_is_valid_openapi_3_1",
    "tests/config/test_small_disk.py",
    "tests/connectors/accounts/test_odd_services.py::test_a_body_of_five_megabytes_is_read",
    "tests/devices/test_package.py::test_it_is_installed_and_runs_in_an_environment_of_its_own",
    "tests/devices/test_protocol.py::test_no_json_makes_the_parser_fall_over",
    "tests/docs/test_code_texts.py::test_every_text_of_an_error",
    "tests/docs/test_hints.py::test_a_refusal_says_what_to_do",
    "tests/docs/test_json_of_strangers.py",
    "tests/docs/test_reference.py::test_what_is_generated_in_the_client_is_what_the_api_says_now",
    "tests/functions/sandbox/test_corpus.py",
    "tests/functions/sandbox/test_fuzz.py",
    "tests/functions/sandbox/test_ways_round.py::test_the_language_layer_alone",
    "tests/pages/test_scripts.py::test_the_types_of_the_scripts",
    "tests/runs/models/test_run.py::test_nothing_else_writes_the_status_of_a_run",
    "tests/runs/worker/test_process.py",
)


def is_committed(item: pytest.Item) -> bool:
    """Whether the test's transactions are really committed, so that they may wait for locks."""
    marker = item.get_closest_marker("django_db")
    return "transactional_db" in getattr(item, "fixturenames", ()) or (
        marker is not None and bool(marker.kwargs.get("transaction"))
    )


def is_first_case(item: pytest.Item) -> bool:
    """Whether no earlier case of the same test function has parameters; a test without parameters is its only case."""
    case = getattr(item, "callspec", None)
    return case is None or not any(case.indices.values())


def differs_on_postgres(item: pytest.Item) -> bool:
    if is_exhaustive() or item.nodeid.startswith(EACH_CASE_ON_POSTGRES):
        return True
    if is_committed(item) and not item.nodeid.startswith(FIRST_CASE_ON_POSTGRES):
        return True
    return is_first_case(item) and not item.nodeid.startswith(ON_SQLITE_ALONE)


# What a worker process of `make test` runs, named by the environment variable LANE: on which database, and which tests.
# Tests that use the database run on SQLite, and where it may differ on PostgreSQL. Those that use none run once, and so
# do those that start a whole Muster: in a browser or not, in a lane each, because a lane is as slow as its waits.
LANES: dict[str, tuple[str, Callable[[pytest.Item], bool]]] = {
    "sqlite": ("sqlite", lambda item: needs_database(item) and not live_on(item)),
    "postgres": ("postgres", lambda item: needs_database(item) and not live_on(item) and differs_on_postgres(item)),
    "plain": ("sqlite", lambda item: not needs_database(item) and not live_on(item)),
    "live": ("sqlite", lambda item: live_on(item) == "sqlite" and not in_browser(item)),
    "browser": ("sqlite", lambda item: live_on(item) == "sqlite" and in_browser(item)),
    "live-postgres": ("postgres", lambda item: live_on(item) == "postgres"),
}
LIVE_LANES = ("live", "browser", "live-postgres")
MARKS_OF_FILE = re.compile(r"^pytestmark = (\[[^\]]*\]|[^\n]*)", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--db", choices=["sqlite", "postgres"], default=os.environ.get("DB") or "sqlite")
    parser.addoption("--few-cases", action="store_true", help=f"of each test with parameters at most {FEW} cases")


def pytest_configure(config: pytest.Config) -> None:
    """Before Django reads its settings: decide where data lives and start the servers that the settings name."""
    if starts_workers(config):  # each worker process has its own servers
        shared = Path(tempfile.mkdtemp(prefix="muster-shared-"))
        shared.chmod(0o755)  # PostgreSQL runs as nobody where the tests run as root
        os.environ["SHARED_BY_WORKERS"] = str(shared)
        compile_test_modules(config)
        return
    gc.disable()  # until the tests are collected: what is imported stays, and looking through it again takes 12 s
    if lane := os.environ.get("LANE"):
        config.option.db = LANES[lane][0]
    data_dir = Path(tempfile.mkdtemp(prefix="muster-test-", dir=SHARED_MEMORY if has_room(SHARED_MEMORY) else None))
    data_dir.chmod(0o755)  # PostgreSQL runs as nobody where the tests run as root
    (data_dir / "static").mkdir()  # WhiteNoise warns where there is none
    forget_what_is_set_here()
    os.environ["MUSTER_DATA_DIR"] = str(data_dir)
    start_valkey(data_dir)
    if config.getoption("db") == "postgres":
        start_postgres(data_dir)
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    django.setup()
    if os.environ.get("LANE") not in LIVE_LANES:
        let_examples_take_their_time()
    for plugin in PLUGINS:
        config.pluginmanager.import_plugin(plugin)


def pytest_collection_finish() -> None:
    """Garbage is collected among what the tests make, not among ten thousand tests and all that is imported."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


def let_examples_take_their_time() -> None:
    """Hypothesis fails an example that takes more than 0.2 s, as any of them may on a busy machine."""
    import hypothesis

    hypothesis.settings.register_profile(
        "muster", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("muster")


def starts_workers(config: pytest.Config) -> bool:
    return config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A lane need not import the files of which every test runs in another one, nor `make test-fast` slow ones."""
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text()
    first = MARKS_OF_FILE.search(text)
    marks = first[1] if first else ""
    return True if is_left_out(config, text, marks) else None


def is_left_out(config: pytest.Config, text: str, marks: str) -> bool:
    """Whether no test of a file runs in this process, judged by its text and by the marks of all its tests."""
    lane = os.environ.get("LANE")
    if config.getoption("few_cases"):
        return any(mark in marks for mark in ("mark.slow", "mark.live", "mark.browser"))
    if lane in LIVE_LANES:
        return "mark.live" not in text
    if lane == "plain" and "django_db" in marks:
        return True
    return lane is not None and "mark.live" in marks


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not is_exhaustive():
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("exhaustive")])
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]
    for item in items:
        if item.nodeid.startswith(TAKE_SECONDS):
            item.add_marker("slow")
    if config.getoption("few_cases"):
        few = choose_few_cases(items)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in few])
        items[:] = [item for item in items if item.nodeid in few]
    if lane := os.environ.get("LANE"):
        belongs = LANES[lane][1]
        config.hook.pytest_deselected(items=[item for item in items if not belongs(item)])
        items[:] = [item for item in items if belongs(item)]
    # Playwright's event loop stays in the thread, where `asyncio.run` then fails: tests with a browser come last.
    items.sort(key=in_browser)


def choose_few_cases(items: list[pytest.Item]) -> set[str]:
    """The names of at most FEW cases of each test, from the whole length of its table."""
    cases: dict[str, list[str]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
    chosen: set[str] = set()
    for names in cases.values():
        step = math.ceil(len(names) / FEW)
        chosen.update(names[::step])
    return chosen


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Worker processes send their reports as UTF-8, which cannot hold half of a surrogate pair."""
    return without_surrogates((yield))


def without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, list | tuple):
        return type(value)(without_surrogates(one) for one in value)
    if isinstance(value, dict):
        return {key: without_surrogates(one) for key, one in value.items()}
    return value


def pytest_unconfigure(config: pytest.Config) -> None:
    if starts_workers(config):
        shutil.rmtree(os.environ.pop("SHARED_BY_WORKERS"), ignore_errors=True)
        return
    logging.disable()  # threads that renew leases live on, and would report that the servers are gone
    for one in connections.all(initialized_only=True) if settings.configured else ():
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
    os.environ["MUSTER_ENV_FILE"] = ""


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
    cluster = postgres.prepare_cluster(data_dir, **FOR_TESTS)
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
