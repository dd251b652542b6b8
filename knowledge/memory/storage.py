"""Writes memories with their versions, for an agent's call or for a person.

What an agent writes holds at once or waits for its owner; after the run read text of strangers it always waits, and
keeps its mark for ever. A change to a memory that waits is a row of its own that `replaces` the memory.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

from agents.exceptions import Conflict, Invalid, NotFound, PreconditionFailed
from knowledge.models import Memory, MemoryVersion, MemoryWrite
from knowledge.models.memory import SUBJECT, TEXT
from knowledge.words import list_search_stems
from plumbing import clock
from plumbing.untrusted.formats import clean_untrusted_text

JSON = Any
# Changes that one message may lead to, with all runs that it starts.
MEMORIES_PER_RUN = 20
# Changes by agents of one person's memories; runs with text of strangers may use half.
MEMORIES_PER_DAY = 200
# Of one person that wait for a decision; runs with text of strangers may fill half.
MEMORY_SUGGESTIONS = 100
Action, Scope, Status = MemoryVersion.Action, Memory.Scope, Memory.Status


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes: a person, or an agent in a tool call. `is_untrusted`: its run has read text of strangers."""

    name: str
    run_id: Any = None
    root_id: Any = None
    call_id: Any = None
    is_untrusted: bool = False
    # An agent's run notes facts of a conversation, without a call.
    is_summary: bool = False

    @property
    def is_agent(self) -> bool:
        return self.call_id is not None or self.is_summary


@dataclass(frozen=True, slots=True)
class Place:
    """Where a memory belongs."""

    owner_id: int
    scope: str = Scope.PERSON
    agent_id: int | None = None
    team_id: int | None = None

    @classmethod
    def of(cls, row: Memory) -> "Place":
        return cls(row.owner_id, row.scope, row.agent_id, row.team_id)

    def columns(self) -> dict[str, Any]:
        return {"owner_id": self.owner_id, "scope": self.scope, "agent_id": self.agent_id, "team_id": self.team_id}


@transaction.atomic
def store_new_memory(
    place: Place, content: dict[str, JSON], by: Author, *, at_once: bool = True
) -> tuple[Memory, bool]:
    """A new memory, or the one that says the same; whether it is new. Raises Invalid, Conflict."""
    content = check_memory_content(content)
    lock_memory_owner(place.owner_id)
    if row := find_earlier_write(by) or find_same_memory(place, content["text"]):
        return row, False
    check_memory_room(place, by, at_once=at_once)
    status = Status.ACTIVE if at_once else Status.SUGGESTED
    row = Memory(**place.columns(), **content, status=status)
    return create_memory_row(row, by), True


@transaction.atomic
def store_changed_memory(row: Memory, content: dict[str, JSON], by: Author, *, expected: int | None = None) -> Memory:
    """The next version with these fields changed. Raises Invalid, PreconditionFailed."""
    row = lock_memory(row, expected)
    return store_next_version(row, content, by, Action.CHANGED)


@transaction.atomic
def store_suggestion(target: Memory, content: dict[str, JSON], by: Author) -> Memory:
    """A suggestion to change this memory; it stays as it is until the owner decides. Raises Invalid, Conflict."""
    place = Place.of(target)
    lock_memory_owner(place.owner_id)
    if row := find_earlier_write(by):
        return row
    check_rate(place.owner_id, by)
    check_suggestions(place.owner_id, by)
    values = check_memory_content({**target.content(), **content})
    row = Memory(**place.columns(), **values, status=Status.SUGGESTED, replaces=target)
    row.untrusted = target.untrusted
    return create_memory_row(row, by)


@transaction.atomic
def store_agent_change(target: Memory, content: dict[str, JSON], by: Author, *, at_once: bool) -> Memory:
    """What an agent changes: the next version at once, or a suggestion."""
    if not at_once:
        return store_suggestion(target, content, by)
    lock_memory_owner(target.owner_id)
    if row := find_earlier_write(by):
        return row
    check_rate(target.owner_id, by)
    row = lock_memory(target, None)
    # Without a text, only the end of the memory is set.
    action = Action.CHANGED if "text" in content else Action.FORGOTTEN
    return store_next_version(row, content, by, action)


