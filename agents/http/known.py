"""Refuses query parameters that do not exist, and bodies where none is read: both would be lost
without a word, and an ignored filter would return everything.
"""

from collections.abc import Mapping
from typing import Any

from agents.unknown import extra, refuse, unknown_names

from .filters import Filters, Search, find_orderings

PAGING = frozenset(["limit", "cursor", "fields"])
ANYTHING = None  # another service sends the request and adds parameters of its own


def check_known(request: Any, view: Any) -> None:
    """A view lists the parameters that it reads by action or method, `parameters = {"calls": ("state",)}`, in
    addition to the filters, search and orderings of its list; in `bodiless` the actions or methods that read no
    body; and in `bodies` those that read one although they are a DELETE.
    """
    if request.query_params and (parameters := known_parameters(request, view)) is not ANYTHING:
        names = (name for name in request.query_params if name not in parameters)
        messages = unknown_names(names, "parameter", parameters, sent=request.query_params)
        refuse(messages, "The address has a parameter that does not exist.", "parameter")
    if reads_no_body(request, view) and request.data:
        refuse(extra(request.data, ()) or {"body": "It must be empty."}, "This request takes no body.")


def find_for_action(table: Mapping[str, Any], request: Any, view: Any) -> list[Any]:
    return [table[word] for word in (getattr(view, "action", None), request.method.lower()) if word in table]


def known_parameters(request: Any, view: Any) -> set[str] | None:
    listed = find_for_action(getattr(view, "parameters", {}), request, view)
    if ANYTHING in listed:
        return ANYTHING
    parameters = {name for names in listed for name in names}
    if getattr(view, "by_owner", False) and "name" in view.kwargs:
        parameters.add("owner")
    action = getattr(view, "action", None)
    if request.method in ("GET", "HEAD") and action and action != "retrieve" and is_paged(view, action):
        parameters |= PAGING
    if action == "list":
        filters = Filters().get_filterset_class(view, view.queryset)
        parameters |= set(filters.base_filters) if filters else set()
        parameters |= {"search"} if Search().get_search_fields(view, request) else set()
        parameters |= {"ordering"} if find_orderings(view) else set()
    return parameters


def is_paged(view: Any, action: str) -> bool:
    own = getattr(getattr(view, action), "kwargs", {})  # of the decorator `@action`
    return own.get("pagination_class", view.pagination_class) is not None


def reads_no_body(request: Any, view: Any) -> bool:
    return (
        (request.method == "DELETE" and "delete" not in getattr(view, "bodies", ()))
        or getattr(view, "action", None) in getattr(view, "bodiless", ())
        or (not hasattr(view, "action") and request.method.lower() in getattr(view, "bodiless", ()))
    )
