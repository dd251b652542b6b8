"""Deliveries and trigger firings that follow from a run's events, written in the same transaction.

The tick sends and starts them, so no event is without its delivery and no delivery without its
event.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import Exists, IntegerField, Q

from plumbing import clock
from plumbing.statements import Select
from runs.models import Run, Trigger, TriggerFiring, Webhook, WebhookDelivery
from runs.rules import task_states

from . import links

DEFAULT_EVENTS = ("run.finished",)
TOLD = frozenset(
    [
        "run.started", "run.waiting", "run.resumed", "run.cancel_requested", "run.finished",
        "approval.requested", "approval.decided", "input.requested", "input.answered",
    ]
)  # fmt: skip
NOTICES = frozenset(["schedule.paused", "agent.anomaly"])


def tells(entries: Sequence[tuple[str, dict[str, Any]]]) -> bool:
    """Whether a webhook or a trigger may want any of these events."""
    return any(type in TOLD for type, _ in entries)


def listeners(owner: Any) -> Q:
    """Whether this user has a webhook or a trigger on runs. Read each time, so that a new one
    misses nothing.
    """
    webhooks = Webhook.objects.filter(owner_id=owner, enabled=True).order_by()
    triggers = Trigger.objects.filter(owner_id=owner, enabled=True, kind=Trigger.Kind.RUN_ENDED).order_by()
    return Q(Exists(webhooks)) | Q(Exists(triggers))


HEARD = Select(
    lambda at: get_user_model().objects.filter(listeners(at.owner), pk=at.owner).values_list("pk"),
    owner=IntegerField(),
)


def put(run: Run, entries: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Deliveries and firings for these events, if the run's user has a webhook or a trigger
    (HEARD).
    """
    events = [(type, data) for type, data in entries if type in TOLD]
    queue_events(run, events)
    has_ended = any(type == "run.finished" for type, _ in events)
    # The end of a child run is a part of its root's work.
    if has_ended and run.parent_id is None:
        fire_ended(run)


def queue_events(run: Run, events: list[tuple[str, dict[str, Any]]]) -> None:
    for webhook in Webhook.objects.filter(Q(run=None) | Q(run=run), owner_id=run.principal_id, enabled=True):
        if webhook.run_id is not None:
            queue_states(webhook, run, events)
            continue
        types = webhook.events or DEFAULT_EVENTS
        bodies = [(type, build_webhook_body(run, type, data)) for type, data in events if type in types]
        create_deliveries(webhook, bodies)


def queue_states(webhook: Webhook, run: Run, events: list[tuple[str, dict[str, Any]]]) -> None:
    """The states of a task for an A2A client. After the last one the webhook is switched off."""
    bodies: list[tuple[str, dict[str, Any]]] = []
    has_ended = False
    for type, data in events:
        if type in task_states.TOLD:
            bodies.append((type, status_update(run, type, data)))
            has_ended |= type == "run.finished"
    create_deliveries(webhook, bodies)
    if has_ended:
        Webhook.objects.filter(pk=webhook.pk).update(enabled=False)


def status_update(run: Run, type: str, data: dict[str, Any]) -> dict[str, Any]:
    at = clock.near().isoformat(timespec="milliseconds").replace("+00:00", "Z")
    status = {"state": task_states.state_after(type, data), "timestamp": at}
    context = run.session.name_for_a2a if run.session else ""
    return {"statusUpdate": {"taskId": str(run.pk), "contextId": context, "status": status}}


def queue_notice(owner_id: Any, type: str, data: dict[str, Any]) -> None:
    """An event that does not belong to a run, such as schedule.paused: sent to the owner's webhooks
    without a filter.
    """
    for webhook in Webhook.objects.filter(owner_id=owner_id, enabled=True, run=None):
        if webhook.events and type not in webhook.events:
            continue
        body = {"type": type, "at": clock.near().isoformat(), "data": data}
        create_deliveries(webhook, [(type, body)])


def create_deliveries(webhook: Webhook, bodies: list[tuple[str, dict[str, Any]]]) -> None:
    now = clock.near()
    rows: list[WebhookDelivery] = []
    for type, body in bodies:
        # A notice belongs to no run.
        run = webhook.run_id or body.get("run")
        rows.append(WebhookDelivery(webhook=webhook, run=run, type=type, body=body, next_attempt_at=now))
    WebhookDelivery.objects.bulk_create(rows)


def build_webhook_body(run: Run, type: str, data: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if type == "approval.requested":
        body["link"] = links.sign_approval_link(UUID(data["id"]), run.principal_id)
    body["type"] = type
    body["at"] = clock.near().isoformat()
    body["run"] = str(run.pk)
    body["agent"] = run.agent.name if run.agent_id else None
    body["chain"] = run.chain_version.chain.name if run.chain_version_id else None
    body["trigger"] = run.trigger
    body["url"] = f"{settings.PUBLIC_URL}/api/v1/runs/{run.pk}"
    body["data"] = data
    return body


def fire_ended(run: Run) -> None:
    """Triggers of the run's user on the end of such a run; the run's id is the key, so each fires
    once.
    """
    chain_id = run.chain_version.chain_id if run.chain_version_id else None
    is_of_agent = Q(on_agent=None) | Q(on_agent_id=run.agent_id)
    is_of_chain = Q(on_chain=None) | Q(on_chain_id=chain_id)
    triggers = Trigger.objects.filter(owner_id=run.principal_id, enabled=True, kind=Trigger.Kind.RUN_ENDED)
    # An outside program may have written what the run gives.
    is_untrusted = run.has_untrusted or run.trigger == Run.Trigger.EXTERNAL
    firings: list[TriggerFiring] = []
    for trigger in triggers.filter(is_of_agent, is_of_chain):
        if trigger.on_status and run.status not in trigger.on_status:
            continue
        firing = TriggerFiring(trigger=trigger, key=str(run.pk), event=ended_event(run), untrusted=is_untrusted)
        firings.append(firing)
    TriggerFiring.objects.bulk_create(firings, ignore_conflicts=True)


def ended_event(run: Run) -> dict[str, Any]:
    return {
        "run": str(run.pk),
        "status": run.status,
        "agent": run.agent.name if run.agent_id else None,
        "chain": run.chain_version.chain.name if run.chain_version_id else None,
        "output": run.output,
        "error": run.error,
        "line": run.metadata.get("line", []),
    }
