"""What each method answers, other than calls."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from itertools import islice
from typing import Any

from . import catalogue
from .protocol import INSTRUCTIONS, METHOD, MODERN, PARAMS, SUPPORTED, Asked, Fault

JSON = Any
PAGE = 100
FRESH = {"ttlMs": 60_000, "cacheScope": "private"}  # hints of 2026-07-28; the lists differ from person to person


def capabilities(version: str) -> dict[str, JSON]:
    return {"tools": {}}


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


def list_tools(asked: Asked) -> dict[str, JSON]:
    names, more = page_of(asked, catalogue.names(asked))
    return {"tools": catalogue.listed(catalogue.loaded(names)), **more}


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


SHARED: dict[str, Callable[[Asked], dict[str, JSON]]] = {"tools/list": list_tools}
MODERN_METHODS = {**SHARED, "server/discover": discover}
LEGACY_METHODS = {**SHARED, "ping": ping}
CACHED = frozenset(
    ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"]
)
