"""Processes below a process, and what becomes of them."""

from __future__ import annotations

import select
import time
from pathlib import Path


def children_of(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants_of(pid: int) -> list[int]:
    found = children_of(pid)
    return found + [below for child in found for below in descendants_of(child)]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds=60.0):
    """Polls what no event announces: another process's state."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        select.select([], [], [], 0.01)
