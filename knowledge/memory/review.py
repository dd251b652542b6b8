"""What a person does with memories: create, edit, approve, reject, roll back, delete, export, erase.

Each change is one line in the audit log, without the text, which is to be gone once the memory is.
"""

from collections.abc import Iterator
from typing import Any

from django.db import transaction
from django.utils.translation import gettext_noop as _

from agents.exceptions import Forbidden, NotFound
from agents.models import Agent, AuditEvent, Membership, Team
from knowledge.models import Memory

from . import agent_file, storage
from .storage import Author, Place

JSON = Any
Scope = Memory.Scope


def get_writable_place(user: Any, scope: str, *, agent: str = "", team: str = "") -> Place:
    """Where this person may write. Raises NotFound, Forbidden."""
    if scope == Scope.PERSON_AGENT:
        row = Agent.objects.for_use(user, agent)
        return Place(user.pk, scope, agent_id=row.pk)
    if scope == Scope.AGENT:
        row = Agent.objects.named(user, agent)
        if row.owner_id != user.pk:
            raise Forbidden(
                _("Only the owner of an agent writes what it knows for everyone."),
                hint=_("Ask its owner, or write a memory of your own."),
            )
        return Place(user.pk, scope, agent_id=row.pk)
    if scope == Scope.TEAM:
        return Place(user.pk, scope, team_id=get_writable_team(user, team).pk)
    return Place(user.pk)


def get_writable_team(user: Any, name: str) -> Team:
    row = Team.objects.visible_to(user).filter(name=name).first()
    if row is None:
        raise NotFound(_("There is no team “%(name)s” that you are in.") % {"name": name[:80]})
    membership = Membership.of(user, row.pk)
    if membership is None or membership.role not in Membership.USERS:
        raise Forbidden(
            _("Viewers of a team do not write its memories."),
            code="role",
            hint=_("Ask an administrator of the team for another role."),
        )
    return row


@transaction.atomic
def create_person_memory(user: Any, place: Place, content: dict[str, JSON], *, source: str = "") -> tuple[Memory, bool]:
    row, is_new = storage.store_new_memory(place, content, build_person_author(user))
    if is_new:
        AuditEvent.record("memory.created", row, actor=user, source=source, scope=row.scope)
    return row, is_new


@transaction.atomic
def import_memory_blocks(user: Any, place: Place, document: dict[str, JSON], *, source: str = "") -> dict[str, int]:
    """The blocks of an agent file as suggestions with the mark of strangers' text: {"created", "known"}.

    All or nothing. Raises Invalid, Conflict.
    """
    author = Author(user.get_username(), is_untrusted=True)
    done = {"created": 0, "known": 0}
    for label, text in agent_file.list_memory_pieces(document):
        content = {"text": text, "subject": label}
        _row, is_new = storage.store_new_memory(place, content, author, at_once=False)
        outcome = "created" if is_new else "known"
        done[outcome] += 1
    AuditEvent.record("memory.imported", user, actor=user, source=source, memories=done["created"])
    return done


@transaction.atomic
def edit_memory(
    row: Memory, content: dict[str, JSON], *, user: Any, expected: int | None = None, source: str = ""
) -> Memory:  # fmt: skip
    check_memory_edit(row, user)
    row = storage.store_changed_memory(row, content, build_person_author(user), expected=expected)
    AuditEvent.record("memory.changed", row, actor=user, source=source, fields=sorted(content))
    return row


@transaction.atomic
def approve_memory(row: Memory, *, user: Any, expected: int | None = None, source: str = "") -> Memory:
    check_memory_edit(row, user)
    row = storage.store_approved_memory(row, build_person_author(user), expected=expected)
    AuditEvent.record("memory.approved", row, actor=user, source=source, version=row.version)
    return row


@transaction.atomic
def reject_memory(row: Memory, *, user: Any, expected: int | None = None, source: str = "") -> None:
    check_memory_edit(row, user)
    AuditEvent.record("memory.rejected", row, actor=user, source=source)
    storage.delete_rejected_suggestion(row, expected=expected)


@transaction.atomic
def roll_back_memory(row: Memory, number: int, *, user: Any, expected: int | None = None, source: str = "") -> Memory:
    check_memory_edit(row, user)
    row = storage.store_earlier_content(row, number, build_person_author(user), expected=expected)
    AuditEvent.record("memory.rolled_back", row, actor=user, source=source, to=number)
    return row


@transaction.atomic
def remove_memory(row: Memory, *, user: Any, expected: int | None = None, source: str = "") -> None:
    check_memory_edit(row, user)
    AuditEvent.record("memory.deleted", row, actor=user, source=source)
    storage.delete_memory_row(row, expected=expected)


@transaction.atomic
def erase_person_memories(user: Any, *, source: str = "") -> int:
    """Everything that is remembered about this person, and what they wrote for agents and teams."""
    count = storage.delete_owner_memories(user.pk)
    AuditEvent.record("memory.erased", user, actor=user, source=source, memories=count)
    return count


def iterate_exported_memories(user: Any) -> Iterator[dict[str, JSON]]:
    """The person's own memories with their versions, oldest first."""
    rows = Memory.objects.filter(owner_id=user.pk).select_related("owner", "agent", "team")
    for row in rows.prefetch_related("versions").order_by("pk"):
        versions = sorted(row.versions.all(), key=lambda version: version.number)
        yield {"memory": row, "versions": versions}


def check_memory_edit(row: Memory, user: Any) -> None:
    """Raises Forbidden."""
    if not row.may_edit(user):
        raise Forbidden(
            _("You can see this memory, but not change it."),
            hint=_("Ask the one who wrote it, or an administrator of the team."),
        )


def build_person_author(user: Any) -> Author:
    return Author(user.get_username())
