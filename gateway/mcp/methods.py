"""What each method answers, other than calls."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from itertools import islice
from typing import Any

from connectors.mcp.messages import LEGACY, MODERN

from . import cards, catalogue, documents, prompts, protocol, resources, sessions, subscriptions, tasks
from .protocol import APPS, INSTRUCTIONS, METHOD, PARAMS, SUPPORTED, TASKS, Asked, Fault

JSON = Any
PAGE = 100
MOST = 100  # values of a completion
FRESH = {"ttlMs": 60_000, "cacheScope": "private"}  # hints of 2026-07-28; the lists differ from person to person


def capabilities(version: str) -> dict[str, JSON]:
    offered: dict[str, JSON] = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "completions": {},
        "logging": {},
    }
    if version == MODERN:
        return {**offered, "extensions": {TASKS: {}, APPS: {}}}
    if version == LEGACY:
        offered["extensions"] = {APPS: {}}
        offered["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    return offered


def answer(asked: Asked) -> dict[str, JSON]:
    """Raises Fault for a method that this version does not have."""
    method = (MODERN_METHODS if asked.is_modern else LEGACY_METHODS).get(asked.method)
    if method is None:
        raise Fault(METHOD, "Method not found", status=404 if asked.is_modern else 200)
    result = method(asked)
    return {**FRESH, **result} if asked.is_modern and asked.method in CACHED else result


def discover(asked: Asked) -> dict[str, JSON]:
    return {"supportedVersions": SUPPORTED, "capabilities": capabilities(MODERN), "instructions": INSTRUCTIONS}


def ping(asked: Asked) -> dict[str, JSON]:
    return {}


def set_log_level(asked: Asked) -> dict[str, JSON]:
    """From which level on this session wants log messages."""
    level = protocol.level(asked.params.get("level"))
    if asked.session:
        sessions.set_log_level(asked.session, level)
    return {}


def list_tools(asked: Asked) -> dict[str, JSON]:
    names, more = page_of(asked, catalogue.names(asked))
    card = cards.LINKED if asked.has_apps else None
    own = [cards.described()] if card and asked.params.get("cursor") is None else []
    own += [documents.listed(name) for name, (kind, _) in names.items() if kind == documents.KIND]
    return {"tools": own + catalogue.listed(catalogue.loaded(names), asked.version, card), **more}


def list_prompts(asked: Asked) -> dict[str, JSON]:
    names, more = page_of(asked, prompts.names(asked))
    return {"prompts": prompts.listed(catalogue.loaded(names)), **more}


def list_resources(asked: Asked) -> dict[str, JSON]:
    rows, last = resources.page(asked, cursor_in(asked), PAGE)
    return {"resources": rows, **({"nextCursor": cursor_of(last)} if last else {})}


def list_templates(asked: Asked) -> dict[str, JSON]:
    cursor_in(asked)
    return {"resourceTemplates": resources.templates(asked)}


def complete(asked: Asked) -> dict[str, JSON]:
    """Suggestions for an argument of a prompt or of a template."""
    reference, argument = asked.object("ref"), asked.object("argument")
    name, begun = argument.get("name"), argument.get("value")
    if not isinstance(name, str) or not isinstance(begun, str):
        raise Fault(PARAMS, "“argument” must have a name and a value.")
    if reference.get("type") == "ref/prompt":
        found = prompts.completed(asked, str(reference.get("name")), name, begun)
    elif reference.get("type") == "ref/resource":
        found = resources.completed(asked, str(reference.get("uri")), name, begun)
    else:
        raise Fault(PARAMS, "“ref” must be a prompt or a resource.")
    return {"completion": {"values": found[:MOST], "total": len(found), "hasMore": len(found) > MOST}}


def list_tasks(asked: Asked) -> dict[str, JSON]:
    after = cursor_in(asked)
    if after is not None and resources.id_in(after) is None:
        raise Fault(PARAMS, "Invalid cursor")
    rows, last = tasks.listed(asked, after)
    return {"tasks": rows, **({"nextCursor": cursor_of(last)} if last else {})}


def page_of(asked: Asked, rows: dict[str, JSON]) -> tuple[dict[str, JSON], dict[str, str]]:
    """The rows after the cursor, and the next cursor. Raises Fault."""
    after = cursor_in(asked)
    rest = {name: row for name, row in rows.items() if after is None or name > after}
    page = dict(islice(rest.items(), PAGE))
    return page, {"nextCursor": cursor_of(next(reversed(page)))} if len(rest) > PAGE else {}


def cursor_of(last: str) -> str:
    return urlsafe_b64encode(last.encode()).decode()


def cursor_in(asked: Asked) -> str | None:
    given = asked.params.get("cursor")
    if given is None:
        return None
    try:
        found = urlsafe_b64decode(given).decode()
    except (TypeError, NotBase64, ValueError):
        raise Fault(PARAMS, "Invalid cursor")
    if not found or "\0" in found:
        raise Fault(PARAMS, "Invalid cursor")
    return found


SHARED: dict[str, Callable[[Asked], dict[str, JSON]]] = {
    "tools/list": list_tools,
    "prompts/list": list_prompts,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": resources.read,
    "completion/complete": complete,
    "tasks/get": tasks.get,
    "tasks/cancel": tasks.cancel,
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
