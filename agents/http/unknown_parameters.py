"""Refuses query parameters that do not exist, and bodies where none is read: both would be lost
without a word, and an ignored filter would return everything.
"""

from collections.abc import Mapping
from typing import Any

from agents.unknown import extra, refuse_unknown_fields, unknown_names

from .filters import Filters, Search, find_orderings

PAGING = frozenset(["limit", "cursor", "fields"])
# Another service sends the request and adds parameters of its own.
ANYTHING = None


def check_known(request: Any, view: Any) -> None:
    """A view lists the parameters that it reads by action or method, `parameters = {"calls": ("state",)}`, in
    addition to the filters, search and orderings of its list; in `bodiless` the actions or methods that read no
    body; and in `bodies` those that read one although they are a DELETE.
    """
    if request.query_params:
        check_parameters(request, view)
    if reads_no_body(request, view) and request.data:
        refuse_unknown_fields(extra(request.data, ()) or {"body": "It must be empty."}, "This request takes no body.")


def check_parameters(request: Any, view: Any) -> None:
    parameters = known_parameters(request, view)
    if parameters is ANYTHING:
        return
    names = [name for name in request.query_params if name not in parameters]
    messages = unknown_names(names, "parameter", parameters, sent=request.query_params)
    refuse_unknown_fields(messages, "The address has a parameter that does not exist.", "parameter")


def find_for_action(table: Mapping[str, Any], request: Any, view: Any) -> list[Any]:
    """What the table says for the request's action and for its method."""
    words = (getattr(view, "action", None), request.method.lower())
    return [table[word] for word in words if word in table]


def known_parameters(request: Any, view: Any) -> set[str] | None:
    listed = find_for_action(getattr(view, "parameters", {}), request, view)
    if ANYTHING in listed:
        return ANYTHING
    parameters: set[str] = set()
    for names in listed:
        parameters.update(names)
    if getattr(view, "by_owner", False) and "name" in view.kwargs:
        parameters.add("owner")
    action = getattr(view, "action", None)
    may_be_list = request.method in ("GET", "HEAD") and action and action != "retrieve"
    if may_be_list and is_paged(view, action):
        parameters |= PAGING
    if action == "list":
        parameters |= list_parameters(request, view)
    return parameters


def list_parameters(request: Any, view: Any) -> set[str]:
    """Its filters, and search and ordering if it has them."""
    parameters: set[str] = set()
    filters = Filters().get_filterset_class(view, view.queryset)
    if filters:
        parameters.update(filters.base_filters)
    if Search().get_search_fields(view, request):
        parameters.add("search")
    if find_orderings(view):
        parameters.add("ordering")
    return parameters


def is_paged(view: Any, action: str) -> bool:
    # Of the decorator `@action`.
    own = getattr(getattr(view, action), "kwargs", {})
    return own.get("pagination_class", view.pagination_class) is not None


def reads_no_body(request: Any, view: Any) -> bool:
    bodiless = getattr(view, "bodiless", ())
    if request.method == "DELETE" and "delete" not in getattr(view, "bodies", ()):
        return True
    # A view with actions names them; one without names its methods.
    if hasattr(view, "action"):
        return view.action in bodiless
    return request.method.lower() in bodiless
