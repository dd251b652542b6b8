"""Sharing a row with a team, and taking it back. Every change of `team` goes through here."""

from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict, Forbidden
from agents.models import Agent, Membership, Provider, Team, Tool, ToolGrant
from agents.models.agent import tool_changed
from agents.models.team import Owned, is_open, kind_name


def check_share(row: Any, user: Any, team: Team | None, name: str) -> None:
    """Whether this user may share the row with that team under that name. Raises Forbidden,
    Conflict.

    `row` may be unsaved, with its owner set. A row that is already shared with the team needs no
    right.
    """
    if team is None:
        return
    stays = row.pk is not None and row.team_id == team.pk
    if not stays and not may_share(user, team):
        raise Forbidden(
            _("Your role in the team “%(team)s” does not let you share with it.") % {"team": team},
            code="role",
            hint=_("Authors and administrators of a team can share; ask one of its administrators."),
        )
    if not (stays and row.name == name):
        refuse_clash(row, team, name)


def may_share(user: Any, team: Team) -> bool:
    if user.is_superuser:
        return True
    membership = Membership.of(user, team.pk)
    return membership is not None and membership.role in Membership.SHARERS


def refuse_clash(row: Owned, team: Team, name: str) -> None:
    """A name has one meaning in a team. Raises Conflict if the site or a member already shares that
    name.
    """
    model: Any = type(row)
    rows: Iterable[Any] = [model.objects.exclude(pk=row.pk)]
    if "kind" in (follows := row.listed_as()):  # it is listed under its own name
        rows = [*rows, Tool.objects.exclude(pk__in=Tool.objects.filter(**follows).values("pk") if row.pk else [])]
    for others in rows:
        of_site, of_team = others.filter(owner=None, team=None, name=name), others.filter(team=team, name=name)
        if namesake := of_site.first() or of_team.exclude(owner_id=row.owner_id).select_related("owner").first():
            whose = (
                _("%(owner)s shares one with the team “%(team)s”") % {"owner": namesake.owner, "team": team}
                if namesake.owner
                else _("the site has one")
            )
            raise Conflict(
                _("Another %(kind)s is called “%(name)s”: %(whose)s.")
                % {"kind": kind_name(namesake), "name": name, "whose": whose},
                code="name_taken",
                hint=_("Rename yours, then share it."),
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
    """Unshare everything that this user shares with that team: called when they leave it."""
    for model in shared_models():
        model.objects.filter(owner=user, team=team).update(team=None)


def dependents(rows: Iterable[Any], user: Any) -> list[str]:
    """The rows that keep another one from being deleted: by name where this user can see them, else counted."""
    rows = list(rows)
    names = sorted({str(row) for row in rows if is_seen(row, user)})
    hidden = sum(not is_seen(row, user) for row in rows)
    return [*names[:5], *([f"{hidden} that you cannot see"] if hidden else [])]


def is_seen(row: Any, user: Any) -> bool:
    visible_to = getattr(type(row)._default_manager, "visible_to", None)
    return visible_to is not None and visible_to(user).filter(pk=row.pk).exists()


def shared_models() -> list[Any]:
    return [model for model in apps.get_models() if issubclass(model, Owned)]


def let_go(row: Owned) -> None:
    """Remove uses of this row by users who may no longer use it, so that they do not prevent its
    deletion. Their grants of its tool are removed. Their agents that used the provider get a disabled
    provider of their own, so that a message is refused with `provider_disabled`.
    """
    follows = {"pk": row.pk} if isinstance(row, Tool) else row.listed_as()
    if follows:
        release_grants(Tool.objects.filter(**follows))
    if isinstance(row, Provider):
        release_agents(row)


def release_grants(tools: Any) -> None:
    for grant in ToolGrant.objects.filter(tool__in=tools).select_related("tool", "agent", "chain"):
        subject = grant.agent or grant.chain
        if is_lost(grant.tool, subject):
            grant.delete()
            Agent.objects.filter(pk=grant.agent_id).refresh_live_hashes()


def release_agents(provider: Provider) -> None:
    for agent in provider.agents.select_related("owner"):
        if is_lost(provider, agent):
            agent.provider = replace_provider(provider, agent.owner)
            agent.save(update_fields=["provider", "updated_at"])
            agent.set_live_hash()
            agent.save(update_fields=["live_hash"])


def is_lost(row: Owned, dependent: Any) -> bool:
    """Whether the owner of the dependent row can no longer use this one."""
    return dependent.owner_id is not None and not is_open(row.owner_id, row.team_id, dependent.owner_id)


def replace_provider(provider: Provider, owner: Any) -> Provider:
    name = f"{provider.name[:50]}-gone-{provider.pk}"[-64:].lstrip("-_")
    fields = {"kind": provider.kind, "enabled": False}
    return Provider.objects.get_or_create(owner=owner, name=name, defaults=fields)[0]