@transaction.atomic
def store_approved_memory(row: Memory, by: Author, *, expected: int | None = None) -> Memory:
    """A suggestion becomes a memory, or the next version of the one that it replaces. Raises Conflict."""
    lock_memory_owner(row.owner_id)
    row = lock_memory(row, expected)
    if not row.is_suggested:
        raise Conflict(
            "This memory has already been approved.", code="nothing_to_decide", hint="GET it to see its state."
        )
    if row.replaces_id is None:
        check_total(row.owner_id)
        row.status = Status.ACTIVE
        return store_next_version(row, {}, by, Action.APPROVED)
    target = lock_memory(row.replaces, None)
    target.untrusted = target.untrusted or row.untrusted
    source = Author(by.name, run_id=row.run_id, call_id=None)
    changed = store_next_version(target, row.content(), source, Action.APPROVED)
    row.delete()
    return changed


@transaction.atomic
def delete_rejected_suggestion(row: Memory, *, expected: int | None = None) -> None:
    """The suggestion is deleted; what it was to replace stays. Raises Conflict."""
    row = lock_memory(row, expected)
    if not row.is_suggested:
        raise Conflict("This memory is not a suggestion.", code="nothing_to_decide", hint="Delete it instead.")
    row.delete()


@transaction.atomic
def store_earlier_content(row: Memory, number: int, by: Author, *, expected: int | None = None) -> Memory:
    """The content of an earlier version as the next version. Raises NotFound, PreconditionFailed."""
    row = lock_memory(row, expected)
    version = row.versions.filter(number=number).first()
    if version is None:
        raise NotFound(f"This memory has no version {number}.")
    return store_next_version(row, version.content(), by, Action.ROLLED_BACK)


@transaction.atomic
def delete_memory_row(row: Memory, *, expected: int | None = None) -> None:
    """Delete a memory with its versions and the suggestions to change it."""
    lock_memory(row, expected).delete()


@transaction.atomic
def delete_owner_memories(owner_id: int) -> int:
    """Delete every memory of this person with its versions. Returns how many."""
    lock_memory_owner(owner_id)
    rows = Memory.objects.filter(owner_id=owner_id)
    count = rows.count()
    rows.delete()
    return count


# -- rows --------------------------------------------------------------------------------------------------------------


def create_memory_row(row: Memory, by: Author) -> Memory:
    """Insert a memory with its first version. Text of strangers marks it for good."""
    row.run_id = by.run_id
    row.call_id = by.call_id
    row.untrusted = row.untrusted or by.is_untrusted
    row.words = build_memory_words(row)
    row.save(force_insert=True)
    record_memory_version(row, by, Action.CREATED)
    return row


def store_next_version(row: Memory, content: dict[str, JSON], by: Author, action: str) -> Memory:
    """Change a memory that the caller has locked, and keep who did it. Raises Invalid."""
    values = check_memory_content({**row.content(), **content})
    for name, value in values.items():
        setattr(row, name, value)
    row.untrusted = row.untrusted or by.is_untrusted
    row.words = build_memory_words(row)
    row.version += 1
    row.save()
    record_memory_version(row, by, action)
    return row


def record_memory_version(row: Memory, by: Author, action: str) -> None:
    MemoryVersion.objects.create(
        memory=row,
        number=row.version,
        action=action,
        author=by.name[:150],
        is_agent=by.is_agent,
        run_id=by.run_id,
        root_id=by.root_id,
        call_id=by.call_id,
        untrusted=row.untrusted,
        **row.content(),
    )
    # Counted apart: the limit of a day holds also for memories that were deleted since.
    if by.is_agent:
        MemoryWrite.objects.create(owner_id=row.owner_id, untrusted=row.untrusted)


def build_memory_words(row: Memory) -> str:
    """Each stem once, with a space on either side."""
    stems = list_search_stems(f"{row.subject} . {row.text}")
    each_once = " ".join(dict.fromkeys(stems))
    return f" {each_once} "


def lock_memory(row: Memory, expected: int | None) -> Memory:
    """The memory as it is now, locked. Raises NotFound, and PreconditionFailed if it is not at the expected version."""
    current = Memory.objects.select_for_update().filter(pk=row.pk).first()
    if current is None:
        raise NotFound("This memory was deleted in the meantime.")
    if expected is not None and current.version != expected:
        raise PreconditionFailed(
            f"This memory was changed in the meantime: you have seen version {expected}, and it is version "
            f"{current.version} now.",
            hint="Read it again, and repeat your change if it still applies.",
        )
    return current


def find_earlier_write(by: Author) -> Memory | None:
    """What an earlier attempt of this call wrote."""
    if by.call_id is None:
        return None
    call_id = UUID(str(by.call_id))
    version = MemoryVersion.objects.filter(call_id=call_id).select_related("memory").first()
    if version is None:
        return None
    return version.memory


