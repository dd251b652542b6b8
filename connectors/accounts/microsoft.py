"""What Outlook and Teams share: the pages and delta links of Microsoft Graph."""

from collections.abc import Iterator
from typing import Any

from agents.tools import RetryTool
from connectors.content import clean_untrusted_text, write_person
from connectors.exceptions import build_tool_failure

from .http import Api, find_rows
from .letters import Tree

JSON = Any
MAX_PAGES = 400
# Otherwise an id changes when a message is moved, and the message would arrive twice.
STABLE = {"Prefer": 'IdType="ImmutableId"'}


def pages(api: Api, path: str, params: dict[str, JSON] | None = None, **more: Any) -> Iterator[dict[str, JSON]]:
    """Each page of a list, until one comes again. Raises CursorExpired (410), ToolFailed."""
    seen = {path}
    for _ in range(MAX_PAGES):
        page = api.get(path, params=params, headers=STABLE, **more)
        if not isinstance(page.get("value"), list):
            raise build_tool_failure("bad_answer", f"{api.title} sent a page without its rows.")
        yield page
        # A link to the next page contains all parameters.
        path, params = next_link(page), None
        if not path or path in seen:
            return
        seen.add(path)


def next_link(page: dict[str, JSON]) -> str:
    return get_page_link(page, "@odata.nextLink")


def get_page_link(page: dict[str, JSON], name: str) -> str:
    link = page.get(name)
    if not isinstance(link, str):
        return ""
    return link


class Links:
    """Where the next scan goes on: behind the last page, or at the first one that was not read."""

    def __init__(self) -> None:
        self.delta = self.following = ""
        self.asked: set[str] = set()

    def note(self, page: dict[str, JSON]) -> None:
        self.asked.add(self.following)
        self.delta = get_page_link(page, "@odata.deltaLink") or self.delta
        self.following = next_link(page)

    @property
    def cursor(self) -> str:
        """Empty if the pages repeat themselves: then the next scan goes by date."""
        if self.delta:
            return self.delta
        if self.following in self.asked:
            return ""
        return self.following


def iterate_graph_rows(api: Api, path: str, params: dict[str, JSON] | None = None) -> Iterator[dict[str, JSON]]:
    """The objects with an id of all pages."""
    for page in pages(api, path, params):
        yield from find_rows(page, "value")


def is_removed(row: dict[str, JSON]) -> bool:
    return "@removed" in row or bool(row.get("deletedDateTime"))


def describe_body(body: JSON) -> Tree:
    """Graph's body for the reader of mails."""
    kind = "text/plain"
    if get_row_text(body, "contentType").lower() == "html":
        kind = "text/html"
    return {"kind": kind, "text": get_row_text(body, "content")}


def get_row_text(row: JSON, name: str) -> str:
    value = row.get(name) if isinstance(row, dict) else None
    if not isinstance(value, str):
        return ""
    return clean_untrusted_text(value)


def list_row_objects(row: dict[str, JSON], name: str) -> list[dict[str, JSON]]:
    return find_rows(row, name, key="")


def sort_rows(rows: list[dict[str, JSON]], name: str) -> list[dict[str, JSON]]:
    return sorted(rows, key=lambda row: get_row_text(row, name))


def get_graph_id(row: JSON) -> str:
    if not isinstance(row, dict):
        return ""
    return str(row.get("id") or "")


def raw_fields(row: JSON) -> dict[str, JSON]:
    """What stands for the headers of a message that cannot be read."""
    if not isinstance(row, dict):
        return {}
    return {name: value for name, value in row.items() if name not in ("id", "body")}


def segment(word: str) -> str:
    """An id as one path segment. Raises RetryTool for an invalid one."""
    is_plain = all(letter.isalnum() or letter in "-_=:@.+!" for letter in word)
    # Dots alone would lead to another path.
    if not word.strip(".") or not is_plain:
        raise RetryTool(f"“{word[:60]}” is not a valid id.")
    return word.replace("+", "%2B")


def format_graph_person(entry: JSON) -> str:
    """Graph's emailAddress as a header shows it."""
    address = entry.get("emailAddress") if isinstance(entry, dict) else None
    words = get_row_text(address, "name").split()
    name = " ".join(words)
    mail = get_row_text(address, "address")
    if not mail:
        return name
    return write_person(name, mail)
