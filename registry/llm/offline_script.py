"""What the offline provider says by heart: a file of lines, so that a whole journey can be played without a model.

MUSTER_OFFLINE_SCRIPT names a YAML file of a list. Of each question the first line that fits is taken; where none
fits, the offline provider goes by words as ever.

    - when: [Group the files, broken.md]     # all of these stand in the conversation (a single text will do)
      answered: 0                            # so many tool results since the person spoke; left out: any number
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
        """A line calls only what is offered: a script gets round no grant."""
        if self.answered is not None and self.answered != answered:
            return False
        return all(text in conversation for text in self.when) and all(one["tool"] in tools for one in self.call)


def find(path: str, messages: Collection[dict[str, JSON]], answered: int, tools: Collection[str]) -> Line | None:
    conversation = json.dumps([message.get("content") for message in messages], ensure_ascii=False)
    return next((line for line in lines(path) if line.fits(conversation, answered, tools)), None)


@lru_cache(maxsize=4)
def lines(path: str) -> tuple[Line, ...]:
    """Read once a process. Raises ValueError for what is no script."""
    try:
        rows = yaml.safe_load(Path(path).read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML: {error}")
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row.get("when") for row in rows):
        raise ValueError(f"{path} is no script: a list of lines with “when”")
    return tuple(
        Line(
            when=(row["when"],) if isinstance(row["when"], str) else tuple(row["when"]),
            answered=row.get("answered"),
            say=row.get("say", ""),
            call=tuple(row.get("call", ())),
        )
        for row in rows
    )