def find_same_memory(place: Place, text: str) -> Memory | None:
    """A memory in the same place that says the same, and holds."""
    for row in Memory.objects.filter(**place.columns(), text__iexact=text, replaces=None):
        if not row.is_over:
            return row
    return None


# -- checks ------------------------------------------------------------------------------------------------------------


def check_memory_content(content: dict[str, JSON]) -> dict[str, JSON]:
    """Without invisible characters, which could hide instructions. Raises Invalid."""
    values = dict(content)
    values["text"] = clean_untrusted_text(content["text"]).strip()
    values["subject"] = clean_untrusted_text(content.get("subject", "")).strip()
    for name, most in (("text", TEXT), ("subject", SUBJECT)):
        if len(values[name]) > most:
            raise Invalid(f"The {name} has more than {most} characters.", code="too_long", hint="Shorten it.")
    if not values["text"]:
        raise Invalid("There is nothing to remember.", code="empty", hint="Give the text.")
    begins = values.get("valid_from")
    ends = values.get("valid_until")
    if begins and ends and ends <= begins:
        raise Invalid("It would end before it begins.", code="invalid", hint="Change valid_from or valid_until.")
    return values


def lock_memory_owner(owner_id: int) -> None:
    """Writers of one person's memories come one after the other, so that they cannot exceed the limits together."""
    users: Any = get_user_model()
    owner = users.objects.select_for_update(no_key=True).filter(pk=owner_id)
    # The lock is taken when the row is read.
    list(owner.values_list("pk"))


def check_memory_room(place: Place, by: Author, *, at_once: bool) -> None:
    """Raises Conflict: a hostile text must not fill somebody's memory or their list of suggestions."""
    check_rate(place.owner_id, by)
    if not at_once:
        check_suggestions(place.owner_id, by)
    check_total(place.owner_id)


def check_total(owner_id: int) -> None:
    """Raises Conflict. Suggestions do not count, so that none of them keeps a person from writing; approving checks."""
    rows = Memory.objects.filter(owner_id=owner_id).exclude(status=Status.SUGGESTED)
    count = rows.count()
    if count >= settings.MEMORIES_PER_PERSON:
        raise Conflict(
            f"A person can have {settings.MEMORIES_PER_PERSON} memories.", code="too_many_memories",
            hint="Delete some on the page Memory.",
        )  # fmt: skip


def check_suggestions(owner_id: int, by: Author) -> None:
    """Raises Conflict. Agents that read text of strangers may fill half of the list, so the others keep room."""
    rows = Memory.objects.filter(owner_id=owner_id).suggested()
    most = MEMORY_SUGGESTIONS
    if by.is_agent and by.is_untrusted and rows.filter(untrusted=True).count() >= measure_untrusted_share(most):
        raise Conflict(
            f"{measure_untrusted_share(most)} suggestions from text of strangers already wait for a decision.",
            code="too_many_suggestions", hint="The person decides about them on the page Memory.",
        )  # fmt: skip
    if rows.count() >= most:
        raise Conflict(
            f"{most} suggestions already wait for a decision.", code="too_many_suggestions",
            hint="The person decides about them on the page Memory.",
        )  # fmt: skip


def check_rate(owner_id: int, by: Author) -> None:
    """Raises Conflict after so many writes of one message and all the runs that it led to, or of agents in a day."""
    if by.root_id and MemoryVersion.objects.filter(root_id=by.root_id).count() >= MEMORIES_PER_RUN:
        raise Conflict(
            f"One message may lead to {MEMORIES_PER_RUN} changes of the memory.", code="too_many_in_run",
            hint="Keep what matters most.",
        )  # fmt: skip
    if not by.is_agent:
        return
    since = clock.near() - timedelta(days=1)
    writes = MemoryWrite.objects.filter(owner_id=owner_id)
    writes.filter(at__lt=since).delete()
    recent = writes.filter(at__gte=since)
    is_full = recent.count() >= MEMORIES_PER_DAY
    if not is_full and by.is_untrusted:
        is_full = recent.filter(untrusted=True).count() >= measure_untrusted_share(MEMORIES_PER_DAY)
    if is_full:
        raise Conflict(
            "Agents have changed the memory of this person too often in the last 24 hours.", code="too_many_in_day",
            hint="Try again tomorrow, or let the person write it on the page Memory.",
        )  # fmt: skip


def measure_untrusted_share(most: int) -> int:
    """What runs that read text of strangers may use of a limit."""
    return max(1, most // 2)


def build_forgotten_content() -> dict[str, JSON]:
    """The content that ends a memory now. It can be rolled back."""
    return {"valid_until": timezone.now()}
