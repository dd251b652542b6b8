"""Tools offered by remote servers: added to the catalogue, pinned by hash, switched off on change,
approved by users.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

from agents.exceptions import Conflict, Invalid
from agents.models import AuditEvent, Secret, Tool
from agents.models.agent import tool_changed
from agents.models.secret import valueless
from agents.models.team import the_one
from agents.schema import check_schema, hash_json
from plumbing.texts import translate

from .models import Connection, RemoteTool

MAX_TOOLS = 200
DESCRIPTION_LIMIT = 4000
JSON = Any


@dataclass(frozen=True, slots=True)
class Offered:
    """One tool as described by its server (or an OpenAPI document). `effect` is the server's own
    claim; `problem` says why it must be refused.
    """

    name: str
    description: str
    input_schema: dict[str, JSON]
    output_schema: dict[str, JSON] | None
    effect: str
    details: dict[str, JSON]
    problem: str = ""

    def definition(self) -> dict[str, JSON]:
        return {
            "name": self.name,
            "description": self.description[:DESCRIPTION_LIMIT],
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "effect": self.effect,
            "details": self.details,
        }


@dataclass(slots=True)
class Listing:
    """The result for each offered tool, by name."""

    new: list[str]
    changed: list[str]
    gone: list[str]
    refused: list[dict[str, str]]
    usable: int = 0

    @property
    def total(self) -> int:
        return self.usable + len(self.refused)


def compare_offered_tools(connection: Connection, offers: Iterable[Offered]) -> list[dict[str, Any]]:
    """What `take_offers` would do with each offered tool: new, changed, known or refused. Stores nothing."""
    digests: dict[str, str] = {}
    effects: dict[str, str] = {}
    for name, digest, effect in connection.remote_tools.values_list("remote_name", "offered_hash", "tool__effect"):
        digests[name] = digest
        if effect:
            effects[name] = effect
    seen: set[str] = set()
    rows = []
    for offered in offers:
        problem = find_offer_problem(offered, seen)
        seen.add(offered.name)
        if problem:
            state = "refused"
        elif offered.name not in digests:
            state = "new"
        elif digests[offered.name] == hash_json(offered.definition()):
            state = "known"
        else:
            state = "changed"
        row = {
            "name": offered.name[:256],
            "description": offered.description[:DESCRIPTION_LIMIT],
            "effect": effects.get(offered.name, offered.effect),
            "state": state,
            "reason": translate(problem),
        }
        rows.append(row)
    return rows


def take_offers(
    connection: Connection,
    offers: Iterable[Offered],
    *,
    kind: str,
    by: Any = None,
    effects: dict[str, str] | None = None,
) -> Listing:
    """Bring the catalogue up to date with the offered tools.

    A new tool can be used at once but counts as destructive until a user approves its claimed
    effect; `by` is the user who imported the document and thereby approved it, with `effects` in
    place of what it claims. A changed or missing tool is switched off; one that a user switched off
    stays off. A known tool keeps its approved effect.
    """
    listing = Listing([], [], [], [])
    effects = effects or {}
    rows = {row.remote_name: row for row in connection.remote_tools.select_related("tool")}
    seen: set[str] = set()
    for offered in offers:
        if problem := find_offer_problem(offered, seen):
            listing.refused.append({"name": offered.name[:256], "reason": translate(problem)})
            continue
        seen.add(offered.name)
        if row := rows.get(offered.name):
            update_remote_tool(row, offered, listing)
        else:
            effect = effects.get(offered.name) or offered.effect
            create_remote_tool(connection, offered, kind, by, effect)
            listing.new.append(offered.name)
    listing.usable = len(seen)
    for name in rows.keys() - seen:
        mark_tool_withdrawn(rows[name], listing)
    return listing


def find_offer_problem(offered: Offered, seen: set[str]) -> str:
    if offered.problem:
        return offered.problem
    if len(seen) >= MAX_TOOLS:
        return f"A connection can offer at most {MAX_TOOLS} tools."
    if not offered.name or len(offered.name) > 256:
        return "A tool needs a name of at most 256 characters."
    if offered.name in seen:
        return "Two tools have the same name."
    for schema in (offered.input_schema, offered.output_schema):
        problems = check_schema(schema) if schema else []
        if problems:
            return f"Its schema cannot be used: {problems[0]['path'] or '/'}: {problems[0]['message']}"
    if offered.input_schema.get("type") != "object":
        return "The input schema does not describe an object."
    return ""


@transaction.atomic
def create_remote_tool(connection: Connection, offered: Offered, kind: str, by: Any, effect: str) -> RemoteTool:
    definition = offered.definition()
    pin = hash_json(definition)
    row = RemoteTool(connection=connection, remote_name=offered.name, offered=definition, offered_hash=pin)
    row.pinned_hash = pin
    if by is None:
        # Nobody has looked at it yet: what the server claims does not count.
        effect = Tool.Effect.DESTRUCTIVE
    else:
        row.approved_hash = pin
        row.approved_by = by
        row.approved_at = timezone.now()
    name = choose_tool_name(connection, offered.name)
    tool = Tool(owner=connection.owner, team=connection.team, name=name, kind=kind)
    write_tool(tool, row, effect=effect)
    row.tool = tool
    row.save()
    return row


def write_tool(tool: Tool, row: RemoteTool, *, effect: str) -> None:
    """Write the pinned definition to the catalogue row; the effect is the approved one."""
    definition = row.offered
    tool.description = definition["description"]
    tool.input_schema = definition["input_schema"]
    tool.output_schema = definition["output_schema"]
    tool.effect = effect
    tool.untrusted = True
    tool.enabled = tool.enabled or row.is_withheld
    row.is_withheld = False
    tool.source = {"connection": row.connection_id, "tool": row.remote_name, "pin": row.pinned_hash}
    tool.freeze_hash()
    tool.save()
    tool_changed(tool)


def update_remote_tool(row: RemoteTool, offered: Offered, listing: Listing) -> None:
    """Update a known tool: usable if it matches its pin, switched off if it changed."""
    row.offered = offered.definition()
    row.offered_hash = hash_json(row.offered)
    row.is_offered = True
    row.save(update_fields=["offered", "offered_hash", "is_offered", "seen_at"])
    if row.is_changed:
        listing.changed.append(row.remote_name)
    switch(row, on=not row.is_changed)


def mark_tool_withdrawn(row: RemoteTool, listing: Listing) -> None:
    listing.gone.append(row.remote_name)
    row.is_offered = False
    row.save(update_fields=["is_offered", "seen_at"])
    switch(row, on=False)


def switch(row: RemoteTool, *, on: bool) -> None:
    """Switch tools off, and on again if this function switched them off; a user's own choice is
    kept.
    """
    tool = row.tool
    if tool is None:
        return
    if on and not row.is_withheld:
        return
    if not on and not tool.enabled:
        return
    row.is_withheld = not on
    row.save(update_fields=["is_withheld"])
    if tool.enabled != on:
        tool.enabled = on
        tool.save(update_fields=["enabled", "updated_at"])
        tool_changed(tool)


@transaction.atomic
def approve_definition(row: RemoteTool, user: Any, *, sha256: str, effect: str = "") -> Tool:
    """Approve the current definition, identified by the hash the user saw. Raises Conflict,
    Invalid.
    """
    rows = RemoteTool.objects.select_for_update(of=("self",)).select_related("tool", "connection")
    locked = rows.get(pk=row.pk)
    if locked.offered_hash != sha256:
        raise Conflict("The tool has changed since you looked at it.", code="definition_changed", hint="Look again.")
    if not locked.is_offered or locked.tool is None:
        raise Conflict(
            "The server no longer offers this tool.",
            code="not_offered",
            hint="Check the connection to read its tools again.",
        )
    effect = effect or locked.offered["effect"]
    if effect not in Tool.Effect.values:
        raise Invalid(f"“{effect}” is not an effect.", hint=f"Choose from {', '.join(Tool.Effect.values)}.")
    locked.pinned_hash = locked.approved_hash = sha256
    locked.approved_by = user
    locked.approved_at = timezone.now()
    # The last error may say that it must be approved again.
    locked.last_error = ""
    write_tool(locked.tool, locked, effect=effect)
    locked.save()
    AuditEvent.record("remotetool.approved", locked, actor=user, sha256=sha256, effect=effect)
    return locked.tool


def forget_approvals(connection: Connection) -> None:
    """The server has changed: all approvals of the old one are withdrawn."""
    connection.remote_tools.update(approved_hash="", approved_by=None, approved_at=None)
    for row in connection.remote_tools.select_related("tool"):
        if row.tool is not None:
            switch(row, on=False)
            row.tool.effect = Tool.Effect.DESTRUCTIVE
            row.tool.freeze_hash()
            row.tool.save()
            tool_changed(row.tool)


def choose_tool_name(connection: Connection, remote_name: str) -> str:
    """connection_tool as a slug, with a number if that is taken."""
    # “getUserName” becomes get_user_name.
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", remote_name).lower()
    slug = re.sub(r"[^a-z0-9_-]+", "_", words).strip("_-") or "tool"
    base = f"{connection.name}_{slug}"[:60].rstrip("_-")
    similar = Tool.objects.filter(name__startswith=base)
    namesakes = similar.filter(owner=connection.owner)
    if connection.team_id:
        namesakes = namesakes | similar.filter(team=connection.team)
    names = set(namesakes.values_list("name", flat=True))
    if base not in names:
        return base
    # A connection has at most MAX_TOOLS tools, so one of these is free.
    numbered = (f"{base}_{number}" for number in range(2, MAX_TOOLS + 3))
    return next(name for name in numbered if name not in names)


def secret_header(connection: Connection, user_id: int | None, host: str) -> dict[str, str]:
    """The header with the user's secret for this host; {} if the connection names no secret. Raises
    Invalid.
    """
    secret = bound_secret(connection, user_id, host)
    header = secret.header_for(host) if secret else None
    if header is None:
        return {}
    name, value = header
    return {name: value}


def bound_secret(connection: Connection, user_id: int | None, host: str) -> Secret | None:
    """The user's secret with the name given by the connection; None if it names none.

    Raises Invalid if the user has no such secret or it is not bound to the host.
    """
    if not connection.secret_name:
        return None
    secret = secret_named(connection.secret_name, user_id)
    if not secret.value:
        raise valueless(secret)
    if secret.header_for(host) is None:
        raise Invalid(
            f"The secret “{connection.secret_name}” is not bound to {host}.",
            code="secret_unbound",
            hint=f"Add {host} to the secret's hosts.",
        )
    return secret


def secret_named(name: str, user_id: int | None) -> Secret:
    """The secret this name means to the user; without a user, the site's. Raises Invalid."""
    user = None
    if user_id is not None:
        user = get_user_model().objects.filter(pk=user_id).first()
    if user is None:
        rows = Secret.objects.filter(owner=None, team=None)
    else:
        rows = Secret.objects.usable_by(user).nearest_first(user)
    secrets = list(rows.filter(name=name)[:2])
    if not secrets:
        raise Invalid(f"You have no secret “{name}”.", code="secret_missing")
    try:
        secret: Secret = the_one(secrets, user)
    except Conflict as error:
        raise Invalid(str(error), code=error.code, hint=error.hint)
    return secret
