"""Fields of runs as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any


def format_run_seconds(data: Mapping[str, Any]) -> str:
    """From a run's start to its end, or until now."""
    if not data.get("started_at"):
        return ""
    until = moment(data["finished_at"]) if data.get("finished_at") else datetime.now(timezone.utc)
    return f"{max(0.0, (until - moment(data['started_at'])).total_seconds()):.1f}"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
