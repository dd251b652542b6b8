"""A worker of an older release beside newer code: it does what it understands, and leaves the rest to newer workers."""

import shutil
import subprocess
import sys
from datetime import timedelta
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection

from agents.models import AgentVersion
from agents.spec import FORMAT
from plumbing import clock
from plumbing.release import OTHERS, release
from runs.intake import messages as intake
from runs.models import Run, StepRun, Worker
from runs.models.figures import site
from runs.queue import fair_queue, workers
from tests.live import ROOT, plain_environment, wait_for

HOUR = timedelta(hours=1)
WORKER = """
import time, django
django.setup()
from runs.worker.process import Worker
Worker().start()
time.sleep(600)
"""


@pytest.fixture
def older(tmp_path, monkeypatch):
    """A process with the code of an older release, which reads only an older format; there is no other worker."""
    monkeypatch.setattr(
        workers, "report_worker", lambda *_, **__: None
    )  # this process may renew leases of earlier tests
    tree = tmp_path / "older"
    for package in (found.parent for found in ROOT.glob("*/__init__.py") if found.parent.name not in OTHERS):
        shutil.copytree(package, tree / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    spec = tree / "agents" / "spec.py"
    text = spec.read_text()
    spec.write_text(text.replace(f"FORMAT = {FORMAT}\n", f"FORMAT = {FORMAT - 1}\n"))
    assert spec.read_text() != text
    environment = plain_environment() | {
        "DJANGO_SETTINGS_MODULE": "config.settings", "DATABASE_URL": database_url(), "MUSTER_LEASE": "3",
        "MUSTER_DATA_DIR": str(tmp_path / "data"), "BROKER_URL": settings.BROKER_URL, "CACHE_URL": settings.CACHE_URL,
        "CHANNEL_URL": settings.CHANNEL_URL, "QUEUE_URL": settings.QUEUE_URL, "SECRET_KEY": settings.SECRET_KEY,
        "PYTHONPATH": str(tree),
    }  # fmt: skip
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER], cwd=tree, env=environment, stdout=output, stderr=output
        )
    try:
        rows = Worker.objects.filter(name__endswith=f":{process.pid}")
        found = wait_for(rows.first, 120, log.read_text)
        Worker.objects.exclude(pk=found.pk).delete()
        yield found
    finally:
        process.kill()
        process.wait()


def database_url():
    if connection.vendor == "sqlite":
        return f"sqlite:///{settings.DATABASES['default']['NAME']}"
    at = connection.get_connection_params()
    return f"postgres://{at['user']}@/{at['dbname']}?host={at['host'].replace('/', '%2F')}"


@pytest.mark.timeout(240)
@pytest.mark.django_db(transaction=True)
def test_an_older_worker_leaves_what_a_newer_release_published(alice, agent, older, worker):
    def send():
        return intake.accept_message(user=alice, text="hello", agent=agent).run

    agent.publish(author=alice)
    newer = send()
    AgentVersion.objects.update(format=FORMAT - 1)  # as the older release published it
    agent.refresh_from_db()
    known = send()
    assert (newer.needs, known.needs, older.format) == (FORMAT, FORMAT - 1, FORMAT - 1)
    wait_for(lambda: Run.objects.get(pk=known.pk).status == "succeeded", 60)
    Run.objects.filter(pk=newer.pk).update(queued_at=clock.near() - HOUR)
    newer.refresh_from_db()
    assert (newer.status, newer.attempt) == ("queued", 0)
    assert "update the workers" in workers.why_queued(newer)
    said = site.workers()
    assert not said["ok"] and "1 queued runs" in said["hint"] and f"({older.release})" in said["seen"]
    assert older.release != release()
    AgentVersion.objects.update(format=FORMAT)
    worker.ring("default")
    worker.work()  # a newer worker comes
    newer.refresh_from_db()
    assert (newer.status, newer.attempt) == ("succeeded", 1)


@pytest.fixture
def no_others(db):
    """The thread that renews leases, which earlier tests started, may have reported this process itself."""
    Worker.objects.all().delete()


@pytest.fixture
def report(no_others):
    def reported(name, code, since):
        Worker.objects.create(
            name=name, release=code, started_at=clock.near() - since, seen_at=clock.near(), format=FORMAT
        )

    return reported


@pytest.mark.django_db
def test_doctor_warns_of_an_upgrade_that_does_not_end(report):
    report("old:1", "aaa", 100 * HOUR)
    report("new:1", "bbb", HOUR / 2)
    assert site.workers() == {"ok": True, "seen": "old:1 (aaa); new:1 (bbb)"}
    report("new:2", "bbb", 2 * HOUR)
    said = site.workers()
    assert not said["ok"] and said["hint"].startswith("Restart old:1: ")
    Worker.objects.filter(name="old:1").delete()
    assert site.workers() == {"ok": True, "seen": "new:2, new:1 (bbb)"}


@pytest.mark.django_db
def test_the_release_is_reported_and_listed(alice_api, no_others):
    workers.report_worker("host:1", runs=0)
    (row,) = alice_api.get("/api/v1/workers/").json()["results"]
    assert (row["release"], row["format"]) == (release(), FORMAT) and len(release()) == 12


@pytest.mark.django_db
def test_a_step_of_a_chain_of_a_newer_release_is_left(alice, make_chain, worker):
    chain = make_chain({"key": "one", "tool": "add"})
    run = intake.start_chain(user=alice, chain=chain, input={})
    assert run.needs == FORMAT
    StepRun.objects.create(run=run, key="one", place=0, slots=1)
    Run.objects.update(place=None, needs=FORMAT + 1)
    assert fair_queue.take_step("default") is None and fair_queue.waiting_pools(["default"]) == set()
    Run.objects.update(needs=FORMAT)
    assert fair_queue.waiting_pools(["default"]) == {"default"}
    assert UUID(fair_queue.take_step("default")) == StepRun.objects.get().pk
