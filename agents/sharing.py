"""Sharing a row with a team, and taking it back. Whatever changes `team` goes through here."""

from collections.abc import Iterable
from typing import Any

from django.apps import apps

from agents.exceptions import Conflict, Forbidden
from agents.models import Membership, Team, Tool
from agents.models.agent import tool_changed
from agents.models.team import Owned


def check_share(row: Any, user: Any, team: Team | None, name: str) -> None:
    """May this person put the row into that team under that name? Raises Forbidden, Conflict.

    `row` may be one that is not stored yet, with its owner set. What stays where it is needs no right.
    """
    if team is None:
        return
    stays = row.pk is not None and row.team_id == team.pk
    if not stays and not may_share(user, team):
        raise Forbidden(
            f"Your role in the team “{team}” does not let you share with it.",
            code="role",
            hint="Authors and administrators of a team share; ask one of its administrators.",
        )
    if not (stays and row.name == name):
        refuse_clash(row, team, name)


def may_share(user: Any, team: Team) -> bool:
    if user.is_superuser:
        return True
    membership = Membership.of(user, team.pk)
    return membership is not None and membership.role in Membership.SHARERS


def refuse_clash(row: Owned, team: Team, name: str) -> None:
    """A name means one thing to a team. Raises Conflict where the site or a member has shared that name before."""
    model: Any = type(row)
    rows: Iterable[Any] = [model.objects.exclude(pk=row.pk)]
    if "kind" in (follows := row.listed_as()):  # it is listed under its own name
        rows = [*rows, Tool.objects.exclude(pk__in=Tool.objects.filter(**follows).values("pk") if row.pk else [])]
    for others in rows:
        of_site, of_team = others.filter(owner=None, team=None, name=name), others.filter(team=team, name=name)
        if taken := of_site.first() or of_team.exclude(owner_id=row.owner_id).select_related("owner").first():
            whose = f"{taken.owner} shares one with the team “{team}”" if taken.owner else "the site has one"
            raise Conflict(
                f"Another {taken._meta.verbose_name} is called “{name}”: {whose}.",
                code="name_taken",
                hint="Rename yours, then share it.",
            )


def carry(row: Owned) -> None:
    """The catalogue's rows of an agent, a function or a connection are shared exactly as the row itself is."""
    if not (follows := row.listed_as()):
        return
    for tool in Tool.objects.filter(**follows).exclude(owner=row.owner_id, team=row.team_id):
        tool.owner_id, tool.team_id = row.owner_id, row.team_id
        tool.save(update_fields=["owner", "team", "updated_at"])
        tool_changed(tool)


def take_back(user: Any, team: Team) -> None:
    """Nothing of this person's is shared with that team any more: for one who leaves it."""
    for model in shared_models():
        model.objects.filter(owner=user, team=team).update(team=None)


def shared_models() -> list[Any]:
    return [model for model in apps.get_models() if issubclass(model, Owned)]
