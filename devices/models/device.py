"""A user's paired devices: credentials, offered tools, presence."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from uuid_utils.compat import uuid7

from agents.exceptions import Conflict
from agents.models import AuditEvent
from devices.protocol import MISSED_BEATS
from plumbing import clock
from plumbing.stored_rows import StoredRow

# 32 letters that are hard to confuse: 5 bits each.
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
PAIRING_MINUTES = 10
PAIRING_TRIES = 5
# Credentials of a generation that were issued and may not have reached the device.
UNUSED_KEPT = 4


def new_id() -> Any:
    return uuid7()


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class PersonalQuerySet(models.QuerySet):
    """Rows that belong to one user; they are never shared with a team."""

    owner = "owner_id"

    def visible_to(self, user: Any) -> Self:
        if not user.is_authenticated:
            return self.none()
        return self.filter(**{self.owner: user.pk})


class DeviceQuerySet(PersonalQuerySet):
    def live(self) -> Self:
        return self.filter(revoked_at=None)

    def has(self, owner: Any, device_id: Any) -> bool:
        """Whether this is an unrevoked device of the user."""
        return self.visible_to(owner).live().filter(pk=device_id).exists()

    def online(self, now: datetime) -> Self:
        silent_since = now - silence_allowed()
        return self.live().exclude(socket="").filter(last_seen__gt=silent_since)

    def vanished(self, silent_since: Any) -> Self:
        """Marked as connected but silent since then: their server process died."""
        return self.exclude(socket="").filter(last_seen__lte=silent_since)


def silence_allowed() -> timedelta:
    return timedelta(seconds=settings.DEVICE_HEARTBEAT_S * MISSED_BEATS)


class Device(StoredRow):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="devices")
    name = models.CharField(max_length=100)
    platform = models.CharField(max_length=100, blank=True)
    client_version = models.CharField(max_length=40, blank=True)
    tools = models.JSONField(default=dict, blank=True, help_text="Catalogue tools it can run: name → hash.")
    folders = models.JSONField(default=list, blank=True, help_text="Names of the folders that it shares for reading.")
    journal_id = models.CharField(max_length=64, blank=True, editable=False)
    socket = models.CharField(
        max_length=64, blank=True, editable=False, help_text="Its open socket; empty if there is none."
    )
    last_seen = models.DateTimeField(null=True, blank=True, editable=False)
    connected_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = DeviceQuerySet.as_manager()

    class Meta:
        ordering = ["name", "created_at"]
        indexes = [models.Index(fields=["last_seen"], condition=~Q(socket=""), name="device_connected")]

    def __str__(self) -> str:
        return self.name

    def is_online(self, now: datetime | None = None) -> bool:
        if self.revoked_at or not self.socket or self.last_seen is None:
            return False
        if now is None:
            now = clock.near()
        return self.last_seen > now - silence_allowed()

    def issue_credential(self, generation: int = 1) -> tuple["DeviceCredential", str]:
        """A new credential and its secret, which is shown once and stored as a hash."""
        prefix = "dc_" + secrets.token_hex(6)
        secret = secrets.token_urlsafe(32)
        digest = hash_secret(secret)
        row = DeviceCredential.objects.create(device=self, prefix=prefix, digest=digest, generation=generation)
        return row, f"{prefix}.{secret}"

    def revoke(self, *, reason: str, actor: Any = None, source: str = "") -> None:
        """Revoke all its credentials; the caller closes the socket (`presence.tell_revoked`)."""
        now = clock.near()
        with transaction.atomic():
            Device.objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=now)
            self.credentials.filter(revoked_at=None).update(revoked_at=now)
            # they cannot be answered any more: the next tick settles them
            self.calls.filter(finished_at=None).update(deadline=now)
            AuditEvent.record("device.revoked", self, actor=actor, source=source, reason=reason)
        self.revoked_at = self.revoked_at or now

    def remove(self, *, actor: Any = None, source: str = "") -> None:
        """Delete a revoked device with its credentials and offered tools. Calls stay with the runs that made them.

        Raises Conflict if it is not revoked, or if a call to it is not settled yet.
        """
        with transaction.atomic():
            device = Device.objects.select_for_update().get(pk=self.pk)
            if not device.revoked_at:
                raise Conflict(f"The device “{self.name}” is not revoked.", hint="Revoke it first, then remove it.")
            if device.calls.filter(finished_at=None).exists():
                raise Conflict(
                    f"A call to the device “{self.name}” has not ended yet.", hint="Try again in a few seconds."
                )
            AuditEvent.record("device.removed", self, actor=actor, source=source)
            device.calls.update(device=None)
            device.delete()


class CredentialQuerySet(PersonalQuerySet):
    owner = "device__owner_id"


class DeviceCredential(StoredRow):
    """One credential of a generation. It is replaced at each connection; the old one is valid until
    a new one is used.
    """

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="credentials")
    prefix = models.CharField(max_length=20, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    generation = models.PositiveIntegerField(default=1)
    replaced_by = models.OneToOneField(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="replaces"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = CredentialQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.device}"

    @classmethod
    def admit(cls, presented: str) -> "Admission | Copied | None":
        """Admit a device by its credential, which is replaced; None for a wrong one.

        Issued successors stay valid until one of their generation is used: an answer may have been
        lost, or a handshake may be processed after its device gave up on it. If another credential
        of the same or an earlier generation is used afterwards, it was copied, and all credentials
        are revoked.
        """
        prefix, _, secret = presented.partition(".")
        with transaction.atomic():
            credentials = cls.objects.select_for_update(of=("device",)).select_related("device__owner")
            row = credentials.filter(prefix=prefix[:20]).first()
            if row is None or not hmac.compare_digest(row.digest, hash_secret(secret)):
                return None
            device = row.device
            if row.revoked_at or device.revoked_at or not device.owner.is_active:
                return None
            since = row.since()
            if all(used_at is None for _, _, used_at in since):
                return row.rotate([pk for pk, generation, _ in since if generation > row.generation])
        device.revoke(reason="an old credential was used after its successor: it has been copied")
        return Copied(device)

    def since(self) -> list[tuple[int, int, datetime | None]]:
        """(pk, generation, time of use) of the other credentials of this and later generations,
        newest first.
        """
        others = DeviceCredential.objects.filter(device=self.device_id, generation__gte=self.generation)
        return list(others.exclude(pk=self.pk).order_by("-pk").values_list("pk", "generation", "used_at"))

    def rotate(self, unused: list[int]) -> "Admission":
        """Mark this one used and issue its successor; the last few unused ones stay valid."""
        now = clock.near()
        stale = unused[UNUSED_KEPT:]
        if stale:
            DeviceCredential.objects.filter(pk__in=stale).delete()
        successor, secret = self.device.issue_credential(self.generation + 1)
        self.replaced_by = successor
        self.used_at = self.used_at or now
        self.save(update_fields=["replaced_by", "used_at"])
        # Not each time: old rows do no harm.
        if self.generation % 10 == 0:
            self.forget_ancestors(now - timedelta(days=30))
        return Admission(self.device, secret, successor.pk)

    def forget_ancestors(self, before: datetime) -> None:
        older = DeviceCredential.objects.filter(device=self.device_id, generation__lt=self.generation - 1)
        older.filter(created_at__lt=before).delete()


@dataclass(frozen=True, slots=True)
class Admission:
    """An admitted device: the credential it must use from now on. A later admission has a higher
    number.
    """

    device: Device
    credential: str
    number: int


@dataclass(frozen=True, slots=True)
class Copied:
    """A device whose credentials were all just revoked; its open socket must still be closed."""

    device: Device


class Pairing(StoredRow):
    """A one-time code. Its first four letters find the row, the other eight are the 40 secret bits."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    locator = models.CharField(max_length=4, unique=True)
    digest = models.CharField(max_length=64)
    tries = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    objects = PersonalQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"pairing {self.locator}…"

    @classmethod
    def make(cls, owner: Any) -> tuple["Pairing", str]:
        """The row and its code, such as 7KQW-MX3D-PA9T."""
        now = clock.near()
        cls.objects.filter(expires_at__lt=now - timedelta(days=1)).delete()
        locators = set(cls.objects.values_list("locator", flat=True))
        while (locator := letters(4)) in locators:
            pass
        secret = letters(8)
        row = cls.objects.create(
            owner=owner,
            locator=locator,
            digest=hash_secret(secret),
            expires_at=now + timedelta(minutes=PAIRING_MINUTES),
        )
        return row, f"{locator}-{secret[:4]}-{secret[4:]}"

    @classmethod
    def find(cls, code: str, now: datetime) -> "Pairing | None":
        """The open pairing of a code. A wrong code counts against the row with the same first
        letters; five tries end it.
        """
        plain = code.upper().replace("-", "").replace(" ", "")
        with transaction.atomic():
            row = cls.objects.select_for_update(of=("self",)).select_related("owner").filter(locator=plain[:4]).first()
            if row is None or row.used_at or row.expires_at <= now or row.tries >= PAIRING_TRIES:
                return None
            if hmac.compare_digest(row.digest, hash_secret(plain[4:])) and row.owner.is_active:
                return row
            row.tries += 1
            row.save(update_fields=["tries"])
        return None

    def use(self) -> bool:
        """False if another request was faster."""
        unused = Pairing.objects.filter(pk=self.pk, used_at=None)
        return bool(unused.update(used_at=clock.near()))


def letters(count: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(count))


class OfferedQuerySet(PersonalQuerySet):
    owner = "device__owner_id"


class OfferedTool(StoredRow):
    """A tool offered by the device. The owner's approval is pinned to this exact definition."""

    class Status(models.TextChoices):
        PENDING = "pending", "waiting for its owner"
        APPROVED = "approved"
        REJECTED = "rejected"

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="offers")
    name = models.CharField(max_length=128, help_text="The tool's name on the device.")
    description = models.TextField(blank=True)
    input_schema = models.JSONField(default=dict)
    hash = models.CharField(max_length=64)
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.PENDING)
    is_offered = models.BooleanField(default=True, help_text="Included in the device's last hello.")
    tool = models.ForeignKey("agents.Tool", on_delete=models.SET_NULL, null=True, blank=True, related_name="offers")
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    first_offered_at = models.DateTimeField(auto_now_add=True)

    objects = OfferedQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint(fields=["device", "hash"], name="offer_once_per_device")]

    def __str__(self) -> str:
        return f"{self.name} on {self.device}"
