"""Reads JSON from a model's text. Pure except for the schema check."""

import re
from typing import Any

from agents import schema
from agents.http import parsers

NONE = "it contains no JSON that can be stored"
FENCE = re.compile(r"```(?:json)?[^\S\n]*\n(.*?)```", re.DOTALL)


def json_of(text: str, output_schema: dict[str, Any]) -> tuple[Any, str | None]:
    """(value, None) if the reply contains JSON of this schema, even in fences or between prose;
    else (None, reason).
    """
    problem = NONE
    for candidate in candidates(text):
        try:
            value = parsers.read(candidate.encode())
        except ValueError as error:
            problem = f"{problem} ({error})" if problem == NONE and candidate[:1] in ("{", "[") else problem
            continue
        problems = schema.validate(output_schema, value)
        if not problems:
            return value, None
        problem = "; ".join(f"{violation['path'] or 'value'}: {violation['message']}" for violation in problems[:5])
    return None, problem


def candidates(text: str) -> list[str]:
    """The whole text, then fenced blocks, then the widest {…} or […]."""
    texts = [one for one in (text.strip(), *(block.strip() for block in FENCE.findall(text))) if one]
    for start, end in ("{}", "[]"):
        first, last = text.find(start), text.rfind(end)
        if 0 <= first < last:
            texts.append(text[first : last + 1])
    return texts
