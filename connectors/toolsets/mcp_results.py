"""Makes tool results of the answers of MCP servers, and collects what they send during a call."""

import json
from typing import Any

from agents import schema
from agents.tools import ToolResult, ToolSpec
from connectors.content import clean_untrusted_text, cut_marked_text

TEXT_LIMIT = 200_000
MESSAGE_LIMIT = 4000
JSON = Any


def build_mcp_result(
    answer: dict[str, JSON], tool: ToolSpec, printed: str = "", stored: dict[str, JSON] | None = None
) -> ToolResult:
    """The answer of an MCP server as an untrusted result; long text is cut and marked.

    `stored` is the same answer with names of stored files in place of their content. Structured content wins
    over text, unless it is null. If the tool has an output schema, the value that the server sent must match it.
    """
    if stored is None:
        stored = answer
    text = render_answer_content(stored.get("content"))
    structured = stored.get("structuredContent")
    if answer.get("isError"):
        message = text
        if not text and structured is not None:
            message = json.dumps(structured)
        error = {"code": "tool_error", "message": message[:MESSAGE_LIMIT] or "the tool failed"}
        return ToolResult(ok=False, error=error, printed=printed, untrusted=True)
    if tool.output_schema is None:
        value = structured
        if structured is None:
            value = text
        return ToolResult(ok=True, value=value, printed=printed, untrusted=True)
    # The answer as it was sent is checked: the stored one has names of files in place of their content.
    problems = schema.validate(tool.output_schema, read_output_value(answer))
    if problems:
        return ToolResult(ok=False, error=build_mismatch_error(problems), printed=printed, untrusted=True)
    return ToolResult(ok=True, value=read_output_value(stored), printed=printed, untrusted=True)


def read_output_value(answer: dict[str, JSON]) -> JSON:
    """The value of a tool with an output schema: its structured content, or else its text, as JSON if it is any."""
    structured = answer.get("structuredContent")
    if structured is not None:
        return structured
    text = render_answer_content(answer.get("content"))
    return parse_json_text(text)


def render_answer_content(parts: JSON) -> str:
    """The parts of an answer as one text, which is cut and marked if it is long."""
    if not isinstance(parts, list):
        return ""
    texts = map(render_answer_part, parts)
    text = "\n".join(filter(None, texts))
    cut_text, _, _ = cut_marked_text(text, TEXT_LIMIT)
    return cut_text


def build_mismatch_error(problems: list[dict[str, JSON]]) -> dict[str, JSON]:
    first = problems[0]
    where = first["path"] or "/"
    what = first["message"]
    message = f"The call was made, but its result does not match the tool's output schema: {where}: {what}"
    return {"code": "output_invalid", "message": message}


def parse_json_text(text: str) -> JSON:
    """The text parsed as JSON, or as it is: servers may send structured content as text only."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def render_answer_part(part: JSON) -> str:
    """A content part as text. Links are written out; images and sounds are named with their size."""
    if not isinstance(part, dict):
        return ""
    if part.get("type") == "text":
        return clean_untrusted_text(str(part.get("text", "")))
    resource = part.get("resource")
    if not isinstance(resource, dict):
        resource = {}
    if isinstance(resource.get("text"), str):
        return clean_untrusted_text(resource["text"])
    if part.get("type") == "resource_link":
        words = [str(part[name]) for name in ("title", "name", "uri", "description") if part.get(name)]
        return clean_untrusted_text(f"[resource: {' · '.join(words)}]")[:MESSAGE_LIMIT]
    kind = str(part.get("mimeType") or resource.get("mimeType") or part.get("type") or "content")[:100]
    base64_text = part.get("data") or resource.get("blob")
    if not isinstance(base64_text, str):
        return clean_untrusted_text(f"[left out: {kind}]")
    # Four characters of Base64 stand for three bytes.
    size = len(base64_text) * 3 // 4
    return clean_untrusted_text(f"[left out: {kind}, {size} bytes]")


class Heard:
    """What a server says during a call: progress as events, log messages as printed lines."""

    # The most events, and the most printed lines, of one call.
    LINES = 200
    # The least time between two events.
    PAUSE_S = 1.0
    # Characters of one event's message or of one printed line.
    LINE_LIMIT = 500

    def __init__(self, emit: Any, clock: Any) -> None:
        self._emit = emit
        self._clock = clock
        self._next_event_at = 0.0
        self._event_count = 0
        self._lines: list[str] = []

    def progress(self, params: dict[str, JSON]) -> None:
        """Emit the progress as an event, at most once a second and `LINES` times in a call."""
        now = self._clock()
        if self._emit is None or now < self._next_event_at or self._event_count >= self.LINES:
            return
        self._next_event_at = now + self.PAUSE_S
        self._event_count += 1
        message = clean_untrusted_text(str(params.get("message") or ""))
        fraction = find_progress_fraction(params)
        self._emit("tool.progress", {"message": message[: self.LINE_LIMIT], "fraction": fraction})

    def log(self, params: dict[str, JSON]) -> None:
        """Keep a log message as a printed line; those beyond `LINES` are dropped."""
        if len(self._lines) >= self.LINES:
            return
        text = params.get("data")
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False)
        level = str(params.get("level", "info"))[:20]
        line = clean_untrusted_text(text)[: self.LINE_LIMIT]
        self._lines.append(f"{level}: {line}")

    @property
    def printed(self) -> str:
        return "\n".join(self._lines)


def find_progress_fraction(params: dict[str, JSON]) -> float | None:
    """How much is done, from 0 to 1; None if the server does not say how much there is in total."""
    done = params.get("progress")
    total = params.get("total")
    if not is_json_number(done) or not is_json_number(total) or total <= 0:
        return None
    return min(1.0, max(0.0, done / total))


def is_json_number(value: JSON) -> bool:
    # For Python, true and false are numbers.
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float))
