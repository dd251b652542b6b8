"""Deletes old history in batches, by age and kind, so that no table is locked for long."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Sum, TextField
from django.db.models.functions import Cast, Greatest, Length
from oauth2_provider.models import AccessToken, Application, DeviceGrant, Grant, RefreshToken
from oauth2_provider.settings import oauth2_settings

from agents import storage
from agents.http.room import Holder, count_stored
from agents.models import AgentVersion, ApiKey, AuditEvent, BrowserSession, ChainVersion, IdempotentRequest, StoredFile
from connectors.models import Authorization, RemoteTask
from devices.models import DeviceCall
from devices.models import Notice as DeviceNotice
from functions.models import Execution
from knowledge.models import MemoryWrite
from plumbing import clock
from runs.exceptions import SessionBusy
from runs.models import (
    Artifact,
    Embed,
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
from runs.queue import emptying, endings

BATCH = 500
# Of rows that are large, or take many others with them: what SQLite deletes it overwrites.
SMALL_BATCHES = {Run: 20, Session: 20, Execution: 50, EventPayload: 20, ModelCall: 20}
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

    yield "payloads", EventPayload.objects.filter(event__at__lt=before("events"), event__run__in=ended)
    yield "events", RunEvent.objects.filter(at__lt=before("events"), run__in=ended)
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
        if dry_run:
            count = rows.count()
        elif rows.model in (RunEvent, EventPayload):
            count = delete_counted(rows)
        else:
            count = emptying.delete_in_batches(rows, SMALL_BATCHES.get(rows.model, BATCH))
        # Some kinds are several tables.
        counts[kind] = counts.get(kind, 0) + count
    counts["files"] = forget_files(now, dry_run=dry_run)
    if not dry_run:
        counts["emptied"] = empty_deleted_conversations()
        counts["visitors"] = make_room_for_visitors()
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
    total = 0
    while keys := list(old.order_by().values_list("pk", flat=True)[: SMALL_BATCHES[ModelCall]]):
        rows = ModelCall.objects.filter(pk__in=keys)
        with transaction.atomic():
            give_back(rows, "run", "request")
            rows.update(request=None)
        total += len(keys)
    return total


def delete_counted(rows: QuerySet[Any]) -> int:
    """As `delete_in_batches`, for rows whose data counts in what their run stores."""
    run_name = "event__run" if rows.model is EventPayload else "run"
    total = 0
    size = SMALL_BATCHES.get(rows.model, BATCH)
    while keys := list(rows.order_by().values_list("pk", flat=True)[:size]):
        some = rows.model._base_manager.filter(pk__in=keys)
        with transaction.atomic():
            give_back(some, run_name, "data")
            some.delete()
        total += len(keys)
    return total


def give_back(rows: QuerySet[Any], run_name: str, column: str) -> None:
    """What these rows hold no longer counts. Must be called in a transaction."""
    size = Sum(Length(Cast(column, TextField())))
    for run, freed in rows.order_by().values_list(run_name).annotate(freed=size):
        Run.objects.filter(pk=run).update(stored=Greatest(F("stored") - freed, 0))


def empty_deleted_conversations() -> int:
    """What runs of deleted conversations hold that had not ended when these were deleted."""
    runs = Run.objects.filter(status__in=Run.DONE, session=None, agent__isnull=False, stored__gt=0)
    keys = runs.exclude(trigger=Run.Trigger.MEMORY).values_list("pk", flat=True)
    return emptying.empty_runs(list(keys))


def make_room_for_visitors() -> int:
    """Where visitors fill what they may hold, their oldest conversations go: a flood must not close a chat for ever."""
    deleted = 0
    owners = Embed.objects.order_by("owner").values_list("owner", flat=True).distinct()
    for owner in owners:
        holder = Holder(owner, is_visitors=True)
        if holder.most:
            deleted += delete_oldest(holder, count_stored(holder) - holder.most * 3 // 4)
    return deleted


def delete_oldest(holder: Holder, surplus: int) -> int:
    """Conversations of visitors that hold so many bytes; those that are still used stay."""
    deleted = 0
    sessions = Session.objects.filter(owner=holder.owner_id, metadata__embed__isnull=False).order_by("id")
    rested = sessions.exclude(runs__in=Run.objects.live())
    while surplus > 0:
        oldest = rested.first()
        if oldest is None:
            break
        parts = [*oldest.runs.aggregate(Sum("size"), Sum("stored")).values()]
        parts += oldest.messages.aggregate(Sum("size")).values()
        surplus -= sum(filter(None, parts))
        try:
            endings.delete_session(oldest, by=None, reason="visitors had no room left")
        except SessionBusy:  # somebody writes in it just now
            break
        deleted += 1
    return deleted
