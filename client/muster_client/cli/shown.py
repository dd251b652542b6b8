"""Fields of runs as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any


def format_run_seconds(data: Mapping[str, Any]) -> str:
    """From a run's start to its end, or until now."""
    if not data.get("started_at"):
        return ""
    start = parse_time(data["started_at"])
    end = datetime.now(timezone.utc)
    if data.get("finished_at"):
        end = parse_time(data["finished_at"])
    seconds = (end - start).total_seconds()
    # This machine's clock may be behind the server's.
    return f"{max(0.0, seconds):.1f}"


def parse_time(text: str) -> datetime:
    """Python 3.10 does not read the “Z” of UTC."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
