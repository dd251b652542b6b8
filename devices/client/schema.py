"""A tool's JSON Schema from its code: types from annotations, descriptions from the docstring's
Args section.
"""

import inspect
import re
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

JSON = Any
SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean"}
ARGUMENT = re.compile(r"^\s{4,}(\w+): (.+(?:\n\s{8,}.+)*)", re.MULTILINE)


def input_schema(function: Callable[..., JSON]) -> dict[str, JSON]:
    """The schema of a tool's arguments. Its first parameter is the store or workspace, which is not
    an argument.
    """
    hints = get_type_hints(function, include_extras=True)
    _, _, section = (inspect.getdoc(function) or "").partition("Args:")
    described = dict(ARGUMENT.findall(section))
    properties = {}
    required = []
    _, *parameters = inspect.signature(function).parameters.items()
    for name, parameter in parameters:
        properties[name] = type_schema(hints[name])
        if name in described:
            properties[name]["description"] = " ".join(described[name].split())
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        elif parameter.default is not None:
            properties[name]["default"] = parameter.default
    schema: dict[str, JSON] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return schema


def description(function: Callable[..., JSON]) -> str:
    """The docstring above its Args section."""
    text, _, _ = (inspect.getdoc(function) or "").partition("Args:")
    return " ".join(text.split())


def type_schema(kind: Any) -> dict[str, JSON]:
    """Raises TypeError for an annotation without a JSON type."""
    if kind in SIMPLE:
        return {"type": SIMPLE[kind]}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        # The annotation is a JSON Schema format.
        return {**type_schema(arguments[0]), "format": arguments[1]}
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": type_schema(arguments[0])}
    if origin in (Union, types.UnionType) and len(arguments) == 2 and arguments[1] is type(None):
        inner = type_schema(arguments[0])
        if "enum" in inner:
            inner["enum"] = [*inner["enum"], None]
        return inner | {"type": [inner["type"], "null"]}
    raise TypeError(f"no JSON type for {kind}")


def problems(schema: dict[str, JSON], arguments: dict[str, JSON]) -> list[str]:
    """Problems of the arguments by one of our own tools' schemas (the part of JSON Schema generated
    above).
    """
    return [message for _, message in faults(schema, arguments)]


def faults(schema: dict[str, JSON], arguments: dict[str, JSON]) -> list[tuple[str, str]]:
    """The same with the name of the argument."""
    properties = schema["properties"]
    missing = [(name, f"“{name}” is missing") for name in schema.get("required", ()) if name not in arguments]
    unknown = []
    wrong = []
    for name, value in arguments.items():
        if name not in properties:
            unknown.append((name, f"there is no argument “{name}”"))
        elif not fits(properties[name], value):
            wrong.append((name, f"“{name}” must be {describe_type(properties[name])}"))
    return missing + unknown + wrong


def describe_type(schema: dict[str, JSON]) -> str:
    if "enum" in schema:
        words = ", ".join(map(str, schema["enum"]))
        return f"one of {words}"
    return " or ".join(list_types(schema))


def list_types(schema: dict[str, JSON]) -> list[str]:
    kinds = schema["type"]
    if not isinstance(kinds, list):
        kinds = [kinds]
    return kinds


def fits(schema: dict[str, JSON], value: JSON) -> bool:
    if "enum" in schema and value not in schema["enum"]:
        return False
    if not any(is_kind(kind, value) for kind in list_types(schema)):
        return False
    if not isinstance(value, list):
        return True
    return all(fits(schema["items"], item) for item in value)


def is_kind(kind: str, value: JSON) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    shapes: dict[str, Any] = {
        "string": str,
        "integer": int,
        "number": int | float,
        "array": list,
        "null": types.NoneType,
        "boolean": bool,
    }
    return isinstance(value, shapes[kind])
