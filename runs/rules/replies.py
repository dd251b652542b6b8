"""Reads JSON from a model's text. Pure except for the schema check."""

import json
import re
from typing import Any

from agents import schema

FENCE = re.compile(r"```(?:json)?[^\S\n]*\n(.*?)```", re.DOTALL)


def json_of(text: str, output_schema: dict[str, Any]) -> tuple[Any, str | None]:
    """(value, None) if the reply contains JSON of this schema, even in fences or between prose;
    else (None, reason).
    """
    problem = "it contains no JSON"
    for candidate in candidates(text):
        try:
            value = json.loads(candidate)
        except ValueError:
            continue
        problems = schema.validate(output_schema, value)
        if not problems:
            return value, None
        problem = "; ".join(f"{found['path'] or 'value'}: {found['message']}" for found in problems[:5])
    return None, problem


def candidates(text: str) -> list[str]:
    """The whole text, then fenced blocks, then the widest {…} or […]."""
    found = [text.strip(), *(block.strip() for block in FENCE.findall(text))]
    for start, end in ("{}", "[]"):
        first, last = text.find(start), text.rfind(end)
        if 0 <= first < last:
            found.append(text[first : last + 1])
    return found
