"""A chain as a drawing: steps in columns by what they need, with the state a run gave them."""

from dataclasses import dataclass
from typing import Any

from runs.models import Run, StepRun

BOX, ROW, COLUMN, GAP = (150, 44), 62, 210, 20


@dataclass
class Box:
    key: str
    what: str
    state: str
    x: int
    y: int


def drawing(run: Run) -> dict[str, Any] | None:
    """Boxes and edges of a chain run; None for other runs."""
    if run.chain_version is None:
        return None
    steps = run.chain_version.read_spec().steps
    states = dict(StepRun.objects.filter(run=run, item=-1).values_list("key", "status"))
    columns = columns_of({step.key: list(step.needs) for step in steps})
    boxes: dict[str, Box] = {}
    filled: dict[int, int] = {}
    for step in steps:
        column = columns[step.key]
        row = filled.get(column, 0)
        filled[column] = row + 1
        boxes[step.key] = Box(
            step.key,
            f"{step.target_kind} {step.target}".strip(),
            states.get(step.key, "not started"),
            GAP + column * COLUMN,
            GAP + row * ROW,
        )
    edges = [edge(boxes[need], boxes[step.key]) for step in steps for need in step.needs if need in boxes]
    width = GAP + (max(filled, default=0) + 1) * COLUMN
    height = GAP * 2 + max(filled.values(), default=1) * ROW
    return {"boxes": list(boxes.values()), "edges": edges, "width": width, "height": height, "box": BOX}


def columns_of(needs: dict[str, list[str]]) -> dict[str, int]:
    """The longest way to each step; a published chain has no circle, and one that had would not hang this."""
    columns = dict.fromkeys(needs, 0)
    for _ in needs:
        for key, before in needs.items():
            columns[key] = min(
                max([columns[key], *(columns[need] + 1 for need in before if need in columns)]), len(needs)
            )
    return columns


def edge(start: Box, end: Box) -> str:
    x1, y1 = start.x + BOX[0], start.y + BOX[1] // 2
    x2, y2 = end.x, end.y + BOX[1] // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"
