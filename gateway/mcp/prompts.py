"""Prompts: the instructions of agents with variables, filled in; a call of each chain with an input; and the
messages that a function or a chain writes whose input schema has `"x-mcp-prompt": true`.
"""

from math import isfinite
from typing import Any

from agents import prompts
from agents.exceptions import Invalid
from gateway.reading import render_result_value

from . import catalogue, content, documents, functions, results
from .catalogue import AGENT, CHAIN, FUNCTION, Target
from .protocol import INTERNAL, PARAMS, Fault, RpcRequest, build_rpc_response

JSON = Any
MARK = "x-mcp-prompt"
TASK = {"name": "task", "description": "What to do.", "required": True}


def find_prompt_entries(rpc: RpcRequest, only: str | None = None) -> dict[str, tuple[str, int]]:
    """Agents, chains and marked functions; which of the others have a prompt is known when they are loaded."""
    entries = {}
    function_ids = []
    for name, (kind, pk) in catalogue.find_tool_entries(rpc, only).items():
        if kind == documents.KIND:
            continue
        entries[name] = (kind, pk)
        if kind == FUNCTION:
            function_ids.append(pk)
    if not function_ids:
        return entries
    marked_ids = set(catalogue.load_schema_marks(function_ids, MARK))
    return {name: (kind, pk) for name, (kind, pk) in entries.items() if kind != FUNCTION or pk in marked_ids}


def is_written(target: Target) -> bool:
    """Whether the target itself writes the messages."""
    if target.kind == AGENT:
        return False
    schema = target.spec.input_schema or {}
    return schema.get(MARK) is True


def is_run(target: Target) -> bool:
    return target.kind == CHAIN and is_written(target)


def get_argument_schemas(target: Target) -> dict[str, JSON]:
    """The schemas of its arguments by name; empty for one without a prompt."""
    if target.kind == AGENT:
        return target.spec.variables
    schema = target.spec.input_schema or {}
    return schema.get("properties") or {}


def serialize_mcp_prompts(targets: list[Target]) -> list[dict[str, JSON]]:
    """Of those that have a prompt."""
    return [serialize_mcp_prompt(target) for target in targets if has_prompt(target)]


def has_prompt(target: Target) -> bool:
    if is_written(target):
        return True
    return target.kind != FUNCTION and bool(get_argument_schemas(target))


def serialize_mcp_prompt(target: Target) -> dict[str, JSON]:
    """One prompt of `prompts/list`. An agent that has no argument of that name also takes the task in words."""
    fields = get_argument_schemas(target)
    if target.kind == AGENT:
        required = [name for name, schema in fields.items() if "default" not in schema]
    else:
        required = (target.spec.input_schema or {}).get("required") or []
    arguments = []
    for name, schema in fields.items():
        description = normalize_argument_schema(schema).get("description", "")
        arguments.append({"name": name, "description": str(description), "required": name in required})
    if target.kind == AGENT and "task" not in fields:
        arguments.append(TASK)
    about = target.spec.description or target.row.name
    return {"name": target.name, "title": target.row.name, "description": about, "arguments": arguments}


def load_prompt_target(rpc: RpcRequest, name: str) -> Target:
    """Raises Fault."""
    entries = find_prompt_entries(rpc, name.rpartition(".")[2])
    # Only the prompt with this name is loaded, not all of them.
    if name in entries:
        target = catalogue.load_targets({name: entries[name]})[0]
        if has_prompt(target):
            return target
    raise Fault(PARAMS, f"Unknown prompt: {name[:200]}")


def parse_prompt_arguments(rpc: RpcRequest, target: Target) -> dict[str, JSON]:
    """The values that the texts of the arguments stand for. Raises Fault."""
    arguments = rpc.object("arguments")
    if not all(isinstance(value, str) for value in arguments.values()):
        raise Fault(PARAMS, "The arguments of a prompt are texts.")
    for rule in serialize_mcp_prompt(target)["arguments"]:
        if rule["required"] and rule["name"] not in arguments:
            raise Fault(PARAMS, f"The argument “{rule['name']}” is missing.")
    fields = get_argument_schemas(target)
    values = {}
    for name, text in arguments.items():
        if name in fields:
            schema = normalize_argument_schema(fields[name])
            values[name] = convert_argument_text(schema, text)
    return values


def get(rpc: RpcRequest, target: Target, values: dict[str, JSON]) -> dict[str, JSON]:
    """The prompt with these values. Raises Fault, MusterError."""
    if target.kind == FUNCTION:
        value = functions.run_marked_function(rpc.user, target, values)
    elif target.kind == AGENT:
        value = render_agent_prompt(target, values, rpc.object("arguments"))
    else:
        value = render_call_prompt(target, values)
    return of_value(target, value)


def build_chain_prompt(rpc: RpcRequest, target: Target, end: dict[str, JSON]) -> dict[str, JSON]:
    """The answer to prompts/get by the event run.finished of a chain."""
    if end["status"] in results.WELL:
        return build_rpc_response(rpc, of_value(target, end.get("output")))
    error = end.get("error") or {}
    message = error.get("message") or f"The run ended as {end['status']}."
    return Fault(INTERNAL, message).as_json(rpc.id)


def of_value(target: Target, value: JSON) -> dict[str, JSON]:
    """Messages in MCP's own form as they are; anything else as the text of one."""
    messages = content.in_their_form(value, "messages")
    if not messages:
        text = content.text(render_result_value(value))
        messages = [{"role": "user", "content": text}]
    return {"description": target.spec.description, "messages": messages}


def render_agent_prompt(target: Target, values: dict[str, JSON], texts: dict[str, str]) -> str:
    values, problems = prompts.fill_values(target.spec.variables, values)
    if problems:
        raise Fault(PARAMS, f"{problems[0]['field']}: {problems[0]['message']}")
    try:
        instructions = prompts.render_prompt(target.spec.system_prompt, values)
    except Invalid as error:
        raise Fault(PARAMS, str(error))
    return "\n\n".join(filter(None, [instructions, texts.get("task")]))


def render_call_prompt(target: Target, values: dict[str, JSON]) -> str:
    arguments = values if target.spec.takes_arguments else {"input": values}
    arguments_text = render_result_value(arguments)
    return f"Call the tool “{target.name}” with the arguments {arguments_text} and tell me its result."


def normalize_argument_schema(schema: JSON) -> dict[str, JSON]:
    return schema if isinstance(schema, dict) else {}


def convert_argument_text(schema: dict[str, JSON], text: str) -> JSON:
    """The value that a text stands for: arguments of prompts are always texts."""
    kind = schema.get("type", "string")
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    try:
        convert = {"integer": int, "number": float}.get(kind, str)
        value = convert(text)
    except (ValueError, TypeError):  # a TypeError is for a type that is a list
        return text
    # JSON has no number for it.
    if isinstance(value, float) and not isfinite(value):
        return text
    return value


def list_argument_values(rpc: RpcRequest, name: str, argument: str, begun: str) -> list[str]:
    """The values that the schema of an argument names. Raises Fault."""
    target = load_prompt_target(rpc, name)
    return list_suggested_values(target, argument, begun)


def list_suggested_values(target: Target, argument: str, begun: str) -> list[str]:
    schema = normalize_argument_schema(get_argument_schemas(target).get(argument))
    values = schema.get("enum")
    if not values and schema.get("type") == "boolean":
        values = ["true", "false"]
    texts = [str(value) for value in values or ()]
    return [text for text in texts if text.lower().startswith(begun.lower())]
