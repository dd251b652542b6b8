"""Names that nothing reads: found at every depth, and refused with the one that was probably meant, or with all
that there are.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, get_args

from .exceptions import Invalid

# Unknown names that an answer lists.
MOST = 20
# “desciption” resembles “description”, and “tool” resembles “tools”.
ALIKE = 0.75


def unknown_names(
    names: Iterable[str], what: str, choices: Iterable[str], *, sent: Collection[str] = ()
) -> dict[str, str]:
    """The first twenty of these names, each with a message. One of the `choices` that was
    `sent` as well is not what another name was meant to be.
    """
    choices = sorted(choices)
    not_sent = [name for name in choices if name not in sent]
    return {name: no_such(what, name, not_sent, choices) for name in islice(names, MOST)}


def no_such(what: str, name: str, free: list[str], choices: list[str]) -> str:
    """The message; `free` are the names that may have been meant."""
    near = get_close_matches(name[:100], free, n=1, cutoff=ALIKE)
    if near:
        return f"There is no {what} with this name; did you mean “{near[0]}”?"
    names = f"The names are {', '.join(choices)}." if choices else f"It takes no {what}s."
    return f"There is no {what} with this name. {names}"


def extra(value: Any, fields: Collection[str], place: str = "") -> dict[str, str]:
    """The unknown names of one object: where each is, and a message."""
    if not isinstance(value, Mapping) or value.keys() <= set(fields):
        return {}
    others = (str(name) for name in value if name not in fields)
    messages = unknown_names(others, "field", fields, sent=value.keys())
    return {f"{place}{name[:100]}": message for name, message in messages.items()}


def extra_in_each(values: Any, extra_in: Callable[[Any, str], dict[str, str]], place: str) -> dict[str, str]:
    """The same for the objects of a list, until an answer lists enough."""
    extras: dict[str, str] = {}
    if not isinstance(values, list):
        return extras
    for number, value in enumerate(values):
        extras |= extra_in(value, f"{place}.{number}.")
        if len(extras) >= MOST:
            break
    return extras


def extra_in_model(model: Any, value: Any, place: str = "") -> dict[str, str]:
    """The same for an object that a pydantic model reads, and for the objects within it."""
    here = extra(value, model.model_fields, place)
    within = find_unknown_fields(model, value, place)
    return {**here, **within}


def find_unknown_fields(model: Any, value: Any, place: str = "") -> dict[str, str]:
    """The unknown names of the objects in the fields of a model's object, not its own."""
    extras: dict[str, str] = {}
    if not isinstance(value, Mapping):
        return extras
    for name, field in model.model_fields.items():
        part = value.get(name)
        if not part:
            continue
        # The type itself, or the members of a union such as `RepeatUntil | None`.
        for kind in (field.annotation, *get_args(field.annotation)):
            if hasattr(kind, "model_fields"):
                extras |= extra_in_model(kind, part, f"{place}{name}.")
    return extras


def refuse_unknown_fields(extras: Mapping[str, str], message: str, what: str = "field") -> None:
    """Raises Invalid with one detail per unknown name."""
    if not extras:
        return
    code = f"unknown_{what}"
    details = [{"field": place, "code": code, "message": why} for place, why in extras.items()]
    first = details[0]
    raise Invalid(f"{message} {first['field']}: {first['message']}", code=code, details=details)
