"""Rows with one name: each has an address of its own, with `?owner=` for those that the name does not mean."""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from agents.exceptions import Conflict
from agents.models.team import the_one


def mark_namesakes(model: Any, rows: list[Any], user: Any) -> None:
    """Sets `address` on each row, which a link to its page ends with: empty, or `?owner=…` for a row whose name
    means another one to this person.
    """
    # A name always means one's own row, so only others' rows need a query.
    others = [row for row in rows if row.owner_id != user.pk]
    namesakes = find_namesakes(model, {row.name for row in others}, user)
    for row in rows:
        row.address = ""
    for row in others:
        if not is_first(namesakes.get(row.name, []), row, user):
            row.address = find_address(row)


def find_namesakes(model: Any, names: set[str], user: Any) -> dict[str, list[Any]]:
    """All rows with these names that the person can see, by name; the nearest to them first."""
    if not names:
        return {}
    visible_rows = model.objects.visible_to(user).filter(name__in=names)
    namesakes: dict[str, list[Any]] = {}
    for row in visible_rows.nearest_first(user).only("name", "owner", "team"):
        namesakes.setdefault(row.name, []).append(row)
    return namesakes


def is_first(namesakes: list[Any], row: Any, user: Any) -> bool:
    """Whether the name means this row. It means none if two teams share one each."""
    if not namesakes:
        return True
    try:
        return the_one(namesakes, user).pk == row.pk
    except Conflict:
        return False


def find_address(row: Any) -> str:
    """`?owner=alice`; without a name for a row of the site."""
    owner = row.owner.get_username() if row.owner else ""
    return "?" + urlencode({"owner": owner})


def find_by_name(request: HttpRequest, rows: Any, name: str) -> Any:
    """The row that the name means to this person, or with `?owner=` the one of this owner; empty: the site's.
    Raises NotFound, Conflict.
    """
    owner = request.GET.get("owner")
    row = rows.named(request.user, name[:64], owner)
    if owner is None:
        return row
    return mark_namesake(request.user, row)


def mark_namesake(user: Any, row: Any) -> Any:
    """The row with its `address`, see `mark_namesakes`, and with `has_meaning`: whether its name means a row at all."""
    meant = find_meant_row(user, row)
    row.address = "" if meant == row else find_address(row)
    row.has_meaning = meant is not None
    return row


def find_meant_row(user: Any, row: Any) -> Any:
    """The row that the name of this one means; None if two teams share one each."""
    try:
        return type(row).objects.named(user, row.name)
    except Conflict:
        return None


def address(route: str, row: Any, *args: Any, **query: Any) -> str:
    """The address of a page of a row, with the rest of its path and its query. It keeps to the row that was opened."""
    url = reverse(route, args=[row.name, *args]) + getattr(row, "address", "")
    if not query:
        return url
    separator = "&" if "?" in url else "?"
    return url + separator + urlencode(query)
