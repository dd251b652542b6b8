"""What tests read of the result of a sync."""

from typing import Any


def subjects(result: Any) -> list[str]:
    return [message["subject"] for message in result.value["messages"]]
