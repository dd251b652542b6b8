"""What is known of a language model by its name: its window, its features and its prices. What a provider sets wins."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).with_name("known_models.yaml")
# Behind a name: the day of a snapshot, or the word for the newest one.
SNAPSHOT = re.compile(r"-(?:\d{8}|\d{4}-\d\d-\d\d|latest|\d{3})$")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """`input` and `output`: US dollars per million tokens. `window`: tokens that it reads; `answer`: the most that it
    writes; None if that is not known. `features`: some of tools, vision, reasoning, schema.
    """

    input: float
    output: float
    window: int | None = None
    answer: int | None = None
    features: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "input": self.input, "output": self.output, "window": self.window, "answer": self.answer,
            "features": list(self.features),
        }  # fmt: skip


@cache
def read_table() -> dict[str, Any]:
    """{"as_of", "kinds": {kind: {"source", "models": {model: …}}}}"""
    return yaml.safe_load(TABLE.read_text(encoding="utf-8"))


@cache
def read_models(kind: str) -> dict[str, KnownModel]:
    """The models of one kind of provider by name."""
    table = read_table()["kinds"].get(kind, {})
    models = {}
    for name, row in table.get("models", {}).items():
        fields = {**row, "features": tuple(row.get("features", ()))}
        models[name] = KnownModel(**fields)
    return models


def find_model(kind: str, name: str) -> KnownModel | None:
    """The model of this kind of provider, also by the name of one of its snapshots."""
    models = read_models(kind)
    name = name.removeprefix("models/")
    return models.get(name) or models.get(SNAPSHOT.sub("", name))
