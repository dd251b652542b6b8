"""The function workbench: a list, and one function with its editor, try-out, versions, tests,
executions, replay.
"""

from collections import Counter
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents import roles
from agents.models import Agent, Tool, ToolGrant
from agents.models.team import SLUG
from functions.models import StoredFunction

from ..base import by_name, render_shell_page, require_login
from ..owner_urls import find_by_name
from ..start import EXAMPLE
from .agents import find_teams
from .lists import WHOSE, filter_by_owner, read_whose

SLIM = ("source", "input_schema", "output_schema", "published__source", "published__spec")
# What else a draft is checked and tried with; the page has no field for them.
OTHERS = ("safe_mode", "is_pure", "cache_ttl", "max_concurrency", "reuse", "min_isolation")


@require_login
def function_list(request: HttpRequest) -> HttpResponse:
    """Ordered by name; the search covers names and descriptions. Filters: see `list_page`."""
    rows = StoredFunction.objects.visible_to(request.user).select_related("published", "owner", "team").defer(*SLIM)
    whose = read_whose(request)
    functions, around = by_name(request, filter_by_owner(rows, whose, request.user))
    users = count_agents_using(functions, request.user)
    for function in functions:
        function.used_by = describe_users(users[function.pk])
    filters = {"whose": whose, "search": around["search"]}
    around["query"] = urlencode({name: value for name, value in filters.items() if value})
    return render_shell_page(
        request,
        "functions.html",
        _("Functions"),
        functions=functions,
        may_write=may_write_functions(request),
        whose=whose,
        kinds=WHOSE.items(),
        **around,
    )


def count_agents_using(functions: list[StoredFunction], user: Any) -> Counter[int]:
    """By the id of the function: how many agents that this person sees may call it."""
    ids = [function.pk for function in functions]
    agents = Agent.objects.visible_to(user).filter(enabled=True)
    grants = ToolGrant.objects.filter(agent__in=agents, tool__kind=Tool.Kind.FUNCTION, tool__source__function__in=ids)
    # An agent has one grant for each tool.
    return Counter(source["function"] for source in grants.values_list("tool__source", flat=True))


def describe_users(count: int) -> str:
    return ngettext("%(count)s agent", "%(count)s agents", count) % {"count": count} if count else ""


def may_write_functions(request: HttpRequest) -> bool:
    return roles.allows(request.user, "functions:write")


@require_login
def new_function(request: HttpRequest) -> HttpResponse:
    roles.require(request.user, "functions:write")
    return render_shell_page(
        request, "workbench.html", _("New function"), function=None, source=EXAMPLE, may_edit=True,
        settings=StoredFunction(), effects=Tool.Effect.choices, teams=find_teams(request.user),
    )  # fmt: skip


@require_login
def function_page(request: HttpRequest, name: str) -> HttpResponse:
    """The workbench of one function. `?owner=`: see `find_by_name`."""
    if not SLUG.regex.match(name):
        raise Http404("There is no function with that name.")
    function = find_by_name(request, StoredFunction.objects.select_related("published", "owner", "team"), name)
    others = {option: getattr(function, option) for option in OTHERS}
    return render_shell_page(
        request,
        "workbench.html",
        function.name,
        function=function,
        source=function.source,
        may_edit=function.may_edit(request.user),
        tests=function.tests.count(),
        settings=function,
        effects=Tool.Effect.choices,
        teams=find_teams(request.user, function),
        others=others,
        may_give=roles.allows(request.user, "agents:write"),
    )
