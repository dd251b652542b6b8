"""The places of documents that a run searched or read, for its page."""

import re
from typing import Any

from agents.models import Tool
from runs.models import Run

PAGE = re.compile(r"/collections/[a-z0-9-]+/documents/[0-9a-f-]{36}/\?at=\d+")
CALLS = 50


def sources_of(run: Run) -> list[dict[str, str]]:
    """[{"url", "title"}], each place once, in the order in which the run saw them."""
    rows = run.tool_calls.filter(kind=Tool.Kind.KNOWLEDGE, outcome="ok").order_by("pk").values_list("result", flat=True)
    seen = {one["url"]: one for result in rows[:CALLS] for one in places_in(result)}
    return list(seen.values())


def places_in(result: Any) -> list[dict[str, str]]:
    listed = result.get("results", [result]) if isinstance(result, dict) else []
    return [
        {"url": one["url"], "title": str(one.get("title", ""))}
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, dict) and isinstance(one.get("url"), str) and PAGE.fullmatch(one["url"])
    ]
