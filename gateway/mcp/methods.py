"""What each method answers, other than calls."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from typing import Any

from connectors.mcp.messages import LEGACY, MODERN

from . import cards, catalogue, documents, prompts, protocol, resources, sessions, subscriptions, tasks
from .protocol import APPS, INSTRUCTIONS, METHOD, PARAMS, SUPPORTED, TASKS, Fault, RpcRequest

JSON = Any
PAGE = 100
# Values of a completion.
MOST = 100
# Hints of 2026-07-28. The lists differ from person to person.
FRESH = {"ttlMs": 60_000, "cacheScope": "private"}


def capabilities(version: str) -> dict[str, JSON]:
    """What this server offers in this version."""
    offered: dict[str, JSON] = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "completions": {},
        "logging": {},
    }
    if version == MODERN:
        offered["extensions"] = {TASKS: {}, APPS: {}}
    if version == LEGACY:
        offered["extensions"] = {APPS: {}}
        offered["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    return offered


def answer_mcp_request(rpc: RpcRequest) -> dict[str, JSON]:
    """Raises Fault for a method that this version does not have."""
    methods = MODERN_METHODS if rpc.is_modern else LEGACY_METHODS
    method = methods.get(rpc.method)
    if method is None:
        raise Fault(METHOD, "Method not found", status=404 if rpc.is_modern else 200)
    result = method(rpc)
    if rpc.is_modern and rpc.method in CACHED:
        return {**FRESH, **result}
    return result


def discover(rpc: RpcRequest) -> dict[str, JSON]:
    return {"supportedVersions": SUPPORTED, "capabilities": capabilities(MODERN), "instructions": INSTRUCTIONS}


def ping(rpc: RpcRequest) -> dict[str, JSON]:
    return {}


def set_log_level(rpc: RpcRequest) -> dict[str, JSON]:
    """From which level on this session wants log messages."""
    level = protocol.level(rpc.params.get("level"))
    if rpc.session:
        sessions.set_log_level(rpc.session, level)
    return {}


def list_tools(rpc: RpcRequest) -> dict[str, JSON]:
    """`tools/list`: what the key may call, page by page."""
    entries, next_cursor = cut_mcp_page(rpc, catalogue.find_tool_entries(rpc))
    card = cards.LINKED if rpc.has_apps else None
    tools = []
    # The card's own tool stands on the first page.
    if card and rpc.params.get("cursor") is None:
        tools.append(cards.describe_card_tool())
    for name, (kind, _) in entries.items():
        if kind == documents.KIND:
            tools.append(documents.describe_document_tool(name))
    targets = catalogue.load_targets(entries)
    tools += catalogue.serialize_mcp_tools(targets, rpc.version, card)
    return {"tools": tools, **next_cursor}


def list_prompts(rpc: RpcRequest) -> dict[str, JSON]:
    entries, next_cursor = cut_mcp_page(rpc, prompts.find_prompt_entries(rpc))
    targets = catalogue.load_targets(entries)
    return {"prompts": prompts.serialize_mcp_prompts(targets), **next_cursor}


def list_resources(rpc: RpcRequest) -> dict[str, JSON]:
    rows, last = resources.build_resource_page(rpc, parse_mcp_cursor(rpc), PAGE)
    return {"resources": rows, **build_next_cursor(last)}


def list_templates(rpc: RpcRequest) -> dict[str, JSON]:
    parse_mcp_cursor(rpc)
    return {"resourceTemplates": resources.templates(rpc)}


def answer_mcp_completion(rpc: RpcRequest) -> dict[str, JSON]:
    """Suggestions for an argument of a prompt or of a template."""
    reference = rpc.object("ref")
    argument = rpc.object("argument")
    name = argument.get("name")
    begun = argument.get("value")
    if not isinstance(name, str) or not isinstance(begun, str):
        raise Fault(PARAMS, "“argument” must have a name and a value.")
    if reference.get("type") == "ref/prompt":
        prompt_name = str(reference.get("name"))
        values = prompts.list_argument_values(rpc, prompt_name, name, begun)
    elif reference.get("type") == "ref/resource":
        uri = str(reference.get("uri"))
        values = resources.list_resource_values(rpc, uri, name, begun)
    else:
        raise Fault(PARAMS, "“ref” must be a prompt or a resource.")
    count = len(values)
    return {"completion": {"values": values[:MOST], "total": count, "hasMore": count > MOST}}


def list_tasks(rpc: RpcRequest) -> dict[str, JSON]:
    after = parse_mcp_cursor(rpc)
    if after is not None and resources.parse_resource_id(after) is None:
        raise Fault(PARAMS, "Invalid cursor")
    rows, last = tasks.list_mcp_tasks(rpc, after)
    return {"tasks": rows, **build_next_cursor(last)}


def cut_mcp_page(rpc: RpcRequest, rows: dict[str, JSON]) -> tuple[dict[str, JSON], dict[str, str]]:
    """The rows after the cursor, and the next cursor. Raises Fault."""
    after = parse_mcp_cursor(rpc)
    names = [name for name in rows if after is None or name > after]
    page_names = names[:PAGE]
    page = {name: rows[name] for name in page_names}
    last = page_names[-1] if len(names) > PAGE else None
    return page, build_next_cursor(last)


def build_next_cursor(last: str | None) -> dict[str, str]:
    """The field that says where the next page begins; none on the last page."""
    if not last:
        return {}
    return {"nextCursor": urlsafe_b64encode(last.encode()).decode()}


def parse_mcp_cursor(rpc: RpcRequest) -> str | None:
    """The name behind which a page begins; None for the first page. Raises Fault."""
    text = rpc.params.get("cursor")
    if text is None:
        return None
    try:
        cursor = urlsafe_b64decode(text).decode()
    except (TypeError, NotBase64, ValueError):
        raise Fault(PARAMS, "Invalid cursor")
    if not cursor or "\0" in cursor:
        raise Fault(PARAMS, "Invalid cursor")
    return cursor


SHARED: dict[str, Callable[[RpcRequest], dict[str, JSON]]] = {
    "tools/list": list_tools,
    "prompts/list": list_prompts,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": resources.read_mcp_resource,
    "completion/complete": answer_mcp_completion,
    "tasks/get": tasks.get,
    "tasks/cancel": tasks.cancel_mcp_task,
}
MODERN_METHODS = {**SHARED, "server/discover": discover, "tasks/update": tasks.update}
LEGACY_METHODS = {
    **SHARED,
    "ping": ping,
    "tasks/list": list_tasks,
    "logging/setLevel": set_log_level,
    "resources/subscribe": subscriptions.subscribe,
    "resources/unsubscribe": subscriptions.unsubscribe,
}
CACHED = frozenset(
    ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"]
)
