"""Texts that need no parser: plain text, Markdown and the like. Plain Python, linear in the length of the text."""

from collections.abc import Iterator

from .pieces import Part, split_markdown

PLAIN = frozenset(
    ["text/plain", "text/markdown", "text/csv", "text/tab-separated-values", "text/css", "text/x-python",
     "text/javascript", "application/json", "application/x-ndjson", "application/yaml", "application/toml",
     "application/sql"]
)  # fmt: skip


def split_text(media_type: str, text: str) -> Iterator[Part]:
    if media_type == "text/markdown":
        yield from split_markdown(text)
    else:
        yield Part(text)
