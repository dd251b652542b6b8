"""What a row needs so that a team can use it, and sharing that with the team too.

A shared agent runs with the rights of the person who uses it. Its provider and its tools are rows of their own, which
stay private until they are shared as well.
"""

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils.translation import gettext_noop as _

from agents.exceptions import MusterError
from agents.models import Agent, Chain, Secret, Team, Tool
from agents.models.chain_targets import Targets
from agents.models.team import Owned, kind_name
from agents.sharing import carry, check_share, may_share, shared_models

# Rows that are looked at for one answer.
MAX_ROWS = 500


@dataclass(frozen=True, slots=True)
class Need:
    """A row that the members of a team cannot use yet. `problem`: why this user cannot share it; empty if they can."""

    row: Any
    problem: str

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": kind_name(self.row),
            "name": self.row.name,
            "owner": self.row.owner.get_username() if self.row.owner else None,
            "may_share": not self.problem,
            "problem": self.problem,
        }


def list_needs(row: Owned, team: Team, user: Any) -> list[Need]:
    """Everything that the row uses, directly or through what it uses, and that the team cannot use."""
    needs: list[Need] = []
    seen = {(type(row), row.pk)}
    waiting = [row]
    while waiting and len(seen) < MAX_ROWS:
        for used_row in list_used_rows(waiting.pop(0)):
            key = (type(used_row), used_row.pk)
            if key in seen:
                continue
            seen.add(key)
            if is_of_site(used_row):
                continue
            waiting.append(used_row)
            if used_row.team_id != team.pk:
                needs.append(Need(used_row, explain_problem(used_row, team, user)))
    return needs


def is_of_site(row: Any) -> bool:
    return row.owner_id is None and row.team_id is None


def explain_problem(row: Any, team: Team, user: Any) -> str:
    """Why this user cannot share the row with the team; empty if nothing is in the way."""
    if row.owner_id != user.pk:
        return _("it belongs to %(owner)s") % {"owner": row.owner}
    if row.team_id is not None:
        return _("it is shared with the team “%(team)s” already") % {"team": row.team}
    if not may_share(user, team):
        return _("your role in the team does not let you share")
    return ""


def list_used_rows(row: Any) -> list[Any]:
    """The rows that this one uses directly, with their owners and teams."""
    rows: list[Any] = []
    if isinstance(row, Agent):
        rows.append(row.provider)
    if isinstance(row, Agent | Chain):
        tools = Tool.objects.filter(grants__in=row.grants.all()).select_related("owner", "team")
        rows.extend(find_row_of_tool(tool) for tool in tools.order_by("name"))
    if isinstance(row, Chain):
        targets = Targets(row, list(row.steps.all()))
        rows.extend(targets.rows["agent"].values())
        rows.extend(targets.rows["chain"].values())
    # Functions list the secrets that they send, connections have one.
    names = [*getattr(row, "secrets", []), getattr(row, "secret_name", "")]
    if row.owner is not None and any(names):
        secrets = Secret.objects.usable_by(row.owner).select_related("owner", "team")
        rows.extend(secrets.meant(row.owner, [name for name in names if name]).values())
    return rows


def find_row_of_tool(tool: Tool) -> Any:
    """The function, agent, chain, collection, skill or connection behind this tool; else the tool itself."""
    remote = getattr(tool, "remote", None)
    if remote is not None:
        return remote.connection
    for model in shared_models():
        for lookup in model().listed_as():
            kind, _separator, key = lookup.partition("__")
            if kind == "source" and key in tool.source:
                row = model.objects.filter(pk=tool.source[key]).select_related("owner", "team").first()
                return row or tool
    return tool


@transaction.atomic
def share_needs(row: Owned, team: Team, user: Any) -> tuple[list[Any], list[Need]]:
    """Share what the row needs with the team, as far as this user may: (shared rows, needs that are left)."""
    shared = []
    left_needs = []
    for need in list_needs(row, team, user):
        problem = need.problem or share_row(need.row, team, user)
        if problem:
            left_needs.append(Need(need.row, problem))
        else:
            shared.append(need.row)
    return shared, left_needs


def share_row(row: Any, team: Team, user: Any) -> str:
    """Why it could not be shared; empty if it is shared now."""
    try:
        check_share(row, user, team, row.name)
    except MusterError as error:
        return str(error)
    row.team = team
    row.save(update_fields=["team", "updated_at"])
    carry(row)
    return ""


def list_warnings(row: Any, user: Any) -> list[dict[str, Any]]:
    """[{code, message, hint, needs}] of a shared row whose team lacks something; [] if it can be used as it is."""
    # What it needs may be private to its owner.
    if row.team is None or row.owner_id != user.pk:
        return []
    needs = list_needs(row, row.team, user)
    if not needs:
        return []
    names = ", ".join(f"{kind_name(need.row)} {need.row.name}" for need in needs)
    message = _("Members of “%(team)s” also need: %(names)s.") % {"team": row.team, "names": names}
    hint = _("POST to /api/v1/sharing/ shares what you may share; the owners share the rest.")
    return [{"code": "not_shared", "message": message, "hint": hint, "needs": [need.as_json() for need in needs]}]
