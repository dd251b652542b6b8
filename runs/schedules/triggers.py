"""Triggers besides time: a signed call from outside, the end of another run, a device that comes
online.

The event is recorded as a firing, unique by its key; only then is a run started. The tick starts a
firing whose start was lost.
"""

import hashlib
import logging
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q
from rest_framework.exceptions import ParseError

from agents.exceptions import IdempotencyMismatch, MusterError, NewerFormat, NotFound
from agents.http import parsers
from agents.http.room import check_room
from agents.mapping import MappingError, map_input
from agents.models import SiteHold
from plumbing import clock
from plumbing.statements import Select
from runs.intake import checks
from runs.intake import messages as intake
from runs.models import Run, Trigger, TriggerFiring
from runs.rules import signing

from .pending import release_waiting_occurrences

log = logging.getLogger(__name__)
Outcome = TriggerFiring.Outcome
BATCH = 200
# Runs that may trigger each other in a row.
MAX_LINE = 3


class BadHook(MusterError):
    """The signature of this call is not valid."""

    status = 401
    code = "bad_signature"


def receive(hook: UUID, headers: Mapping[str, str], body: bytes) -> TriggerFiring:
    """A call from outside; repeating it returns the same firing. Raises NotFound, BadHook,
    ParseError, Conflict (quota_exceeded).
    """
    trigger = Trigger.objects.filter(hook=hook, kind=Trigger.Kind.WEBHOOK, enabled=True).first()
    if trigger is None:
        raise NotFound("There is no such hook.")
    try:
        key = signing.verify(trigger.secret, headers, body, now=time.time(), window_s=trigger.replay_window_s)
    except signing.BadSignature as error:
        raise BadHook(str(error), code=error.code, hint="docs/howto/schedules.md describes how to sign.")
    event = parse_trigger_event(body)
    check_room(trigger.owner_id, event)
    sha256 = hashlib.sha256(body).hexdigest()
    firing, is_new = write_firing(trigger, key, event, sha256, untrusted=True)
    if not is_new and firing.body_sha256 != sha256:
        raise IdempotencyMismatch(
            "This webhook-id was used with another body before.", hint="Use a new id for a new message."
        )
    if not is_new:
        return firing
    return start_firing(firing)


def parse_trigger_event(body: bytes) -> dict[str, Any]:
    try:
        event = parsers.parse_json_body(body or b"{}")
    except ValueError as error:
        raise ParseError(f"The body is not JSON: {error}")
    if isinstance(event, dict):
        return event
    return {"value": event}


def write_firing(
    trigger: Trigger, key: str, event: dict[str, Any], sha256: str = "", *, untrusted: bool = False
) -> tuple[TriggerFiring, bool]:
    """The firing with this key, and whether it is new."""
    try:
        with transaction.atomic():
            firing = TriggerFiring.objects.create(
                trigger=trigger, key=key, event=event, body_sha256=sha256, untrusted=untrusted
            )
    except IntegrityError:
        earlier = TriggerFiring.objects.select_related("trigger").get(trigger=trigger, key=key)
        return earlier, False
    return firing, True


def device_came(device_id: Any, owner_id: Any, now: datetime | None = None) -> int:
    """A device of this user is online: start its triggers, then the schedules that waited for it."""
    now = now or clock.near()
    live = Trigger.objects.filter(kind=Trigger.Kind.DEVICE_ONLINE, enabled=True, owner_id=owner_id)
    for trigger in live.filter(Q(device=device_id) | Q(device=None)):
        event = {"device": str(device_id), "at": now.isoformat()}
        write_firing(trigger, f"{device_id}:{now.isoformat()}", event)
    return release_waiting_occurrences(owner_id)


def tick_triggers(now: datetime | None = None) -> int:
    """Start the firings that were not started yet."""
    firings = PENDING.all()
    for firing in firings:
        start_firing(firing)
    return len(firings)


PENDING = Select(
    lambda at: (
        TriggerFiring.objects.filter(SiteHold.absent(), outcome=Outcome.PENDING)
        .select_related("trigger__owner")
        .order_by("id")[:BATCH]
    )
)


def start_firing(firing: TriggerFiring) -> TriggerFiring:
    """Start the run of a firing, or record why not."""
    trigger = firing.trigger
    now = clock.near()
    refusal = find_firing_refusal(trigger, firing, now)
    if refusal:
        return refuse_firing(firing, refusal)
    pending = TriggerFiring.objects.filter(pk=firing.pk, outcome=Outcome.PENDING)
    try:
        with transaction.atomic():
            if not pending.update(outcome=Outcome.STARTED):
                # Another process was first.
                firing.refresh_from_db()
                return firing
            firing.run = start_target(trigger, firing)
            TriggerFiring.objects.filter(pk=firing.pk).update(run=firing.run)
            Trigger.objects.filter(pk=trigger.pk).update(last_fired_at=now)
            firing.outcome = Outcome.STARTED
    except NewerFormat as error:
        log.warning("Firing %s is left to a newer worker: %s", firing.pk, error)
    except (MusterError, MappingError) as error:
        return refuse_firing(firing, f"{error.code}: {error}")
    return firing


def find_firing_refusal(trigger: Trigger, firing: TriggerFiring, now: datetime) -> str:
    """Why this firing starts nothing; empty if it does."""
    if trigger.owner is None or not trigger.owner.is_active:
        return "it has no active owner to run for"
    if not trigger.enabled:
        return "the trigger is switched off"
    cooldown = timedelta(seconds=trigger.cooldown_s)
    if trigger.last_fired_at and now - trigger.last_fired_at < cooldown:
        return f"it fired less than {trigger.cooldown_s:g} seconds ago"
    if len(firing.event.get("line", [])) > MAX_LINE:
        return f"runs triggered each other more than {MAX_LINE} times in a row"
    return ""


def start_target(trigger: Trigger, firing: TriggerFiring) -> Run:
    event = firing.event
    input = map_input(trigger.input, {"event": event}) if trigger.input else event
    # The triggers that led to this run, so that a circle of them ends.
    line = [*event.get("line", []), trigger.name]
    metadata = {"trigger": trigger.name, "firing": str(firing.pk), "line": line}
    key = f"firing:{firing.pk}"
    origin = f"the event of trigger “{trigger.name}”" if firing.untrusted else ""
    if trigger.chain is not None:
        chain = checks.check_usable(trigger.chain, trigger.owner)
        return intake.start_chain(
            user=trigger.owner, chain=chain, input=input, trigger=Run.Trigger.EVENT, idempotency_key=key,
            metadata=metadata, untrusted_input=origin, priority=trigger.options.get("priority"),
        )  # fmt: skip
    accepted = intake.accept_message(
        user=trigger.owner,
        agent=checks.check_usable(trigger.agent, trigger.owner),
        text=trigger.text or f"Triggered: {trigger.name}",
        input=input,
        trigger=Run.Trigger.EVENT,
        idempotency_key=key,
        metadata=metadata,
        untrusted_input=origin,
        asked=trigger.options,
    )
    return accepted.run


def refuse_firing(firing: TriggerFiring, reason: str) -> TriggerFiring:
    pending = TriggerFiring.objects.filter(pk=firing.pk, outcome=Outcome.PENDING)
    pending.update(outcome=Outcome.REFUSED, reason=reason[:300])
    firing.refresh_from_db()
    return firing
