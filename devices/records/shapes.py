"""The kinds of record: their names in paths, and the client's tools that check and write them."""

from dataclasses import dataclass

from devices.client.tools import TOOLS, Tool


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind. `create` and `update` are the tools whose schemas and rules its fields follow."""

    kind: str
    collection: str
    create: Tool
    update: Tool

    @property
    def id_argument(self) -> str:
        return f"{self.kind}_id"

    @property
    def fields(self) -> list[str]:
        return list(self.create.input_schema["properties"])


SHAPES = {
    shape.kind: shape
    for shape in [
        Shape(kind, f"{kind}s", TOOLS[f"create_{kind}"], TOOLS[f"update_{kind}"])
        for kind in ("task", "note", "timeline", "project")
    ]
}
COMMENT = "comment"
COLLECTIONS = {shape.collection: shape.kind for shape in SHAPES.values()} | {"comments": COMMENT}
