"""dataclasses.fields and replace, which read what the class declares and never what an instance says of itself."""

from __future__ import annotations

import dataclasses
from typing import Any

from .guards import guarded_getattr
from .names import RISKY_ATTRIBUTES

_DECLARED = "__dataclass_fields__"


def patch_dataclass_fields() -> None:
    """asdict, astuple and pprint use these as well."""
    import pprint

    dataclasses.fields = fields
    dataclasses.replace = replace
    for module in (dataclasses, pprint):
        vars(module)["getattr"] = read_field


def read_field(subject: Any, name: str, *default: Any) -> Any:
    """A field may be called `format`, and an object may pass the access on to a text."""
    # A class may have `mro` as the default of a field.
    is_risky = name in RISKY_ATTRIBUTES and name != "mro"
    return (guarded_getattr if is_risky else getattr)(subject, name, *default)


def fields(class_or_instance: Any) -> tuple[Any, ...]:
    kind = class_or_instance if issubclass(type(class_or_instance), type) else type(class_or_instance)
    return tuple(one for one in _declared(kind) if one._field_type is dataclasses._FIELD)  # type: ignore[attr-defined]


def replace(obj: Any, /, **changes: Any) -> Any:
    kind = type(obj)
    for field in _declared(kind):
        if field._field_type is dataclasses._FIELD_CLASSVAR:  # type: ignore[attr-defined]
            continue
        if not field.init:
            if field.name in changes:
                raise ValueError(
                    f"field {field.name} is declared with init=False, it cannot be specified with replace()"
                )
        elif field.name not in changes:
            is_argument = field._field_type is dataclasses._FIELD_INITVAR  # type: ignore[attr-defined]
            if is_argument and field.default is dataclasses.MISSING:
                raise ValueError(f"InitVar {field.name!r} must be specified with replace()")
            changes[field.name] = read_field(obj, field.name)
    return kind(**changes)


def _declared(kind: type) -> list[Any]:
    declared = getattr(kind, _DECLARED, None)
    if type(declared) is not dict or not all(isinstance(one, dataclasses.Field) for one in declared.values()):
        raise TypeError("must be called with a dataclass type or instance")
    return list(declared.values())
