"""Collections of documents that agents search.

A row of `Document` is one revision of a document and never changes its text. It is part of the collection's versions
from `from_version` until before `until_version`; so a version needs no copy, and an agent can keep to one.
"""

from typing import Any, Self

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from uuid_utils.compat import uuid7

from agents.models import StoredFile, Tool
from agents.models.team import Owned, OwnedQuerySet, check_name, one_name_per_owner
from knowledge.full_text import WordsField, WordsIndex
from plumbing.stored_rows import StoredRow

# Characters.
NAME, URL, MODEL = 200, 2000, 165


class Collection(Owned):
    """`version` counts the changes of its searchable content; 0 has none."""

    name = models.CharField(max_length=56, validators=[check_name])
    description = models.CharField(max_length=500, blank=True, help_text="Tells a model what can be found here.")
    version = models.PositiveIntegerField(default=0, editable=False)
    embeddings = models.CharField(
        max_length=MODEL, blank=True, help_text="provider:model of the vectors; empty: only words are compared."
    )
    # Counts the models and dimensions it had.
    vectors_number = models.PositiveIntegerField(default=0, editable=False)
    dimensions = models.PositiveIntegerField(null=True, editable=False)
    # Null: no vector is missing.
    embed_after = models.DateTimeField(null=True, editable=False)
    embeddings_error = models.CharField(max_length=300, blank=True, editable=False)

    objects = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = one_name_per_owner("collection")
        indexes = [
            models.Index(fields=["embed_after"], condition=Q(embed_after__isnull=False), name="collection_to_embed")
        ]

    def __str__(self) -> str:
        return self.name

    def listed_as(self) -> dict[str, Any]:
        return {"kind": Tool.Kind.KNOWLEDGE, "source__collection": self.pk}


class DocumentQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        collections = Collection.objects.visible_to(user)
        return self.filter(collection__in=collections.values("pk"))

    def editable_by(self, user: Any) -> Self:
        collections = Collection.objects.editable_by(user)
        return self.filter(collection__in=collections.values("pk"))

    def current(self) -> Self:
        """What is searched, and what waits for it or failed."""
        return self.filter(until_version=None)

    def of_version(self, number: int) -> Self:
        """What version `number` of the collection contains."""
        has_not_ended = Q(until_version=None) | Q(until_version__gt=number)
        return self.filter(has_not_ended, from_version__lte=number)


class Document(StoredRow):
    """One revision of a document of a collection. Of the current rows with one name at most one is ready."""

    class Source(models.TextChoices):
        UPLOAD = "upload", "sent with the request"
        FILE = "file", "a file of its owner"
        TEXT = "text"
        URL = "url"
        DEVICE = "device"
        CONNECTOR = "connector"

    class Status(models.TextChoices):
        WAITING = "waiting"
        INDEXING = "indexing"
        READY = "ready"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    collection = models.ForeignKey(Collection, on_delete=models.CASCADE, related_name="documents")
    name = models.CharField(max_length=NAME)
    source = models.CharField(max_length=9, choices=Source.choices)
    url = models.CharField(max_length=URL, blank=True)
    file = models.ForeignKey(StoredFile, on_delete=models.SET_NULL, null=True, blank=True, related_name="documents")
    media_type = models.CharField(max_length=100, blank=True)
    checksum = models.CharField(max_length=64, blank=True, help_text="SHA-256 of the content.")
    untrusted = models.BooleanField(default=True, help_text="It may contain text written by others.")
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.WAITING)
    error_code = models.CharField(max_length=64, blank=True)
    error = models.CharField(max_length=500, blank=True)
    left_out = models.JSONField(default=list, blank=True, help_text="What is not in its text: places and reasons.")
    chunk_count = models.PositiveIntegerField(default=0)
    from_version = models.PositiveIntegerField(null=True, editable=False, validators=[MinValueValidator(1)])
    until_version = models.PositiveIntegerField(null=True, editable=False)
    # The number of its vectors, as in its collection.
    vectors_number = models.PositiveIntegerField(null=True, editable=False)
    # the worker that is at it
    lease = models.UUIDField(null=True, editable=False)
    lease_expires_at = models.DateTimeField(null=True, editable=False)
    attempts = models.PositiveSmallIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    indexed_at = models.DateTimeField(null=True, editable=False)

    objects = DocumentQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["collection", "-id"], name="document_of_collection"),
            models.Index(fields=["id"], condition=Q(status__in=["waiting", "indexing"]), name="document_to_index"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["collection", "name"], condition=Q(status="ready", until_version=None), name="document_once"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def losses(self) -> list[dict[str, Any]]:
        return [one for one in self.left_out if one["is_lost"]]

    @property
    def notes(self) -> list[dict[str, Any]]:
        """On texts that are there, such as a guessed encoding."""
        return [one for one in self.left_out if not one["is_lost"]]


class Chunk(models.Model):
    """A piece of a document's text, with its place."""

    document = models.ForeignKey(Document, on_delete=models.CASCADE, related_name="chunks")
    position = models.PositiveIntegerField(help_text="From 0.")
    page = models.PositiveIntegerField(null=True, help_text="From 1; null where a document has no pages.")
    heading = models.CharField(max_length=200, blank=True)
    text = models.TextField()
    words = WordsField(editable=False)

    class Meta:
        ordering = ["document", "position"]
        constraints = [models.UniqueConstraint(fields=["document", "position"], name="chunk_position")]
        indexes = [WordsIndex(fields=["words"], name="chunk_words")]

    def __str__(self) -> str:
        return f"{self.document_id}/{self.position}"

    @property
    def place(self) -> str:
        """For a person: the page, the heading, or the number of the piece."""
        words = []
        if self.page:
            words.append(f"page {self.page}")
        if self.heading:
            words.append(self.heading)
        if not words:
            return f"part {self.position + 1}"
        return ", ".join(words)


class ChunkVector(models.Model):
    """What an embedding model makes of a chunk: 4-byte floats of length one, the lowest byte first."""

    chunk = models.OneToOneField(Chunk, on_delete=models.CASCADE, primary_key=True, related_name="vector")
    number = models.PositiveIntegerField(help_text="The collection's `vectors_number` when it was made.")
    vector = models.BinaryField()

    def __str__(self) -> str:
        return str(self.chunk_id)
