"""The worker processes, and what each has loaded. A worker that is silent for an hour is removed."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from agents.models import Agent
from agents.spec import FORMAT
from plumbing import clock
from plumbing.release import release
from registry import factory
from runs.models import Run, Worker
from runs.models.route import SILENT

FORGOTTEN = timedelta(hours=1)
MOST = 500  # hashes that a row lists: the most recently used

_reported: tuple[str, list[str]] | None = None
STARTED = clock.near()


def report_worker(name: str, *, runs: int, now: datetime | None = None) -> None:
    """This process is alive and holds these agents. The list is only written when it changed."""
    global _reported
    now = now or clock.near()
    loaded = factory.loaded_hashes()[-MOST:]
    fields: dict[str, object] = {
        "seen_at": now,
        "runs": runs,
        "pools": list(settings.WORKER_POOLS),
        "format": FORMAT,
        "release": release(),
    }
    if _reported != (name, loaded):
        fields["loaded"] = loaded
    is_known = Worker.objects.filter(name=name).update(**fields)
    if not is_known:
        Worker.objects.update_or_create(name=name, defaults={**fields, "loaded": loaded, "started_at": STARTED})
        Worker.objects.filter(seen_at__lt=now - FORGOTTEN).delete()
    _reported = (name, loaded)


def known_hashes(user: Any) -> dict[str, dict[str, Any]]:
    """Loaded agents that this user may see: {hash: {"agent", "version", "hash"}}, as currently
    published.
    """
    visible = Agent.objects.all() if user.is_superuser else Agent.objects.visible_to(user)
    published = visible.exclude(live_hash="")
    agents_by_hash = {}
    for live_hash, name, number in published.values_list("live_hash", "name", "published__number"):
        agents_by_hash[live_hash] = {"agent": name, "version": number, "hash": live_hash}
    return agents_by_hash


def is_alive(worker: Worker, now: datetime | None = None) -> bool:
    silence = (now or clock.near()) - worker.seen_at
    return silence < SILENT


def stands_long(run: Run, now: datetime | None = None) -> bool:
    """It is in the queue for longer than a worker that just started needs to say that it is there."""
    if run.status != Run.Status.QUEUED or run.place is None:
        return False
    waited = (now or clock.near()) - run.queued_at
    return waited.total_seconds() > settings.LEASE_S


def why_queued(run: Run, served: dict[str, int] | None = None) -> str:
    """Why no worker takes this run, in a sentence; empty if one will. `served`: of live workers, if
    it was read before.
    """
    if not stands_long(run):
        return ""
    if served is None:
        served = Worker.objects.alive().served()
    if run.pool not in served:
        return f"No live worker serves the pool “{run.pool}” (MUSTER_WORKER_POOLS)."
    if served[run.pool] < run.needs:
        return f"A newer Muster published its definition (format {run.needs}): update the workers of “{run.pool}”."
    return ""


def list_worker_runs(worker: Worker, user: Any) -> list[Run]:
    """The runs it holds that this user may see, oldest first."""
    visible = Run.objects.all() if user.is_superuser else Run.objects.visible_to(user)
    held = visible.filter(lease_owner=worker.name, status=Run.Status.RUNNING)
    return list(held.select_related("agent").order_by("pk"))
