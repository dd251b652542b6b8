"""Resources and prompts of MCP servers: tools that list them and read one, granted like the server's own tools.

Their names are those of the protocol's methods (`resources/read`), which no tool of a server has: of two
offers with one name the server's own comes first, and ours is refused.
"""

from time import monotonic

from agents.models import Tool
from agents.tools import RetryTool
from connectors.content import clean_untrusted_text
from connectors.mcp.exceptions import McpFailed, McpRefused
from connectors.mcp.session import JSON, Session
from connectors.remote import Offered

PROBE_S = 5.0
# Characters of one text in a list.
LONGEST = 2000
# Entries of one page that are shown.
MOST = 1000
# Failures after which the server's tools cannot be used either.
UNUSABLE = frozenset(["cancelled", "server_unreachable", "private_address", "busy"])
CURSOR = {"cursor": {"type": "string", "description": "`next_cursor` of the page before; leave it out for the first."}}
PAGE = {"type": "object", "properties": CURSOR, "additionalProperties": False}
ONE_RESOURCE = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "The address, from a list or made from a template."}},
    "required": ["uri"],
    "additionalProperties": False,
}
ONE_PROMPT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name, from the list of prompts."},
        "arguments": {
            "type": "object",
            "description": "The values of its arguments, as texts.",
            "additionalProperties": {"type": "string"},
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}
LISTS = {  # method → the field with its rows
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
READS = {"resources/read": ("resources/list", "resources/templates/list"), "prompts/get": ("prompts/list",)}
SCHEMAS: dict[str, dict[str, JSON]] = {
    **dict.fromkeys(LISTS, PAGE),
    "resources/read": ONE_RESOURCE,
    "prompts/get": ONE_PROMPT,
}
DESCRIPTIONS = {
    "resources/list": "List what this server offers to read (files, records, pages), each with its address (uri).",
    "resources/templates/list": "List the templates of addresses (RFC 6570) from which more can be read here.",
    "resources/read": "Read one resource of this server by its address (uri).",
    "prompts/list": "List the prompts (ready instructions) that this server offers, with their arguments.",
    "prompts/get": "Get one prompt of this server by its name, filled in with the arguments.",
}
TEXTS = ("uri", "uriTemplate", "name", "title", "description", "mimeType")


def find_offers(session: Session, lists: dict[str, bool], until: float, *, again: bool) -> list[Offered]:
    """The tools for what the server has. `lists` keeps which lists have rows; `again`: look once more."""
    for method in LISTS:
        kind = method.partition("/")[0]
        if not isinstance(session.capabilities.get(kind), dict):
            lists[method] = False
        elif again or method not in lists:
            lists[method] = has_rows(session, method, until, before=lists.get(method, True))
    offers = [build_reading_offer(method) for method in LISTS if lists[method]]
    for method, needed in READS.items():
        if any(lists[one] for one in needed):
            offers.append(build_reading_offer(method))
    return offers


def has_rows(session: Session, method: str, until: float, *, before: bool) -> bool:
    """Whether the list has a row; as before if the server does not say. Its tools can be used all the same."""
    try:
        page = session.request(method, {}, min(until, monotonic() + PROBE_S))
    except McpRefused:
        return False
    except McpFailed as error:
        if error.code in UNUSABLE or not session.transport.is_open:
            raise
        return before
    rows = page.get(LISTS[method])
    return isinstance(rows, list) and bool(rows)


def build_reading_offer(method: str) -> Offered:
    return Offered(
        name=method,
        description=DESCRIPTIONS[method],
        input_schema=SCHEMAS[method],
        output_schema=None,
        effect=Tool.Effect.READ_OUT,  # its arguments go to somebody else's server
        details={"method": method},
    )


def check_reading_params(method: str, arguments: dict[str, JSON]) -> dict[str, JSON]:
    """Raises RetryTool for a value that the method does not have."""
    for name in ("cursor", "uri", "name"):
        if name in arguments and not isinstance(arguments[name], str):
            raise RetryTool(f"“{name}” must be a text.")
    names = SCHEMAS[method]["properties"]
    return {name: arguments[name] for name in names if name in arguments}


def build_reading_answer(method: str, result: dict[str, JSON]) -> dict[str, JSON]:
    """What the server sent, in the form of a tool's answer."""
    if method in LISTS:
        return {"structuredContent": build_listing_page(method, result)}
    if method == "resources/read":
        contents = list_answer_rows(result, "contents")
        return {"content": [{"type": "resource", "resource": one} for one in contents]}
    content: list[JSON] = []
    if isinstance(result.get("description"), str):
        content.append({"type": "text", "text": result["description"][:LONGEST]})
    for message in list_answer_rows(result, "messages"):
        content.append({"type": "text", "text": f"{str(message.get('role', ''))[:40]}:"})
        parts = message.get("content")
        if not isinstance(parts, list):
            parts = [parts]
        content += parts
    return {"content": content}


def build_listing_page(method: str, result: dict[str, JSON]) -> dict[str, JSON]:
    field = LISTS[method]
    rows = list_answer_rows(result, field)
    page: dict[str, JSON] = {field: [clean_listed_row(row) for row in rows[:MOST]]}
    if len(rows) > MOST:
        page["left_out"] = len(rows) - MOST
    if isinstance(result.get("nextCursor"), str) and result["nextCursor"]:
        page["next_cursor"] = result["nextCursor"]
    return page


def clean_listed_row(row: dict[str, JSON]) -> dict[str, JSON]:
    cleaned: dict[str, JSON] = {}
    for name in TEXTS:
        text = row.get(name)
        if text and isinstance(text, str):
            cleaned[name] = clean_listed_text(text)
    if isinstance(row.get("size"), int):
        cleaned["size"] = row["size"]
    if arguments := list_answer_rows(row, "arguments", is_optional=True):
        cleaned["arguments"] = [clean_prompt_argument(one) for one in arguments[:MOST]]
    return cleaned


def clean_prompt_argument(row: dict[str, JSON]) -> dict[str, JSON]:
    # An argument has no arguments of its own; a server that sends some must not lead in circles.
    cleaned = clean_listed_row({**row, "arguments": None})
    cleaned["required"] = row.get("required") is True
    return cleaned


def clean_listed_text(text: str) -> str:
    return clean_untrusted_text(text)[:LONGEST]


def list_answer_rows(result: dict[str, JSON], field: str, *, is_optional: bool = False) -> list[dict[str, JSON]]:
    rows = result.get(field)
    if not isinstance(rows, list):
        if is_optional:
            return []
        raise McpFailed("bad_answer", f"The server's answer has no list “{field}”.")
    return [row for row in rows if isinstance(row, dict)]
