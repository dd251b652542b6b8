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
    others = {row.name for row in rows if row.owner_id != user.pk}  # a name always means one's own row
    same = model.objects.visible_to(user).filter(name__in=others).nearest_first(user).only("name", "owner", "team")
    namesakes: dict[str, list[Any]] = {}
    for row in same if others else []:
        namesakes.setdefault(row.name, []).append(row)
    for row in rows:
        is_own = row.owner_id == user.pk
        row.address = "" if is_own or is_first(namesakes.get(row.name, []), row, user) else find_address(row)


def is_first(namesakes: list[Any], row: Any, user: Any) -> bool:
    try:
        return not namesakes or the_one(namesakes, user).pk == row.pk
    except Conflict:
        return False


def find_address(row: Any) -> str:
    return "?" + urlencode({"owner": row.owner.get_username() if row.owner else ""})


def find_by_name(request: HttpRequest, rows: Any, name: str) -> Any:
    """The row that the name means to this person, or with `?owner=` the one of this owner; empty: the site's.
    Raises NotFound, Conflict.
    """
    row = rows.named(request.user, name[:64], request.GET.get("owner"))
    return mark_namesake(request.user, row) if "owner" in request.GET else row


def mark_namesake(user: Any, row: Any) -> Any:
    """The row with its `address`, see `mark_namesakes`, and with `has_meaning`: whether its name means a row at all."""
    meant = find_meant_row(user, row)
    row.address, row.has_meaning = "" if meant == row else find_address(row), meant is not None
    return row


def find_meant_row(user: Any, row: Any) -> Any:
    """The row that the name of this one means; None if two teams share one each."""
    try:
        return type(row).objects.named(user, row.name)
    except Conflict:
        return None


def address(route: str, row: Any, *args: Any, **query: Any) -> str:
    """The address of a page of a row, with the rest of its path and its query. It keeps to the row that was opened."""
    owner, more = getattr(row, "address", ""), urlencode(query)
    return reverse(route, args=[row.name, *args]) + owner + (more and f"{'&' if owner else '?'}{more}")
