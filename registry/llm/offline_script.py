"""Prepared answers for the offline provider: a file of lines, so that a journey can be played without a model.

MUSTER_OFFLINE_SCRIPT names a YAML file with a list. For each question the first matching line is used; if none
matches, the offline provider falls back to matching words.

    - when: [Group the files, broken.md]     # all of these occur in the conversation (one text is fine too)
      answered: 0                            # number of tool results since the user's message; absent: any
      call: [{tool: list_directory, arguments: {path: "."}}]
    - when: Group the files
      say: '{"standalone": ["plan.md"]}'
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

JSON = Any


@dataclass(frozen=True, slots=True)
class Line:
    when: tuple[str, ...]
    answered: int | None = None
    say: str = ""
    call: tuple[dict[str, JSON], ...] = field(default=())

    def fits(self, conversation: str, answered: int, tools: Collection[str]) -> bool:
        """A line can only call offered tools: a script cannot bypass a grant."""
        if self.answered is not None and self.answered != answered:
            return False
        if not all(text in conversation for text in self.when):
            return False
        return all(call["tool"] in tools for call in self.call)


def find_script_line(
    path: str, messages: Collection[dict[str, JSON]], answered: int, tools: Collection[str]
) -> Line | None:
    contents = [message.get("content") for message in messages]
    conversation = json.dumps(contents, ensure_ascii=False)
    for line in read_script(path):
        if line.fits(conversation, answered, tools):
            return line
    return None


@lru_cache(maxsize=4)
def read_script(path: str) -> tuple[Line, ...]:
    """Read once per process. Raises ValueError when the file is not a valid script."""
    try:
        rows = yaml.safe_load(Path(path).read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {error}")
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row.get("when") for row in rows):
        raise ValueError(f"{path} is not a script: it must be a list of lines with “when”")
    lines = []
    for row in rows:
        when = row["when"]
        if isinstance(when, str):
            when = [when]
        calls = tuple(row.get("call", ()))
        line = Line(when=tuple(when), answered=row.get("answered"), say=row.get("say", ""), call=calls)
        lines.append(line)
    return tuple(lines)
