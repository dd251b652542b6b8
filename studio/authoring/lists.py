"""Lists of agents and chains, with search, a filter by owner, and archived ones apart; and the pages of
rows whose name means another row.
"""

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode

from agents.models import Agent

from ..base import by_name, render_shell_page

WHOSE = {"": "All", "own": "Mine", "team": "Shared with a team", "site": "The site's"}


def list_page(request: HttpRequest, rows: QuerySet[Any]) -> tuple[list[Any], dict[str, Any]]:
    """One page of rows, ordered by name, and what the template needs. `?search=` covers names and
    descriptions, `?whose=own|team|site`, `?archived=1`.
    """
    archived = bool(request.GET.get("archived"))
    whose = read_whose(request)
    matching = filter_by_owner(rows.filter(enabled=not archived), whose, request.user)
    page_rows, around = by_name(request, matching)
    # The filters again, for the links to the next page.
    filters = {"whose": whose, "archived": "1" if archived else "", "search": around["search"]}
    query = urlencode({name: value for name, value in filters.items() if value})
    return page_rows, {"whose": whose, "kinds": WHOSE.items(), "archived": archived, "query": query, **around}


def read_whose(request: HttpRequest) -> str:
    """The filter by owner; an unknown one shows all."""
    whose = request.GET.get("whose", "")
    return whose if whose in WHOSE else ""


def filter_by_owner(rows: QuerySet[Any], whose: str, user: Any) -> QuerySet[Any]:
    if whose == "own":
        return rows.filter(owner=user)
    if whose == "team":
        return rows.filter(team__isnull=False)
    if whose == "site":
        return rows.filter(owner=None, team=None)
    return rows


def namesake(request: HttpRequest, row: Any, **context: Any) -> HttpResponse:
    """The page of a row whose name means another one: to read, with what makes it usable."""
    return render_shell_page(request, "namesake.html", row.name, row=row, is_agent=isinstance(row, Agent), **context)
