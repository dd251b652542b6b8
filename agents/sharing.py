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
    is_shared_already = row.pk is not None and row.team_id == team.pk
    if not is_shared_already and not may_share(user, team):
        raise Forbidden(
            _("Your role in the team “%(team)s” does not let you share with it.") % {"team": team},
            code="role",
            hint=_("Authors and administrators of a team can share; ask one of its administrators."),
        )
    if not is_shared_already or row.name != name:
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
    candidates: list[Any] = [model.objects.exclude(pk=row.pk)]
    own_tools = row.listed_as()
    # Listed among the tools under its own name, which must be free there too.
    if "kind" in own_tools:
        tools = Tool.objects.all()
        if row.pk:
            tools = tools.exclude(pk__in=Tool.objects.filter(**own_tools).values("pk"))
        candidates.append(tools)
    for rows in candidates:
        namesake = find_namesake(rows, row, team, name)
        if namesake is not None:
            raise name_taken(namesake, team, name)


def find_namesake(rows: Any, row: Owned, team: Team, name: str) -> Any:
    """Another row with this name, of the site or shared with the team by somebody else."""
    of_site = rows.filter(owner=None, team=None, name=name)
    of_team = rows.filter(team=team, name=name).exclude(owner_id=row.owner_id)
    return of_site.first() or of_team.select_related("owner").first()


def name_taken(namesake: Any, team: Team, name: str) -> Conflict:
    whose = _("the site has one")
    if namesake.owner:
        whose = _("%(owner)s shares one with the team “%(team)s”") % {"owner": namesake.owner, "team": team}
    message = _("Another %(kind)s is called “%(name)s”: %(whose)s.")
    return Conflict(
        message % {"kind": kind_name(namesake), "name": name, "whose": whose},
        code="name_taken",
        hint=_("Rename yours, then share it."),
    )


def carry(row: Owned) -> None:
    """The catalogue's rows of an agent, a function or a connection are shared exactly as the row itself is."""
    own_tools = row.listed_as()
    if not own_tools:
        return
    for tool in Tool.objects.filter(**own_tools).exclude(owner=row.owner_id, team=row.team_id):
        tool.owner_id = row.owner_id
        tool.team_id = row.team_id
        tool.save(update_fields=["owner", "team", "updated_at"])
        tool_changed(tool)


def take_back(user: Any, team: Team) -> None:
    """Unshare everything that this user shares with that team: called when they leave it."""
    for model in shared_models():
        model.objects.filter(owner=user, team=team).update(team=None)


def dependents(rows: Iterable[Any], user: Any) -> list[str]:
    """The rows that keep another one from being deleted: by name where this user can see them, else counted."""
    names: set[str] = set()
    hidden_count = 0
    for row in rows:
        if is_seen(row, user):
            names.add(str(row))
        else:
            hidden_count += 1
    listed = sorted(names)[:5]
    if hidden_count:
        listed.append(f"{hidden_count} that you cannot see")
    return listed


def is_seen(row: Any, user: Any) -> bool:
    visible_to = getattr(type(row)._default_manager, "visible_to", None)
    return visible_to is not None and visible_to(user).filter(pk=row.pk).exists()


def shared_models() -> list[Any]:
    return [model for model in apps.get_models() if issubclass(model, Owned)]


def remove_unshared_uses(row: Owned) -> None:
    """Remove uses of this row by users who may no longer use it, so that they do not prevent its
    deletion. Their grants of its tool are removed. Their agents that used the provider get a disabled
    provider of their own, so that a message is refused with `provider_disabled`.
    """
    own_tools = {"pk": row.pk} if isinstance(row, Tool) else row.listed_as()
    if own_tools:
        release_grants(Tool.objects.filter(**own_tools))
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
    if dependent.owner_id is None:
        return False
    return not is_open(row.owner_id, row.team_id, dependent.owner_id)


def replace_provider(provider: Provider, owner: Any) -> Provider:
    # At most 64 characters; the end, which makes it unique, is kept.
    name = f"{provider.name[:50]}-gone-{provider.pk}"[-64:].lstrip("-_")
    fields = {"kind": provider.kind, "enabled": False}
    replacement, _is_new = Provider.objects.get_or_create(owner=owner, name=name, defaults=fields)
    return replacement
