"""Deletes old history in batches, by age and kind, so that no table is locked for long."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from oauth2_provider.models import AccessToken, Application, DeviceGrant, Grant, RefreshToken
from oauth2_provider.settings import oauth2_settings

from agents import storage
from agents.models import AgentVersion, ApiKey, AuditEvent, BrowserSession, ChainVersion, IdempotentRequest, StoredFile
from connectors.models import Authorization, RemoteTask
from devices.models import DeviceCall
from devices.models import Notice as DeviceNotice
from functions.models import Execution
from knowledge.models import MemoryWrite
from plumbing import clock
from runs.models import (
    Artifact,
    EventPayload,
    ModelCall,
    Notice,
    Run,
    RunEvent,
    ScheduleOccurrence,
    Session,
    Tally,
    ToolCallRecord,
    TriggerFiring,
    WebhookDelivery,
)

BATCH = 1000
# How long a registered MCP client may wait for its first authorization.
UNUSED = timedelta(days=1)
# Longer than any limit.
TALLIES_KEPT = timedelta(days=62)
# `Trigger.replay_window_s` is at most a day.
REPLAYS_END = timedelta(days=2)


def find_prunable_rows(now: datetime) -> Iterator[tuple[str, QuerySet[Any]]]:
    """Rows older than their kind's limit. Live runs and their rows are kept."""
    ended = Run.objects.filter(status__in=Run.DONE)

    def before(kind: str) -> datetime:
        return now - timedelta(days=settings.KEEP_DAYS[kind])

    yield "events", RunEvent.objects.filter(at__lt=before("events"), run__in=ended)
    yield "payloads", EventPayload.objects.filter(event__at__lt=before("events"), event__run__in=ended)
    yield "executions", Execution.objects.filter(started_at__lt=before("executions"))
    yield "artifacts", Artifact.objects.filter(created_at__lt=before("artifacts"), run__in=ended)
    yield "runs", ended.filter(finished_at__lt=before("runs"), children=None)
    for versions in (AgentVersion, ChainVersion):
        yield "drafts", versions.everything.filter(number=None, created_at__lt=before("runs"), runs=None)
    calls = ToolCallRecord.objects.filter(pk=OuterRef("pk"))
    yield "remote_tasks", RemoteTask.objects.filter(~Exists(calls), created_at__lt=before("runs"))
    yield "sessions", Session.objects.filter(updated_at__lt=before("sessions"), runs=None, children=None)
    over = min(before("runs"), now - TALLIES_KEPT)
    yield "tallies", Tally.objects.filter(created_at__lt=over, held_tokens=0, held_cost=0)
    settled = (Notice.State.SENT, Notice.State.DROPPED, Notice.State.DEAD, Notice.State.SENDING)
    yield "notices", Notice.objects.filter(created_at__lt=before("notices"), state__in=settled)
    yield "idempotency", IdempotentRequest.objects.old()
    yield "logins", BrowserSession.objects.filter(expire_date__lt=now)
    yield "audit", AuditEvent.objects.filter(at__lt=before("audit"))
    yield from oauth(now)
    yield from deliveries(now)


def deliveries(now: datetime) -> Iterator[tuple[str, QuerySet[Any]]]:
    """What came from outside, was due, or was handed over, after it has been settled."""

    def before(kind: str) -> datetime:
        return now - timedelta(days=settings.KEEP_DAYS[kind])

    settled = WebhookDelivery.objects.exclude(state=WebhookDelivery.State.PENDING)
    yield "deliveries", settled.filter(created_at__lt=before("notices"))
    # A firing is also the memory of its nonce: none is younger than the longest window for replays.
    long_ago = min(before("runs"), now - REPLAYS_END)
    fired = TriggerFiring.objects.exclude(outcome=TriggerFiring.Outcome.PENDING)
    yield "firings", fired.filter(created_at__lt=long_ago)
    over = ScheduleOccurrence.objects.exclude(outcome__in=ScheduleOccurrence.OPEN)
    yield "occurrences", over.filter(created_at__lt=before("runs"))
    answered = DeviceCall.objects.exclude(finished_at=None)
    yield "device_calls", answered.filter(created_at__lt=before("runs"))
    yield "device_notices", DeviceNotice.objects.filter(created_at__lt=before("notices"))
    # The limit of a day counts them.
    yield "memory_writes", MemoryWrite.objects.filter(at__lt=now - TALLIES_KEPT)
    yield "sign_ins", Authorization.objects.filter(expires_at__lt=now - UNUSED)
    yield "device_grants", DeviceGrant.objects.filter(expires__lt=now - UNUSED)
    yield "admin_log", LogEntry.objects.filter(action_time__lt=before("audit"))


def oauth(now: datetime) -> Iterator[tuple[str, QuerySet[Any]]]:
    """Rows of MCP clients that no longer open anything. A refresh token is created anew at each use.

    Revoked refresh tokens are kept as long as live ones, so that the use of a stolen one is noticed.
    """
    month = now - timedelta(seconds=oauth2_settings.REFRESH_TOKEN_EXPIRE_SECONDS)
    yield "grants", Grant.objects.filter(expires__lt=now)
    yield "refresh_tokens", RefreshToken.objects.filter(created__lt=month)
    yield "access_tokens", AccessToken.objects.filter(expires__lt=now, refresh_token=None)
    registered = Application.objects.filter(registration_source__in=["dcr", "cimd"], updated__lt=now - UNUSED)
    yield "clients", registered.filter(refreshtoken=None, grant=None, accesstoken=None)
    families = RefreshToken.objects.values("token_family")
    keys = ApiKey.objects.filter(authorization__isnull=False, created_at__lt=month)
    yield "authorizations", keys.exclude(authorization__in=families)


def prune(now: datetime | None = None, *, dry_run: bool = False) -> dict[str, int]:
    """Delete what is due; {kind: rows}. Raw model requests go first, at a younger age than their
    calls.
    """
    now = now or clock.near()
    counts = {"raw": forget_raw(now, dry_run=dry_run)}
    for kind, rows in find_prunable_rows(now):
        count = rows.count() if dry_run else delete_in_batches(rows)
        # Some kinds are several tables.
        counts[kind] = counts.get(kind, 0) + count
    counts["files"] = forget_files(now, dry_run=dry_run)
    return counts


def forget_files(now: datetime, *, dry_run: bool) -> int:
    """Files that nothing refers to any more: those of runs at once, uploads when they are old. Also deletes bytes
    without a row.
    """
    kept = timedelta(days=settings.KEEP_DAYS["uploads"])
    is_old = Q(created_at__lt=now - kept)
    is_of_run = Q(source=StoredFile.Source.RUN)
    rows = StoredFile.objects.filter(is_old | is_of_run).unreferenced()
    if dry_run:
        return rows.count()
    total = 0
    while deleted := storage.delete_files(rows.order_by()[:BATCH]):
        total += deleted
    storage.sweep(now)
    return total


def forget_raw(now: datetime, *, dry_run: bool) -> int:
    """Requests and answers of models are the largest part; the figures of the call are kept."""
    kept = timedelta(days=settings.KEEP_DAYS["raw"])
    old = ModelCall.objects.filter(started_at__lt=now - kept, request__isnull=False)
    if dry_run:
        return old.count()
    return old.update(request=None)


def delete_in_batches(rows: QuerySet[Any]) -> int:
    """Delete rows of this kind, one short transaction per batch; returns how many."""
    total = 0
    while keys := list(rows.order_by().values_list("pk", flat=True)[:BATCH]):
        with transaction.atomic():
            rows.model._base_manager.filter(pk__in=keys).delete()
        total += len(keys)
    return total
