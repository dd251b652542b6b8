"""Triggers besides time, and the webhooks that deliver run events."""

import base64
import json
import secrets
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from agents.fields import EncryptedTextField
from agents.models import Agent, Chain
from agents.models.options import between, option
from agents.models.team import Owned, OwnedQuerySet, check_name, one_name_per_owner
from plumbing import clock
from plumbing.stored_rows import StoredRow

from .run import Run
from .schedule import build_optional_target


def new_secret() -> str:
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    return f"whsec_{key}"


class Trigger(Owned):
    """Starts a run when something happens. `hook` is the public part of a webhook's address."""

    class Kind(models.TextChoices):
        WEBHOOK = "webhook", "A signed call from outside"
        RUN_ENDED = "run_ended", "Another run has ended"
        DEVICE_ONLINE = "device_online", "A device comes online"

    name = models.CharField(max_length=64, validators=[check_name])
    # fmt: off
    description = option(models.TextField(blank=True), "", rest={"max_length": 10_000})
    kind = option(models.CharField(max_length=13, choices=Kind.choices), "")
    agent = option(build_optional_target(Agent, "triggers"), "")
    chain = option(build_optional_target(Chain, "triggers"), "")
    text = option(
        models.TextField(blank=True, help_text="The message to the agent; the event is in the input."), "", kind="long",
        rest={"max_length": 100_000},
    )
    input = option(models.JSONField(
        null=True, blank=True, help_text="Parameter → JMESPath over {event}; empty: the whole event."
    ), "", kind="json")
    options = option(models.JSONField(
        default=dict, blank=True, help_text="What its messages ask for beside the agent's definition."
    ), "", kind="json")
    hook = models.UUIDField(default=uuid7, unique=True, editable=False)
    secret = EncryptedTextField(default=new_secret, help_text="Key for checking incoming signatures; shown once.")
    replay_window_s = option(
        models.PositiveIntegerField(default=300, validators=between(1)), "", rest={"max_value": 86_400}
    )
    on_status = option(
        models.JSONField(default=list, blank=True, help_text="run_ended: these statuses; empty: all."), "",
        kind="lines", rest={"each": 16},
    )
    on_agent = option(models.ForeignKey(Agent, on_delete=models.CASCADE, null=True, blank=True, related_name="+"), "")
    on_chain = option(models.ForeignKey(Chain, on_delete=models.CASCADE, null=True, blank=True, related_name="+"), "")
    device = option(models.UUIDField(
        null=True, blank=True, help_text="device_online: this one; empty: any of the owner's."
    ), "")
    cooldown_s = option(
        models.FloatField(default=0.0, validators=between(0), help_text="Minimum seconds between two starts."), "",
        rest={"max_value": 366 * 86_400},
    )
    enabled = option(models.BooleanField(default=True), "")
    # fmt: on
    last_fired_at = models.DateTimeField(null=True, blank=True, editable=False)

    # No agent or chain uses it: it starts runs as its owner.
    USED_BY = ()
    objects = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            *one_name_per_owner("trigger"),
            models.CheckConstraint(
                condition=Q(agent=None, chain__isnull=False) | Q(agent__isnull=False, chain=None),
                name="trigger_has_one_target",
            ),
        ]
        indexes = [models.Index(fields=["owner", "kind"], condition=Q(enabled=True), name="trigger_live")]

    def __str__(self) -> str:
        return self.name

    def prepare_for_new_owner(self) -> list[str]:
        """It would start runs with the rights of somebody who has not looked at it."""
        self.enabled = False
        return ["enabled"]

    @property
    def target(self) -> Any:
        return self.agent or self.chain


class FiringQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> "FiringQuerySet":
        triggers = Trigger.objects.visible_to(user)
        return self.filter(trigger__in=triggers)


class TriggerFiring(models.Model):
    """One firing of a trigger. `key` (a nonce, a run's id) is unique: a replay finds it used."""

    class Outcome(models.TextChoices):
        PENDING = "pending"
        STARTED = "started"
        REFUSED = "refused"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    trigger = models.ForeignKey(Trigger, db_index=False, on_delete=models.CASCADE, related_name="firings")
    key = models.CharField(max_length=128)
    body_sha256 = models.CharField(max_length=64, blank=True)
    event = models.JSONField(default=dict)
    untrusted = models.BooleanField(default=False, help_text="The event was written by others.")
    outcome = models.CharField(max_length=7, choices=Outcome.choices, default=Outcome.PENDING)
    reason = models.CharField(max_length=300, blank=True)
    run = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(default=clock.near, editable=False)

    objects = FiringQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["trigger", "key"], name="firing_once")]
        # Of the firings that have not started a run yet: hardly any rows.
        indexes = [models.Index(fields=["id"], condition=Q(outcome="pending"), name="firing_pending")]

    def __str__(self) -> str:
        return f"{self.trigger} {self.outcome}"


class WebhookQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> "WebhookQuerySet":
        """Without those of A2A clients, which belong to one run each."""
        return self.filter(owner_id=user.pk, run=None)


class Webhook(StoredRow):
    """An address that receives its owner's run events; with `run` the states of one task, for an A2A client."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, blank=True, related_name="+", editable=False)
    label = models.CharField(max_length=200, blank=True, editable=False, help_text="The id that the A2A client gave.")
    credentials = EncryptedTextField(blank=True, editable=False, help_text="JSON: token, scheme, credentials.")
    url = models.URLField(max_length=1000)
    events = models.JSONField(default=list, blank=True, help_text="Event types; empty: run.finished.")
    secret = EncryptedTextField(default=new_secret, help_text="Key for signing deliveries; shown once.")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = WebhookQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            # A client that registers the same id again changes its row.
            models.UniqueConstraint(fields=["run", "label"], condition=Q(run__isnull=False), name="webhook_of_run_once")
        ]

    def __str__(self) -> str:
        return self.url

    def headers(self) -> dict[str, str]:
        """The headers that an A2A client asked for, besides the signature."""
        if not self.credentials:
            return {}
        credentials = json.loads(self.credentials)
        headers: dict[str, str] = {}
        token = credentials.get("token")
        if token:
            headers["X-A2A-Notification-Token"] = token
        scheme = credentials.get("scheme")
        if scheme:
            secret = credentials.get("credentials", "")
            headers["Authorization"] = f"{scheme} {secret}".strip()
        return headers


class DeliveryQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> "DeliveryQuerySet":
        return self.filter(webhook__owner_id=user.pk, webhook__run=None)


class WebhookDelivery(StoredRow):
    """One message to one address: retried with back-off until it is accepted or dead."""

    class State(models.TextChoices):
        PENDING = "pending"
        DELIVERED = "delivered"
        DEAD = "dead", "given up"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    webhook = models.ForeignKey(Webhook, db_index=False, on_delete=models.CASCADE, related_name="deliveries")
    run = models.UUIDField(
        null=True, editable=False, help_text="What is sent to one webhook about one run arrives in its order."
    )
    type = models.CharField(max_length=32)
    body = models.JSONField()
    state = models.CharField(max_length=9, choices=State.choices, default=State.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField()
    last_status = models.PositiveSmallIntegerField(null=True, blank=True)
    last_error = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    delivered_at = models.DateTimeField(null=True, blank=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["state", "next_attempt_at", "id"], name="delivery_due"),
            models.Index(fields=["webhook", "state", "run", "id"], name="delivery_order"),
            models.Index(fields=["webhook", "-id"], name="delivery_of_webhook"),
        ]

    def __str__(self) -> str:
        return f"{self.type} to {self.webhook} {self.state}"
