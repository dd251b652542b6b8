"""The answer of an MCP server as the result of a tool call."""

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
    """The answer as untrusted content; long text is cut and marked. `stored` is the answer with its files stored.

    Structured content wins over text, unless it is null. If the tool has an output schema, the value that the
    server sent must match it.
    """
    stored = answer if stored is None else stored
    shown = render_answer_content(stored.get("content"))
    structured = stored.get("structuredContent")
    if answer.get("isError"):
        message = shown
        if not shown and structured is not None:
            message = json.dumps(structured)
        error = {"code": "tool_error", "message": message[:MESSAGE_LIMIT] or "the tool failed"}
        return ToolResult(ok=False, error=error, printed=printed, untrusted=True)
    if tool.output_schema is None:
        value = shown if structured is None else structured
        return ToolResult(ok=True, value=value, printed=printed, untrusted=True)
    if problems := schema.validate(tool.output_schema, read_output_value(answer)):
        return ToolResult(ok=False, error=mismatch(problems), printed=printed, untrusted=True)
    return ToolResult(ok=True, value=read_output_value(stored), printed=printed, untrusted=True)


def read_output_value(answer: dict[str, JSON]) -> JSON:
    """What a tool with an output schema answers."""
    structured = answer.get("structuredContent")
    return parse_json_text(render_answer_content(answer.get("content"))) if structured is None else structured


def render_answer_content(parts: JSON) -> str:
    """The parts of an answer as one text, which is cut and marked if it is long."""
    if not isinstance(parts, list):
        return ""
    texts = [render_answer_part(part) for part in parts]
    return cut_marked_text("\n".join(filter(None, texts)), TEXT_LIMIT)[0]


def mismatch(problems: list[dict[str, JSON]]) -> dict[str, JSON]:
    where, what = problems[0]["path"] or "/", problems[0]["message"]
    return {
        "code": "output_invalid",
        "message": f"The call was made, but its result does not match the tool's output schema: {where}: {what}",
    }


def parse_json_text(text: str) -> JSON:
    """Servers may send structured content as text only."""
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
    resource = part["resource"] if isinstance(part.get("resource"), dict) else {}
    if isinstance(resource.get("text"), str):
        return clean_untrusted_text(resource["text"])
    if part.get("type") == "resource_link":
        named = [str(part.get(name)) for name in ("title", "name", "uri", "description") if part.get(name)]
        return clean_untrusted_text(f"[resource: {' · '.join(named)}]")[:MESSAGE_LIMIT]
    kind = str(part.get("mimeType") or resource.get("mimeType") or part.get("type") or "content")[:100]
    data = part.get("data") or resource.get("blob")
    size = f", {len(data) * 3 // 4} bytes" if isinstance(data, str) else ""
    return clean_untrusted_text(f"[left out: {kind}{size}]")


class Heard:
    """What a server says during a call: progress as events, log messages as printed lines."""

    LINES = 200
    PAUSE_S = 1.0
    LINE_LIMIT = 500

    def __init__(self, emit: Any, clock: Any) -> None:
        self._emit = emit
        self._clock = clock
        self._next = 0.0
        self._told = 0
        self._lines: list[str] = []

    def progress(self, params: dict[str, JSON]) -> None:
        """At most one event a second, and a bounded number a call."""
        now = self._clock()
        if self._emit is None or now < self._next or self._told >= self.LINES:
            return
        self._next, self._told = now + self.PAUSE_S, self._told + 1
        message = clean_untrusted_text(str(params.get("message") or ""))[: self.LINE_LIMIT]
        self._emit("tool.progress", {"message": message, "fraction": find_progress_fraction(params)})

    def log(self, params: dict[str, JSON]) -> None:
        if len(self._lines) >= self.LINES:
            return
        data = params.get("data")
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        self._lines.append(f"{str(params.get('level', 'info'))[:20]}: {clean_untrusted_text(text)[: self.LINE_LIMIT]}")

    @property
    def printed(self) -> str:
        return "\n".join(self._lines)


def find_progress_fraction(params: dict[str, JSON]) -> float | None:
    done, total = params.get("progress"), params.get("total")
    if not is_json_number(done) or not is_json_number(total) or total <= 0:
        return None
    return min(1.0, max(0.0, done / total))


def is_json_number(value: JSON) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
