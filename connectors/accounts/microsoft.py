"""What Outlook and Teams share: the pages and delta links of Microsoft Graph."""

from collections.abc import Iterator
from typing import Any

from agents.tools import RetryTool
from connectors.content import clean, cut, from_html
from connectors.exceptions import failed

from .http import Api

JSON = Any
MAX_PAGES = 400
STABLE = {
    "Prefer": 'IdType="ImmutableId"'
}  # otherwise an id changes when a message is moved, and the message would arrive twice


def pages(api: Api, path: str, params: dict[str, JSON] | None = None, **more: Any) -> Iterator[dict[str, JSON]]:
    """Each page of a list, to its end. Raises CursorExpired (410), ToolFailed."""
    for _ in range(MAX_PAGES):
        page = api.get(path, params=params, headers=STABLE, **more)
        if not isinstance(page.get("value"), list):
            raise failed("bad_answer", f"{api.title} sent a page without its rows.")
        yield page
        path, params = page.get("@odata.nextLink", ""), None
        if not path:
            return
    raise failed("too_large", f"{api.title} sent more than {MAX_PAGES} pages.")


def rows(api: Api, path: str, params: dict[str, JSON] | None = None) -> Iterator[dict[str, JSON]]:
    for page in pages(api, path, params):
        yield from page["value"]


def is_removed(row: dict[str, JSON]) -> bool:
    return "@removed" in row or bool(row.get("deletedDateTime"))


def text_of(body: dict[str, JSON] | None, max_chars: int) -> tuple[str, int, bool]:
    """The readable text of Graph's body, cut with a mark."""
    content = str((body or {}).get("content") or "")
    is_html = str((body or {}).get("contentType", "")).lower() == "html"
    return cut(from_html(content) if is_html else clean(content), max_chars)


def id_in(row: JSON) -> str:
    return str(row.get("id") or "") if isinstance(row, dict) else ""


def raw_fields(row: JSON) -> dict[str, JSON]:
    """What stands for the headers of a message that cannot be read."""
    return {name: value for name, value in row.items() if name not in ("id", "body")} if isinstance(row, dict) else {}


def segment(word: str) -> str:
    """An id as one path segment. Raises RetryTool for an invalid one."""
    if not word or word.strip(".") == "" or not all(letter.isalnum() or letter in "-_=:@.+!" for letter in word):
        raise RetryTool(f"“{word[:60]}” is not a valid id.")
    return word.replace("+", "%2B")


def person(entry: dict[str, JSON] | None) -> str:
    """Graph's emailAddress as a header shows it."""
    address = (entry or {}).get("emailAddress") or {}
    name, mail = clean(str(address.get("name") or "")), str(address.get("address") or "")
    return f"{name} <{mail}>" if name and mail and name != mail else mail or name
