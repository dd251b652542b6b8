"""The pages of agents: a list, a new one, and the studio of one. They are saved over the API."""

from typing import Any

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from agents import roles
from agents.models import Agent, Membership, Provider, Tool, ToolGrant
from agents.models.team import SLUG, Owned
from runs.models import Embed
from runs.models.figures import agents as figures

from ..base import render_shell_page, require_login
from ..owner_urls import find_by_name
from .agent_fields import fields_by_tab, make_model_param_fields
from .lists import list_page, namesake

HEAVY = ("system_prompt", "input_schema", "output_schema", "variables", "published__spec")
OFFERED = 200
# What most people set of the limits; the rest is behind "Advanced".
MAIN_LIMITS = ("max_steps", "timeout", "context_messages")
MEMORY = ("memory", "memory_summary", "memory_tokens")


@require_login
def agent_list(request: HttpRequest) -> HttpResponse:
    """Filters: see `list_page`."""
    rows = Agent.objects.visible_to(request.user).select_related("published", "owner", "team", "provider")
    agents, around = list_page(request, rows.defer(*HEAVY))
    months = figures.months(agents, request.user)
    for agent in agents:
        agent.month = months.get(agent.pk, figures.Month())
    return render_shell_page(
        request, "agents.html", _("Agents"), agents=agents, may_write=may_write_agents(request), **around
    )


def may_write_agents(request: HttpRequest) -> bool:
    return roles.allows(request.user, "agents:write")


@require_login
def new_agent(request: HttpRequest) -> HttpResponse:
    """`?from=` names an agent that is copied, `?tool=` and `?mode=` a tool that it gets."""
    copied = request.GET.get("from", "")[:64]
    title = _("Copy of %(name)s") % {"name": copied} if copied else _("New agent")
    tool = request.GET.get("tool", "")[:64]
    mode = request.GET.get("mode", "")
    providers = find_providers(request.user)
    # A provider that was just connected leads here.
    chosen = request.GET.get("provider", "")
    providers.sort(key=lambda provider: provider != chosen)
    context = {
        "copied": copied,
        "tool": tool,
        "mode": mode if mode in ToolGrant.Mode.values else ToolGrant.Mode.ASK.value,
        "providers": providers,
        "may_write": may_write_agents(request),
    }
    return render_shell_page(request, "agent_new.html", title, **context)


def find_providers(user: Any) -> list[str]:
    """Real models first: the offline provider is for trying things out."""
    rows = Provider.objects.usable_by(user).filter(enabled=True).order_by("name").values_list("name", "kind")
    providers = sorted(rows[:OFFERED], key=lambda row: row[1] == Provider.Kind.OFFLINE)
    names = [name for name, _kind in providers]
    # Two owners may have used the same name.
    return list(dict.fromkeys(names))


@require_login
def agent_page(request: HttpRequest, name: str) -> HttpResponse:
    """The studio of one agent; read-only for people who may not change it. `?owner=`: see `find_by_name`."""
    if not SLUG.regex.match(name):
        raise Http404("There is no agent with that name.")
    agent = find_by_name(request, Agent.objects.select_related("published", "owner", "team", "provider"), name)
    # The page's script saves by name, which would mean another row: this one is only read.
    if getattr(agent, "address", ""):
        return namesake(request, agent, grants=agent.grants.select_related("tool"))
    user = request.user
    may_edit = agent.may_edit(user) and may_write_agents(request)
    may_use = agent.may_use(user) and roles.allows(user, "messages:write")
    fields = fields_by_tab(agent)
    fields["model"] += make_model_param_fields(agent)
    limits = fields["limits"]
    return render_shell_page(
        request,
        "agent.html",
        agent.name,
        agent=agent,
        may_edit=may_edit,
        may_use=may_use,
        fields=fields,
        limit_fields=[field for field in limits if field.name in MAIN_LIMITS],
        more_limit_fields=[field for field in limits if field.name not in (*MAIN_LIMITS, *MEMORY)],
        embeds=Embed.objects.visible_to(user).filter(agent=agent)[:OFFERED] if may_edit else [],
        memory_fields=[field for field in limits if field.name in MEMORY],
        providers=find_providers(user),
        teams=find_teams(user, agent),
        without=unshared_tools(user, agent, may_edit),
        examples=agent.examples[:3],
        tool_kinds=Tool.Kind.choices,
        modes=ToolGrant.Mode.choices,
    )


def unshared_tools(user: Any, agent: Agent, may_edit: bool) -> list[str]:
    """The tools that sharing the agent does not share: those that its team lacks or would lack for people who may edit
    it, those that they may not use themselves for others.
    """
    tools = Tool.objects.filter(grants__agent=agent)
    if may_edit:
        of_site = Q(owner=None, team=None)
        of_same_team = Q(team__isnull=False, team=agent.team_id)
        tools = tools.exclude(of_site).exclude(of_same_team)
    else:
        usable_ids = Tool.objects.usable_by(user).values("pk")
        tools = tools.exclude(pk__in=usable_ids)
    return list(tools.order_by("name").values_list("name", flat=True))


def find_teams(user: Any, row: Owned | None = None) -> list[str]:
    """Teams that this person may share with, and the one that the row is shared with."""
    mine = Membership.objects.filter(user_id=user.pk, role__in=Membership.SHARERS).order_by("team__name")
    names = list(mine.values_list("team__name", flat=True)[:OFFERED])
    if row is None or row.team is None or row.team.name in names:
        return names
    return [row.team.name, *names]
