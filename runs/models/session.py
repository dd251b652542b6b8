"""Session: one conversation. Message: one entry in it, one row each."""

from collections.abc import Iterable
from typing import Any, Self
from uuid import UUID

from django.conf import settings
from django.db import connection, models, transaction
from django.utils.translation import gettext_noop as _
from uuid_utils.compat import uuid7

from agents.exceptions import Invalid, TooLarge
from agents.http.room import SizeField, check_room
from agents.models import Agent, StoredFile
from plumbing.statements import Bound, insert_rows, take_numbers
from plumbing.stored_rows import StoredRow

# Where the metadata keeps the name that an A2A client chose.
A2A_CONTEXT = "a2a_context"
# Messages that one request adds.
MOST_AT_ONCE = 2000
# Bytes of messages that are copied in one transaction.
MOST_COPIED = 64 << 20
# The folder of conversations that schedules and triggers start.
SCHEDULED = "scheduled"
# Where the metadata of a message says that the model does not see it.
NOT_SHOWN = "not_shown"
# Where the metadata of a reply keeps why it ended too early: length, content_filter.
FINISH = "finish"
# Begins the name of a conversation that its caller sends whole in each request.
SENT = "sent:"
# Where the metadata of a copied message keeps the run that it belonged to.
MADE_IN = "made_in"


class SessionQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(owner_id=user.pk)

    def named(self, kind: str, name: str) -> Self:
        """Those that their caller named so: `kind` is the key in metadata."""
        is_of_kind = {f"metadata__{kind}": name}
        # The column is in an index, and holds the beginning of a long name.
        return self.filter(thread=name[:200], **is_of_kind)

    def family(self, trunk: UUID) -> Self:
        """The branches of one conversation: the first session, and all that were forked from it or from one another."""
        is_first = models.Q(pk=trunk)
        is_fork = models.Q(trunk=trunk)
        return self.filter(is_first | is_fork)

    def active(self) -> Self:
        return self.filter(status=Session.Status.ACTIVE)


