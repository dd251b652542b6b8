"""Messages of a person's mail or chat account that become documents of a collection."""

from typing import Any, Self

from django.conf import settings
from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from plumbing.stored_rows import StoredRow

from .collection import NAME, Collection


class AccountQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        """Only its owner's: others see the documents and not which account they are from."""
        return self.filter(owner_id=user.pk)


class CollectionAccount(StoredRow):
    """`owner` owns the connection; what `query` finds there is read again and again."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    collection = models.ForeignKey(Collection, on_delete=models.CASCADE, related_name="accounts")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    connection_id = models.BigIntegerField(help_text="A connected account of the owner.")
    query = models.CharField(max_length=500, help_text="As the service searches, such as “label:contracts”.")
    read_after = models.DateTimeField(default=timezone.now, editable=False)
    error = models.CharField(max_length=300, blank=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = AccountQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["read_after"], name="account_to_read")]
        constraints = [models.UniqueConstraint(fields=["collection", "connection_id", "query"], name="account_once")]

    def __str__(self) -> str:
        return self.query


class AccountItem(models.Model):
    """A message that was read, or could not be: what shows whether it has changed."""

    account = models.ForeignKey(CollectionAccount, on_delete=models.CASCADE, related_name="items")
    external_id = models.CharField(max_length=512)
    mark = models.CharField(max_length=64, blank=True, help_text="Of the message as it was read; empty: not read.")
    name = models.CharField(max_length=NAME, help_text="Of its document.")
    error = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "external_id"], name="account_item_once")]

    def __str__(self) -> str:
        return self.name
