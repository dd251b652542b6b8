"""What `doctor` says of the servers and this machine: each part is {"ok", …facts} and, if not ok, a hint."""

import resource
import shutil
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from agents.models import AuditEvent, SiteHold
from plumbing import clock
from plumbing.broker.servers import is_clustered
from runs.models import Run, StepRun, Worker

# More than this is no matter of the network any more.
SKEW_S = 2.0
# Fewer than this are soon used up.
DESCRIPTORS = 4096
FREE_MB = 100
BACKUP_AGE = timedelta(days=2)
# Workers of two releases side by side are an upgrade for so long; then the older ones were forgotten.
UPGRADED_IN = timedelta(hours=1)


def report_site() -> dict[str, dict[str, Any]]:
    """Every part; needs a database that answers."""
    return {
        "clock": skew(),
        "connections": connections(),
        "transactions": transactions(),
        "redis": redis_servers(),
        "descriptors": descriptors(),
        "disk": disk(),
        "workers": workers(),
        "pools": pools(),
        "backup": backup(),
        "hold": check_site_hold(),
    }


def skew(now: datetime | None = None) -> dict[str, Any]:
    """Seconds by which this machine's clock is ahead of the database's. Leases do not depend on it; tokens do."""
    here = now or timezone.now()
    ahead_s = (here - clock.now()).total_seconds()
    hint = "Set the clock of this machine with NTP: it differs from that of the database."
    return part(abs(ahead_s) < SKEW_S, hint, ahead_s=round(ahead_s, 3))


def connections() -> dict[str, Any]:
    """Whether PostgreSQL allows as many connections as the pools of the known programs may open together."""
    if connection.vendor != "postgresql":
        return {"ok": True, "kind": connection.vendor}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
        )
        (allowed,) = cursor.fetchone()
    options = connection.settings_dict["OPTIONS"].get("pool") or {}
    pool = options.get("max_size", 1)
    # All workers, and at least one web server.
    programs = Worker.objects.alive().count() + 1
    hint = "Raise max_connections of PostgreSQL, or lower DATABASE_POOL."
    return part(pool * programs <= allowed, hint, allowed=allowed, pool=pool, programs=programs)


def transactions() -> dict[str, Any]:
    """Whether PostgreSQL ends the session of a process that stands still in a transaction."""
    if connection.vendor != "postgresql":
        return {"ok": True, "kind": connection.vendor}
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('idle_in_transaction_session_timeout')")
        (longest,) = cursor.fetchone()
    hint = "Run ALTER DATABASE … SET idle_in_transaction_session_timeout = '60s': a stopped process holds up others."
    return part(longest != "0", hint, idle_in_transaction_session_timeout=longest)


def redis_servers() -> dict[str, Any]:
    """A server of a Redis Cluster needs an address with cluster://, which finds the one that has Muster's keys."""
    urls = {"CHANNEL_URL": settings.CHANNEL_URL, "CACHE_URL": settings.CACHE_URL}
    if settings.CARRIER == "list":
        urls = {"QUEUE_URL": settings.QUEUE_URL, **urls}
    clustered = [name for name, url in urls.items() if url and is_clustered(url)]
    hint = "Write cluster://host1:6379,host2:6379 for a Redis Cluster."
    return part(not clustered, hint, clustered=", ".join(clustered) or "none")


def descriptors() -> dict[str, Any]:
    """The limit of open files as `serve` would raise it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_enough = hard == resource.RLIM_INFINITY or hard >= DESCRIPTORS
    hint = "Set LimitNOFILE=65536 in the unit, or ulimits of the container."
    return part(is_enough, hint, limit=hard)


def disk() -> dict[str, Any]:
    """Free megabytes where the data directory and the files are."""
    free: dict[str, int] = {}
    for name, place in (("data", settings.DATA_DIR), ("files", settings.FILES_DIR)):
        if place.exists():
            free[name] = shutil.disk_usage(place).free >> 20
    least = min(free.values(), default=0)
    return part(least >= FREE_MB, "Make room on this disk.", **free)


def workers() -> dict[str, Any]:
    """Those that were seen lately, by release. Different ones side by side are an upgrade that has not ended."""
    # In the order in which each release was first started.
    releases: dict[str, list[Worker]] = {}
    for worker in Worker.objects.alive().order_by("started_at"):
        releases.setdefault(worker.release, []).append(worker)
    seen = [f"{join_worker_names(group)} ({release or 'unknown'})" for release, group in releases.items()]
    hints: list[str] = []
    outdated = find_outdated_workers(list(releases.values()))
    if outdated:
        names = join_worker_names(outdated)
        hints.append(f"Restart {names}: a newer release has run beside it for over an hour.")
    runs = left_to_newer()
    if runs:
        hints.append(f"Update the workers: {runs} queued runs are of definitions that a newer Muster published.")
    return part(not hints, " ".join(hints), seen="; ".join(seen) or "none")


def find_outdated_workers(groups: list[list[Worker]]) -> list[Worker]:
    """The workers of older releases, if the newest one has been there for so long that an upgrade should have ended."""
    if len(groups) < 2:
        return []
    *older, newest = groups
    if clock.near() - newest[0].started_at <= UPGRADED_IN:
        return []
    return [worker for group in older for worker in group]


def join_worker_names(group: list[Worker]) -> str:
    return ", ".join(worker.name for worker in group)


def left_to_newer() -> int:
    """Runs that wait for a worker that reads a newer format than all that live."""
    served = Worker.objects.alive().served()
    if not served:
        return 0
    newest_format = max(served.values())
    return Run.objects.filter(place__isnull=False, needs__gt=newest_format).order_by().count()


def pools() -> dict[str, Any]:
    """Pools in which runs or steps wait, and which no live worker serves."""
    long_ago = clock.near() - timedelta(seconds=settings.LEASE_S)
    runs = Run.objects.filter(place__isnull=False, queued_at__lt=long_ago).order_by()
    steps = StepRun.objects.filter(place__isnull=False).order_by()
    waiting: set[str] = set()
    for rows in (runs, steps):
        waiting.update(rows.values_list("pool", flat=True).distinct())
    served = Worker.objects.alive().served()
    unserved = sorted(waiting - served.keys())
    hint = "Start a worker with these pools in MUSTER_WORKER_POOLS."
    return part(not unserved, hint, unserved=", ".join(unserved) or "none")


def backup() -> dict[str, Any]:
    """The age of the latest one that `manage.py backup` made; a site may be backed up in another way."""
    event = AuditEvent.objects.filter(action="backup.made").order_by("-at").first()
    if event is None:
        return part(not holds_old_data(), "Run manage.py backup from a timer.", latest="none by manage.py backup")
    age = clock.near() - event.at
    hours = round(age.total_seconds() / 3600, 1)
    return part(age < BACKUP_AGE, "Run manage.py backup from a timer.", hours=hours)


def holds_old_data() -> bool:
    """Whether the site has run for longer than a backup may be old: a new one has nothing to lose yet."""
    first = AuditEvent.objects.order_by("at").first()
    return first is not None and clock.near() - first.at >= BACKUP_AGE


def check_site_hold() -> dict[str, Any]:
    """A restored site does nothing until it is resumed."""
    held = SiteHold.current()
    return part(held is None, "Run manage.py resume.", state=str(held) if held else "none")


def part(ok: bool, hint: str, **facts: Any) -> dict[str, Any]:
    if ok:
        return {"ok": True, **facts}
    return {"ok": False, **facts, "hint": hint}
