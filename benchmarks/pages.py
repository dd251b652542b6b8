"""Server time of every page at 10,000 agents, 100,000 runs and 1,000,000 events.

`python -m benchmarks.pages [directory]` · on an embedded PostgreSQL of its own; the rows are multiplied inside the
database. A named directory is kept, and measured again without being filled.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from supervisor import postgres, processes, valkey

AGENTS, RUNS, EVENTS, ROUNDS = 10_000, 100_000, 10, 9
UUID7 = (
    "(lpad(to_hex((extract(epoch from {at}) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 3)"
    " || '8' || substr(md5(random()::text), 1, 15))::uuid"
)
SPREAD = "now() - random() * interval '13 days'"
WITHOUT = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "256MB"}


def main() -> None:
    kept = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    directory = kept or Path(tempfile.mkdtemp(prefix="muster-bench-"))
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    os.environ |= {"MUSTER_DATA_DIR": str(directory), "DJANGO_SETTINGS_MODULE": "config.settings"}
    cluster = postgres.prepare_cluster(directory, **WITHOUT)
    with (directory / "postgres.log").open("wb") as log:
        child = processes.fork(postgres.command(cluster), output=log.fileno(), death_signal=signal.SIGINT)
    try:
        ready = valkey.wait_until(lambda: postgres.is_ready(cluster), 30, still_alive=lambda: processes.is_alive(child))
        assert ready, (directory / "postgres.log").read_text()
        os.environ["DB"] = "postgres"
        measure(*filled(directory, cluster))
    finally:
        os.kill(child, signal.SIGINT)
        os.waitpid(child, 0)
        if kept is None:
            shutil.rmtree(directory)


def filled(directory: Path, cluster: Any) -> tuple[int, str, str]:
    """The ids of the person, a run and a session, in a database that is filled once."""
    note = directory / "filled.json"
    is_new = not note.exists()
    if is_new:
        postgres.make_database(cluster.sockets)
    import django

    django.setup()
    from django.core.management import call_command

    if is_new:
        call_command("migrate", verbosity=0)
        person, run, session = fill()
        note.write_text(json.dumps([person.pk, str(run), str(session)]))
    return tuple(json.loads(note.read_text()))  # type: ignore[return-value]


def measure(person: int, run: str, session: str) -> None:
    from django.contrib.auth import get_user_model
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    browser = Client()
    browser.force_login(get_user_model().objects.get(pk=person))
    pages = [
        "/",
        "/start/",
        "/playground/",
        "/runs/",
        "/runs/?status=failed",
        "/runs/?agent=bench",
        "/?everyone=1",
        f"/runs/{run}/",
        "/sessions/",
        f"/sessions/{session}/",
        "/approvals/",
        "/schedules/",
        "/functions/",
        "/devices/",
        "/connections/",
        "/audit/",
        "/admin/",
        "/admin/agents/agent/",
        "/admin/agents/agent/?q=bench-77",
        "/admin/agents/agent/5/change/",
        "/admin/agents/auditevent/",
        "/admin/runs/run/",
        "/admin/runs/session/",
        "/admin/runs/schedule/add/",
        "/admin/runs/budget/add/",
    ]
    print(f"\n{'page':32} {'best ms':>8} {'p50 ms':>8} {'CPU ms':>7} {'statements':>10} {'KB':>6}")
    for path in pages:
        answer = browser.get(path, HTTP_HOST="localhost")
        if answer.status_code != 200:
            print(f"{path[:32]:32} {answer.status_code}")
            continue
        began = time.process_time()
        times = [timed(browser, path) for _ in range(ROUNDS)]
        cpu = (time.process_time() - began) / ROUNDS * 1000
        with CaptureQueriesContext(connection) as queries:
            browser.get(path, HTTP_HOST="localhost")
        name, size = path.split("/0")[0][:32], len(answer.content) / 1024
        print(f"{name:32} {min(times):8.1f} {median(times):8.1f} {cpu:7.1f} {len(queries):10} {size:6.0f}", flush=True)


def timed(browser: Any, path: str) -> float:
    began = time.perf_counter()
    browser.get(path, HTTP_HOST="localhost")
    return (time.perf_counter() - began) * 1000


def fill() -> tuple[Any, Any, Any]:
    """One person with all of it; rows are copies of one that the models made."""
    from django.db import connection

    from agents.models import Agent
    from runs.models import Run, RunEvent

    began = time.perf_counter()
    one = one_of_each()
    copy(one)
    with connection.cursor() as cursor:
        cursor.execute("vacuum analyze")
    print(
        f"filled in {time.perf_counter() - began:.0f} s: "
        f"{Agent.objects.count():,} agents, {Run.objects.count():,} runs, {RunEvent.objects.count():,} events"
    )
    return one["person"], one["run"].pk, one["session"].pk


def one_of_each() -> dict[str, Any]:
    """A person, an agent, and a run with a row of each kind."""
    from django.contrib.auth import get_user_model
    from django.utils import timezone

    from agents.models import Agent, AuditEvent, Provider
    from runs.models import Message, ModelCall, Run, RunEvent, Session, ToolCallRecord

    person = get_user_model().objects.create_superuser("bench")
    provider = Provider.objects.create(name="bench", kind="offline")
    agent = Agent.objects.create(name="bench", provider=provider, owner=person)
    version = agent.publish(author=person)
    now = timezone.now()
    session = Session.objects.create(owner=person, agent=agent, title="bench")
    run = Run.objects.create(
        principal=person, agent=agent, version=version, session=session, status="succeeded", started_at=now,
        finished_at=now + timedelta(seconds=1),
    )  # fmt: skip
    Message.objects.create(session=session, seq=1, role="user", run=run, content=[{"type": "text", "text": "Hello"}])
    return {
        "person": person, "agent": agent, "session": session, "run": run,
        "event": RunEvent.objects.create(run=run, seq=1, type="run.queued", at=now, data={"trigger": "message"}),
        "call": ToolCallRecord.objects.create(
            run=run, name="bench", outcome="failed", started_at=now, finished_at=now
        ),
        "model": ModelCall.objects.create(run=run, turn=1, provider="bench", started_at=now, wall_ms=5),
        "line": AuditEvent.record("agent.published", agent, actor=person),
    }  # fmt: skip


def copy(one: dict[str, Any]) -> None:
    """Thousands of them, spread over thirteen days."""
    multiply(one["agent"], AGENTS, name="'bench-' || n", id=None)
    multiply(one["session"], RUNS // 10, id=UUID7.format(at=SPREAD))
    states = "(array['succeeded','succeeded','succeeded','failed'])[1 + n %% 4]"
    ids = "lpad(to_hex((extract(epoch from ts.at) * 1000)::bigint), 12, '0')"
    multiply(
        one["run"],
        RUNS,
        source=f", lateral (select {SPREAD} + n * interval '0' as at) ts",
        id=f"({ids} || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5('x' || n), 1, 15))::uuid",
        created_at="ts.at",
        started_at="ts.at + interval '20 ms'",
        finished_at="ts.at + interval '900 ms'",
        status=states,
    )
    for number in range(EVENTS):
        copy_for_runs(one["event"], seq=str(number + 2))
    copy_for_runs(one["call"], outcome="(array['ok','ok','ok','failed'])[1 + floor(random() * 4)::int]")
    copy_for_runs(one["model"])
    multiply(one["line"], RUNS, id=None)


def multiply(row: Any, count: int, source: str = "", **changes: str | None) -> None:
    """`count` copies of one row; `changes` are SQL over the counter n, None leaves a column to the database."""
    insert(row, f"cross join generate_series(1, {count}) n{source} where template.id = %s", changes)


def copy_for_runs(row: Any, **changes: str | None) -> None:
    """One copy for each run."""
    changes = {"run_id": "run.id", "id": UUID7.format(at="run.created_at"), **changes}
    insert(row, "cross join runs_run run where template.id = %s", changes)


def insert(row: Any, rest: str, changes: dict[str, str | None]) -> None:
    from django.db import connection

    columns = [field.column for field in row._meta.concrete_fields if changes.get(field.column, "") is not None]
    values = [changes.get(column) or f'template."{column}"' for column in columns]
    names = ", ".join(f'"{column}"' for column in columns)
    table = row._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f'insert into "{table}" ({names}) select {", ".join(values)} '
            f'from "{table}" template {rest} on conflict do nothing',
            [row.pk],
        )


if __name__ == "__main__":
    main()
