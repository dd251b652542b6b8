"""Prompts: the instructions of agents with variables, filled in, and a call of each chain with an input."""

from typing import Any

from agents import prompts
from agents.exceptions import Invalid
from gateway.reading import as_text

from . import catalogue
from .catalogue import AGENT, CHAIN, Target
from .protocol import PARAMS, Asked, Fault

JSON = Any
TASK = {"name": "task", "description": "What to do.", "required": True}


def names(asked: Asked, only: str | None = None) -> dict[str, tuple[str, int]]:
    """Agents and chains; which of them have a prompt is known when they are loaded."""
    return {name: key for name, key in catalogue.names(asked, only).items() if key[0] in (AGENT, CHAIN)}


def fields_of(target: Target) -> dict[str, JSON]:
    """The schemas of its arguments by name; empty for one without a prompt."""
    if target.kind == AGENT:
        return target.spec.variables
    return (target.spec.input_schema or {}).get("properties") or {}


def listed(targets: list[Target]) -> list[dict[str, JSON]]:
    return [described(one) for one in targets if fields_of(one)]


def described(target: Target) -> dict[str, JSON]:
    fields = fields_of(target)
    if target.kind == AGENT:
        needed = [name for name, schema in fields.items() if "default" not in schema]
    else:
        needed = (target.spec.input_schema or {}).get("required") or []
    arguments = [
        {"name": name, "description": str(rule_of(schema).get("description", "")), "required": name in needed}
        for name, schema in fields.items()
    ]
    arguments += [TASK] if target.kind == AGENT and "task" not in fields else []
    about = target.spec.description or target.row.name
    return {"name": target.name, "title": target.row.name, "description": about, "arguments": arguments}


def found(asked: Asked, name: str) -> Target:
    """Raises Fault."""
    chosen = names(asked, name.rpartition(".")[2])
    target = catalogue.loaded({name: chosen[name]})[0] if name in chosen else None
    if target is None or not fields_of(target):
        raise Fault(PARAMS, f"Unknown prompt: {name[:200]}")
    return target


def get(asked: Asked) -> dict[str, JSON]:
    """The prompt with these arguments. Raises Fault."""
    target, given = found(asked, asked.text("name")), asked.object("arguments")
    if not all(isinstance(value, str) for value in given.values()):
        raise Fault(PARAMS, "The arguments of a prompt are texts.")
    wanted = described(target)["arguments"]
    if missing := [one["name"] for one in wanted if one["required"] and one["name"] not in given]:
        raise Fault(PARAMS, f"The argument “{missing[0]}” is missing.")
    fields = fields_of(target)
    values = {name: typed(rule_of(fields[name]), text) for name, text in given.items() if name in fields}
    text = filled(target, values, given) if target.kind == AGENT else called(target, values)
    return {
        "description": target.spec.description,
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    }


def filled(target: Target, values: dict[str, JSON], given: dict[str, str]) -> str:
    values, problems = prompts.filled(target.spec.variables, values)
    if problems:
        raise Fault(PARAMS, f"{problems[0]['field']}: {problems[0]['message']}")
    try:
        instructions = prompts.rendered(target.spec.system_prompt, values)
    except Invalid as error:
        raise Fault(PARAMS, str(error))
    return "\n\n".join(filter(None, [instructions, given.get("task")]))


def called(target: Target, values: dict[str, JSON]) -> str:
    arguments = values if target.spec.takes_arguments else {"input": values}
    return f"Call the tool “{target.name}” with the arguments {as_text(arguments)} and tell me its result."


def rule_of(schema: JSON) -> dict[str, JSON]:
    return schema if isinstance(schema, dict) else {}


def typed(schema: dict[str, JSON], text: str) -> JSON:
    """The value that a text stands for: arguments of prompts are always texts."""
    kind = schema.get("type", "string")
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    try:
        return {"integer": int, "number": float}.get(kind, str)(text)
    except ValueError:
        return text


def completed(asked: Asked, name: str, argument: str, begun: str) -> list[str]:
    """The values that the schema of an argument names. Raises Fault."""
    schema = rule_of(fields_of(found(asked, name)).get(argument))
    values = schema.get("enum") or (["true", "false"] if schema.get("type") == "boolean" else [])
    return [str(value) for value in values if str(value).lower().startswith(begun.lower())]
