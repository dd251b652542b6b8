"""The pages of chains: a list, a new one, and the editor of one. They are saved and started over the API."""

import json
from typing import Any

from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from agents import roles
from agents.models import Chain
from agents.models.team import SLUG
from runs.models import Run
from runs.models.figures import agents as figures

from ..base import render_shell_page, require_login
from ..owner_urls import find_by_name
from .agent_fields import fields_by_tab
from .agents import find_teams
from .lists import list_page, namesake

BLANK = {"string": "", "number": 0, "integer": 0, "boolean": False, "array": [], "object": {}, "null": None}
HEAVY = ("input_schema", "output_schema", "published__spec")


@require_login
def chain_list(request: HttpRequest) -> HttpResponse:
    """Filters: see `list_page`."""
    rows = Chain.objects.visible_to(request.user).select_related("published", "owner", "team").defer(*HEAVY)
    chains, around = list_page(request, rows.annotate(total=Count("steps")))
    months = figures.months_of_chains(chains, request.user)
    for chain in chains:
        chain.month = months.get(chain.pk, figures.Month())
    return render_shell_page(
        request, "chains.html", _("Chains"), chains=chains, may_write=may_write_chains(request), **around
    )


def may_write_chains(request: HttpRequest) -> bool:
    return roles.allows(request.user, "chains:write")


@require_login
def new_chain(request: HttpRequest) -> HttpResponse:
    """`?from=` names a chain that is copied."""
    copied = request.GET.get("from", "")[:64]
    title = _("Copy of %(name)s") % {"name": copied} if copied else _("New chain")
    return render_shell_page(request, "chain_new.html", title, copied=copied, may_write=may_write_chains(request))


@require_login
def chain_page(request: HttpRequest, name: str) -> HttpResponse:
    """The editor of one chain; read-only for people who may not change it. `?owner=`: see `find_by_name`."""
    if not SLUG.regex.match(name):
        raise Http404("There is no chain with that name.")
    chain = find_by_name(request, Chain.objects.select_related("published", "owner", "team"), name)
    # The page's script saves by name, which would mean another row: this one is only read.
    if getattr(chain, "address", ""):
        return namesake(request, chain)
    user = request.user
    may_write = may_write_chains(request)
    runs = Run.objects.visible_to(user).filter(chain_version__chain=chain).order_by("-pk")
    fields = fields_by_tab(chain)["settings"]
    # The form of the input stands at the start of the steps.
    start_fields = [field for field in fields if field.name == "input_schema"]
    return render_shell_page(
        request,
        "chain.html",
        chain.name,
        chain=chain,
        fields=[field for field in fields if field not in start_fields],
        start_fields=start_fields,
        may_edit=chain.may_edit(user) and may_write,
        may_write=may_write,
        may_use=chain.may_use(user) and roles.allows(user, "runs:write"),
        teams=find_teams(user, chain),
        origin=f"{request.scheme}://{request.get_host()}",
        blank=json.dumps(blank(chain.input_schema)),
        runs=list(runs.select_related("agent", "chain_version__chain")[:8]),
    )


def blank(schema: dict[str, Any] | None) -> Any:
    """An empty value of the schema's shape, as a starting point."""
    properties = schema.get("properties") if schema else None
    values = {}
    for name, about in (properties or {}).items():
        empty_value = BLANK.get(str(about.get("type")), "")
        values[name] = about.get("default", empty_value)
    return values
