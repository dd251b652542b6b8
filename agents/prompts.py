"""Prompt templates: an agent that declares variables has its system prompt rendered with their values.

`variables` is name → JSON Schema, with `default` for a variable that may be left out. Templates are
parsed and rendered in a child with limits (plumbing/untrusted/jinja.py); texts are kept by their content.
"""

import re
from threading import Lock
from typing import Any

from cachetools import LRUCache, cached

from plumbing.untrusted import parse_in_child

from .exceptions import Invalid
from .schema import check_schema, hash_json, validate
from .unknown import unknown_names

JSON = Any
Variables = dict[str, dict[str, JSON]]
MOST = 50
NAME = re.compile(r"[a-z_][a-z0-9_]{0,63}\Z")
TOO_MUCH = "It needs more than 1 s of CPU time or 256 MB of memory."


def detail(field: str, code: str, message: str) -> dict[str, str]:
    return {"field": field, "code": code, "message": message}


# -- declarations -----------------------------------------------------------------------------------------------------


def check_variables(variables: JSON) -> list[dict[str, str]]:
    """The problems of these declarations; `field` names the variable."""
    if not isinstance(variables, dict) or len(variables) > MOST:
        return [detail("variables", "invalid", f"Send an object: at most {MOST} names, each with a JSON Schema.")]
    problems: list[dict[str, str]] = []
    for name, schema in variables.items():
        problems += problems_of_one(name, schema)
    return problems


def problems_of_one(name: str, schema: JSON) -> list[dict[str, str]]:
    place = f"variables.{name[:64]}"
    if not NAME.match(name):
        return [detail(place, "invalid_name", "A name has small letters, digits and “_”, and begins with no digit.")]
    problems = []
    for problem in check_schema(schema):
        message = f"{problem['path'] or '/'}: {problem['message']}"
        problems.append(detail(place, problem["code"], message))
    if problems or "default" not in schema:
        return problems
    violations = validate(schema, schema["default"])
    if violations:
        return [detail(f"{place}.default", "schema", violations[0]["message"])]
    return []


def check_template(template: str, variables: Variables) -> list[dict[str, str]]:
    """The problems of the system prompt as a template of these variables."""
    if not variables:
        return []
    try:
        used = parse_in_child.run_reader_task("template_names", template)
    except parse_in_child.Refused as refused:
        return [detail("system_prompt", refused.code, f"Line {refused.line}: {refused}")]
    except parse_in_child.TooMuch:
        return [detail("system_prompt", "too_much_work", f"The template cannot be read. {TOO_MUCH}")]
    undeclared = [name for name in used if name not in variables]
    unknown = unknown_names(undeclared, "variable", variables)
    return [detail("system_prompt", "unknown_variable", f"“{name[:64]}”: {why}") for name, why in unknown.items()]


def make_schema(variables: Variables) -> dict[str, JSON]:
    """The JSON Schema of an object with the values."""
    needed = [name for name, schema in variables.items() if "default" not in schema]
    return {"type": "object", "properties": variables, "required": needed, "additionalProperties": False}


# -- values -----------------------------------------------------------------------------------------------------------


def fill_values(variables: Variables, arguments: dict[str, JSON]) -> tuple[dict[str, JSON], list[dict[str, str]]]:
    """(the values with the defaults, one problem for each value that is missing, unknown or of the wrong
    type).
    """
    undeclared = [name for name in arguments if name not in variables]
    unknown = unknown_names(undeclared, "variable", variables, sent=arguments)
    problems = [detail(f"variables.{name[:64]}", "unknown_variable", why) for name, why in unknown.items()]
    values: dict[str, JSON] = {}
    for name, schema in variables.items():
        place = f"variables.{name}"
        if name in arguments:
            values[name] = arguments[name]
            for violation in validate(schema, arguments[name]):
                # A JSON pointer becomes a path with dots: /city/name → .city.name
                path = violation["path"].replace("/", ".")
                problems.append(detail(place + path, "schema", violation["message"]))
        elif "default" in schema:
            values[name] = schema["default"]
        else:
            problems.append(detail(place, "missing_variable", "This variable is required."))
    return values, problems


def bytes_of_text(text: str) -> int:
    return 500 + 4 * len(text)


@cached(LRUCache(16 << 20, bytes_of_text), key=lambda template, values: hash_json([template, values]), lock=Lock())
def render_prompt(template: str, values: dict[str, JSON]) -> str:
    """The template with these values. Raises Invalid."""
    try:
        text: str = parse_in_child.run_reader_task("render", template, values)
    except (parse_in_child.Refused, parse_in_child.TooMuch) as error:
        why = str(error) if isinstance(error, parse_in_child.Refused) else TOO_MUCH
        details = [detail("system_prompt", "prompt_failed", why)]
        raise Invalid(f"The system prompt cannot be rendered: {why}", code="prompt_failed", details=details)
    return text
