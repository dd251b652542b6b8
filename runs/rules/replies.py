"""Reads JSON from a model's text. Pure except for the schema check."""

import re
from typing import Any

from agents import schema
from agents.http import parsers

NONE = "it contains no JSON that can be stored"
FENCE = re.compile(r"```(?:json)?[^\S\n]*\n(.*?)```", re.DOTALL)


def parse_reply_json(text: str, output_schema: dict[str, Any]) -> tuple[Any, str | None]:
    """Finds JSON of this schema in a model's reply, even in fences or between prose: (value, None), or
    (None, reason).
    """
    problem = NONE
    for candidate in list_json_candidates(text):
        try:
            value = parsers.parse_json_body(candidate.encode())
        except ValueError as error:
            # Only text that begins as JSON was meant as JSON, and its error tells the model something.
            if problem == NONE and candidate.startswith(("{", "[")):
                problem = f"{problem} ({error})"
            continue
        violations = schema.validate(output_schema, value)
        if not violations:
            return value, None
        lines = [f"{violation['path'] or 'value'}: {violation['message']}" for violation in violations[:5]]
        problem = "; ".join(lines)
    return None, problem


def list_json_candidates(text: str) -> list[str]:
    """The whole text, then fenced blocks, then the widest {…} or […]."""
    blocks = [block.strip() for block in (text, *FENCE.findall(text))]
    texts = [block for block in blocks if block]
    for start, end in ("{}", "[]"):
        first = text.find(start)
        last = text.rfind(end)
        if 0 <= first < last:
            texts.append(text[first : last + 1])
    return texts