class Session(StoredRow):
    class Status(models.TextChoices):
        ACTIVE = "active"
        CLOSED = "closed"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, db_index=False, on_delete=models.CASCADE, related_name="+")
    agent = models.ForeignKey(Agent, on_delete=models.SET_NULL, null=True, blank=True, related_name="sessions")
    title = models.CharField(max_length=200, blank=True)
    device = models.UUIDField(
        null=True, blank=True, help_text="The device that tool calls go to; empty: any of the owner's."
    )
    parent = models.ForeignKey(
        "self", db_index=False, on_delete=models.SET_NULL, null=True, blank=True, related_name="children"
    )
    depth = models.PositiveSmallIntegerField(default=0)
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.ACTIVE)
    variables = models.JSONField(default=dict, blank=True)
    summary = models.TextField(blank=True)
    summarised_to = models.PositiveIntegerField(default=0, help_text="Messages up to this number are in the summary.")
    remembered_to = models.PositiveIntegerField(
        default=0, editable=False, help_text="Messages up to this number were given to a run that notes facts."
    )
    remembering = models.UUIDField(
        null=True, editable=False, help_text="The run that notes its facts; empty once they are stored."
    )
    has_untrusted = models.BooleanField(default=False, help_text="Untrusted content was read in it.")
    last_seq = models.PositiveIntegerField(default=0)
    metadata = models.JSONField(default=dict, blank=True)
    thread = models.CharField(  # noqa: DJ001  (only rows with a name are in its index)
        max_length=200, null=True, editable=False, help_text="The caller's own name for it, as in metadata."
    )
    forked_from = models.UUIDField(null=True, editable=False, help_text="The session whose first messages it has.")
    forked_before = models.PositiveIntegerField(
        null=True, editable=False, help_text="The first message that is its own, if it was forked."
    )
    pinned = models.BooleanField(default=False, help_text="Shown first in the list of conversations.")
    folder = models.CharField(max_length=64, blank=True, help_text="Where it is in the list of conversations.")
    trunk = models.UUIDField(null=True, editable=False, help_text="The first session of all its forks.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = SessionQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["owner", "-id"]),
            # What few conversations have: the conditions keep the others out of these indexes.
            models.Index(fields=["parent"], condition=models.Q(parent__isnull=False), name="session_child"),
            models.Index(fields=["owner", "thread"], condition=models.Q(thread__isnull=False), name="session_thread"),
            models.Index(fields=["owner"], condition=models.Q(pinned=True), name="session_pinned"),
            models.Index(fields=["owner", "-id"], condition=~models.Q(folder=""), name="session_in_folder"),
            models.Index(fields=["trunk"], condition=models.Q(trunk__isnull=False), name="session_trunk"),
            models.Index(
                fields=["remembering"], condition=models.Q(remembering__isnull=False), name="session_remembering"
            ),
        ]
        constraints = [
            models.CheckConstraint(condition=models.Q(status__in=["active", "closed"]), name="session_status_known")
        ]

    def __str__(self) -> str:
        return self.title or f"session {self.id}"

    @property
    def is_sent_whole(self) -> bool:
        """Whether its caller keeps the conversation: what a request has of it is all that the model knows."""
        return self.thread is not None and self.thread.startswith(SENT)

    @property
    def name_for_a2a(self) -> str:
        """The id of this context: an A2A client may have chosen another one."""
        return self.metadata.get(A2A_CONTEXT) or str(self.pk)

    def add_message(self, role: str, content: list[dict[str, Any]], **fields: Any) -> "Message":
        """Append one entry. Taking the number locks the session's row until the transaction ends.

        A session that is not stored yet is stored with its first entry: nothing else can number
        one.
        """
        message = Message(role=role, content=content, **fields)
        self.add_messages([message])
        return message

    def add_messages(self, messages: list["Message"]) -> None:
        """Append entries that have no number yet. Raises Invalid for more than one request may bring."""
        count = len(messages)
        if count > MOST_AT_ONCE:
            message = f"There can be at most {MOST_AT_ONCE} messages at once; these are {count}."
            raise Invalid(message, code="too_many_messages")
        if not messages:
            return
        if self._state.adding:
            self.last_seq = count
            insert_rows(self)
        else:
            self.take_numbers(count)
        first_seq = self.last_seq - count + 1
        for seq, row in enumerate(messages, first_seq):
            row.session = self
            row.seq = seq
        insert_rows(*messages)
        attach(messages)

    def take_numbers(self, count: int) -> None:
        # The counter of a conversation could once be set back. It goes on from the last message that is there.
        key = Message._meta.get_field("session").get_db_prep_value(self.pk, connection)
        stored = f"(SELECT MAX(seq) FROM {Message._meta.db_table} WHERE session_id = %s)"  # noqa: S608  (a constant)
        numbers = take_numbers(Session, self.pk, "last_seq", count, floor=Bound(stored, (key,)))
        if numbers is None:
            raise Session.DoesNotExist(self.pk)
        [self.last_seq] = numbers

    def fork(self, *, before: int) -> "Session":
        """A new session that starts with the messages before that one. The copies belong to no run. Raises Conflict,
        TooLarge.
        """
        rows = self.messages.filter(seq__lt=before).order_by("seq")
        size = rows.aggregate(models.Sum("size"))["size__sum"] or 0
        if size > MOST_COPIED:
            raise TooLarge(_("This conversation is too large to be copied."), hint=_("Begin a new one."))
        # Before the transaction: reading them may take long.
        copied = list(rows)
        check_room(self.owner_id, *(message.content for message in copied))
        fork = Session(
            owner_id=self.owner_id,
            agent_id=self.agent_id,
            title=self.title,
            device=self.device,
            folder=self.folder,
            variables=self.variables,
            has_untrusted=self.has_untrusted,
            last_seq=before - 1,
            metadata={"forked_from": str(self.pk)},
            forked_from=self.pk,
            forked_before=before,
            trunk=self.trunk or self.pk,
        )
        # A summary that goes further would tell what the fork does not contain.
        if self.summarised_to < before:
            fork.summary = self.summary
            fork.summarised_to = self.summarised_to
        # The copied messages are those of the first session, which remembers them.
        fork.remembered_to = before - 1
        for message in copied:
            if message.run_id:
                message.metadata = {**message.metadata, MADE_IN: str(message.run_id)}
            message.pk = uuid7()
            message.session = fork
            message.run_id = None
        with transaction.atomic():
            fork.save(force_insert=True)
            Message.objects.bulk_create(copied)
            attach(copied)
        return fork


