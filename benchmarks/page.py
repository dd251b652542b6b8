"""docs/benchmarks.md: one section a benchmark, each rewritten by its own."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
HEAD = "# Benchmarks\n\nCompare ratios and not milliseconds, which depend on the machine.\n"


def write_section(title: str, text: str) -> None:
    """Put the text under `## title`, in place of what was there."""
    page = PAGE.read_text() if PAGE.exists() else HEAD
    section = f"## {title}\n\n{text.strip()}\n"
    old = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if old.search(page):
        page = old.sub(lambda _: f"{section}\n", page).rstrip() + "\n"
    else:
        page = f"{page.rstrip()}\n\n{section}"
    PAGE.write_text(page)
