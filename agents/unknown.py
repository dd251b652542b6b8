"""Names that nothing reads: found at every depth, and refused with the one that was probably meant, or with all
that there are.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, get_args

from .exceptions import Invalid

MOST = 20  # unknown names that an answer lists
ALIKE = 0.75  # “desciption” resembles “description”, and “tool” resembles “tools”


def unknown_names(
    names: Iterable[str], what: str, choices: Iterable[str], *, sent: Collection[str] = ()
) -> dict[str, str]:
    """The first twenty of these names, each with a message. One of the `choices` that was
    `sent` as well is not what another name was meant to be.
    """
    choices = sorted(choices)
    free = [name for name in choices if name not in sent]
    return {name: no_such(what, name, free, choices) for name in islice(names, MOST)}


def no_such(what: str, name: str, free: list[str], choices: list[str]) -> str:
    if near := get_close_matches(name[:100], free, n=1, cutoff=ALIKE):
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
    for number, value in enumerate(values if isinstance(values, list) else ()):
        extras |= extra_in(value, f"{place}.{number}.")
        if len(extras) >= MOST:
            break
    return extras


def extra_in_model(model: Any, value: Any, place: str = "") -> dict[str, str]:
    """The same for an object that a pydantic model reads, and for the objects within it."""
    return {**extra(value, model.model_fields, place), **extra_within(model, value, place)}


def extra_within(model: Any, value: Any, place: str = "") -> dict[str, str]:
    extras: dict[str, str] = {}
    for name, field in model.model_fields.items():
        part = value.get(name) if isinstance(value, Mapping) else None
        for kind in (field.annotation, *get_args(field.annotation)) if part else ():
            if hasattr(kind, "model_fields"):
                extras |= extra_in_model(kind, part, f"{place}{name}.")
    return extras


def refuse(extras: Mapping[str, str], message: str, what: str = "field") -> None:
    """Raises Invalid with one detail per unknown name."""
    if extras:
        code = f"unknown_{what}"
        details = [{"field": place, "code": code, "message": why} for place, why in extras.items()]
        raise Invalid(f"{message} {details[0]['field']}: {details[0]['message']}", code=code, details=details)