class Message(models.Model):
    class Role(models.TextChoices):
        USER = "user"
        ASSISTANT = "assistant"
        TOOL = "tool"
        SYSTEM = "system"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    session = models.ForeignKey(Session, db_index=False, on_delete=models.CASCADE, related_name="messages")
    seq = models.PositiveIntegerField()
    run = models.ForeignKey("Run", on_delete=models.SET_NULL, null=True, related_name="messages")
    role = models.CharField(max_length=9, choices=Role.choices)
    # Before what it counts: SQLite reads all columns that stand before the one it looks for.
    size = SizeField(of=("content", "tool_calls", "metadata"), default=0, editable=False)
    content = models.JSONField(
        default=list, help_text='Parts: {"type": "text", "text"}, {"type": "image", …}, {"type": "file", …}.'
    )
    tool_calls = models.JSONField(default=list, blank=True)
    tool_call_id = models.CharField(max_length=64, blank=True)
    untrusted = models.BooleanField(default=False, help_text="Written by others, or after untrusted content was read.")
    metadata = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["seq"]
        constraints = [models.UniqueConstraint(fields=["session", "seq"], name="message_seq_once")]

    def __str__(self) -> str:
        start = self.text[:60]
        return f"{self.role}: {start}"

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return join_part_texts(self.content)

    @property
    def made_in(self) -> UUID | None:
        """The run that it belongs to, or belonged to before it was copied into a fork."""
        if self.run_id:
            return self.run_id
        return parsed_id(self.metadata.get(MADE_IN))

    @property
    def words(self) -> str:
        """The same, with a placeholder for each image and file."""
        return render_parts(self.content)


def render_parts(parts: list[dict[str, Any]]) -> str:
    """The texts of a message, and “[image]” or “[file]” for each other part."""
    lines: list[str] = []
    for part in parts:
        kind = part.get("type")
        line = part.get("text", "") if kind == "text" else f"[{kind}]"
        lines.append(line)
    return "\n".join(lines)


def join_part_texts(parts: list[dict[str, Any]]) -> str:
    texts = [part.get("text", "") for part in parts if part.get("type") == "text"]
    return "\n".join(texts)


class Attachment(models.Model):
    """A file that a message contains. The message's content names it; this row keeps it from being pruned."""

    message = models.ForeignKey(Message, db_index=False, on_delete=models.CASCADE, related_name="attachments")
    file = models.ForeignKey(StoredFile, on_delete=models.CASCADE, related_name="attachments")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["message", "file"], name="attachment_once")]

    def __str__(self) -> str:
        return str(self.file)


def attach(messages: Iterable[Message]) -> None:
    """Note which files these messages contain. Costs nothing for messages without files."""
    attachments: list[Attachment] = []
    for message in messages:
        for file_id in set(list_file_ids(message.content)):
            attachments.append(Attachment(message=message, file_id=file_id))
    if not attachments:
        return
    # A message may name a file that has been deleted since.
    named = [attachment.file_id for attachment in attachments]
    stored = set(StoredFile.objects.filter(pk__in=named).values_list("pk", flat=True))
    Attachment.objects.bulk_create([attachment for attachment in attachments if attachment.file_id in stored])


def list_file_ids(parts: list[dict[str, Any]]) -> list[UUID]:
    """The ids of the files in a message's content."""
    ids: list[UUID] = []
    for part in parts:
        if part.get("type") != "file":
            continue
        file_id = parsed_id(part.get("file"))
        if file_id:
            ids.append(file_id)
    return ids


def parsed_id(value: Any) -> UUID | None:
    """The id in “<id>” or “file:<id>”; None if it is not one."""
    try:
        return UUID(str(value).removeprefix("file:"))
    except ValueError:
        return None
