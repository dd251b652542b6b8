"""Draws a chain as SVG on the server, with the state of each step of a run. It uses no query and no
model.

Steps are placed in columns by their dependencies. Colours come from CSS classes for light and dark
mode. Each node is a group with a title and a label for screen readers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from django.conf import settings

from agents.graph import fallback_keys, find_needs, order_steps
from agents.spec import ChainSpec, StepSpec

# Of a node and of what is between nodes, in the picture's own units.
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 168, 56, 56, 24, 16
# Characters that fit into a node.
LETTERS = 20
SIGNS = {
    "ready": "·", "running": "▶", "waiting": "⏸", "succeeded": "✓", "partial": "◐",
    "failed": "✗", "skipped": "–", "cancelled": "⊘",
}  # fmt: skip
STYLES = Path(settings.BASE_DIR) / "static/runs/graph.css"


@dataclass(frozen=True, slots=True)
class StepState:
    """The state of a step in a run; `done` of `total` items of a for_each. `took_s` of an ended step."""

    status: str
    total: int = 0
    done: int = 0
    failed: int = 0
    took_s: float | None = None
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    step: StepSpec
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Edge:
    source: str
    target: str
    # needs, or instead (a fallback)
    kind: str


def layout(spec: ChainSpec) -> tuple[dict[str, Node], list[Edge]]:
    """The position of each step, and the edges."""
    columns = place_in_columns(spec, find_steps_before(spec))
    # How many steps each column holds so far.
    rows: dict[int, int] = {}
    nodes: dict[str, Node] = {}
    for step in spec.steps:
        column = columns[step.key]
        row = rows.get(column, 0)
        rows[column] = row + 1
        x = MARGIN + column * (WIDTH + GAP_X)
        y = MARGIN + row * (HEIGHT + GAP_Y)
        nodes[step.key] = Node(step, x, y)
    return nodes, find_edges(spec)


def find_steps_before(spec: ChainSpec) -> dict[str, list[str]]:
    """The steps that stand to the left of each step: those that it needs, and of a fallback those that it replaces."""
    needs = find_needs(spec)
    before = {step.key: list(needs[step.key]) for step in spec.steps}
    fallbacks = fallback_keys(spec)
    for step in spec.steps:
        has_fallback = step.on_error == "fallback" and step.fallback in before
        # Fallbacks of fallbacks stay in the column of the first one.
        if has_fallback and step.key not in fallbacks:
            before[step.fallback].append(step.key)
    return before


def place_in_columns(spec: ChainSpec, before: dict[str, list[str]]) -> dict[str, int]:
    """One more than the furthest step it waits for; steps of a circle are placed on the left."""
    columns: dict[str, int] = {step.key: 0 for step in spec.steps}
    # The second pass moves the steps that follow a fallback.
    for _ in range(2):
        for key in order_steps(spec):
            to_the_right = [columns.get(need, 0) + 1 for need in before[key]]
            columns[key] = max(to_the_right, default=0)
    return columns


def find_edges(spec: ChainSpec) -> list[Edge]:
    keys = {step.key for step in spec.steps}
    edges: list[Edge] = []
    for key, needed in find_needs(spec).items():
        # A draft may name steps that do not exist.
        edges += [Edge(need, key, "needs") for need in needed if need in keys]
    for step in spec.steps:
        if step.on_error == "fallback" and step.fallback in keys:
            edges.append(Edge(step.key, step.fallback, "instead"))
    return edges


def serialize_graph(spec: ChainSpec, states: Mapping[str, StepState] | None = None) -> dict[str, Any]:
    """{"nodes": […], "edges": […]} with positions, for other drawing code."""
    nodes, edges = layout(spec)
    states = states or {}
    serialized_nodes = [serialize_node(key, node, states.get(key)) for key, node in nodes.items()]
    serialized_edges = [{"from": edge.source, "to": edge.target, "kind": edge.kind} for edge in edges]
    return {"nodes": serialized_nodes, "edges": serialized_edges}


def serialize_node(key: str, node: Node, state: StepState | None) -> dict[str, Any]:
    step = node.step
    serialized = {
        "key": key,
        "kind": step.target_kind,
        "target": step.target,
        "when": step.when,
        "for_each": step.for_each,
        "x": node.x,
        "y": node.y,
        "status": None,
        "done": 0,
        "total": 0,
    }
    if state is not None:
        serialized["status"] = state.status
        serialized["done"] = state.done
        serialized["total"] = state.total
    return serialized


def draw(
    spec: ChainSpec,
    states: Mapping[str, StepState] | None = None,
    *,
    links: Mapping[str, str] | None = None,
    is_alone: bool = True,
) -> str:
    """The whole picture. `links` gives some nodes an address (the child's page).

    A picture that stands alone contains static/runs/graph.css. Pages load that file themselves
    (`is_alone=False`), because their content policy forbids inline style.
    """
    nodes, edges = layout(spec)
    states = states or {}
    links = links or {}
    right = max((node.x for node in nodes.values()), default=0)
    bottom = max((node.y for node in nodes.values()), default=0)
    width = right + WIDTH + MARGIN
    height = bottom + HEIGHT + MARGIN
    style = f"<style>{styles()}</style>" if is_alone else ""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chain" role="group" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" aria-labelledby="chain-title chain-text">',
        f'<title id="chain-title">Chain {escape(spec.name)}</title>',
        f'<desc id="chain-text">{escape(description(spec, states))}</desc>',
        style,
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
    ]
    # The edges first, so that the boxes are drawn over their ends.
    for edge in edges:
        parts.append(line(nodes[edge.source], nodes[edge.target], edge.kind))
    for key, node in nodes.items():
        parts.append(box(node, states.get(key), links.get(key, "")))
    parts.append("</svg>")
    return "".join(parts)


@cache
def styles() -> str:
    return STYLES.read_text()


def description(spec: ChainSpec, states: Mapping[str, StepState]) -> str:
    """The picture as text, for screen readers."""
    words: list[str] = []
    for step in spec.steps:
        state = states.get(step.key)
        status = state.status if state else "not started"
        words.append(f"{step.key}: {status}")
    return f"{len(spec.steps)} steps. {'; '.join(words)}."


def line(source: Node, target: Node, kind: str) -> str:
    if target.x <= source.x:
        # A fallback in the same column: down the side.
        x1 = source.x + WIDTH // 2
        y1 = source.y + HEIGHT
        x2 = target.x + WIDTH // 2
        path = f"M{x1} {y1} {x2} {target.y}"
    else:
        x1 = source.x + WIDTH
        y1 = source.y + HEIGHT // 2
        y2 = target.y + HEIGHT // 2
        middle = (x1 + target.x) // 2
        path = f"M{x1} {y1}C{middle} {y1} {middle} {y2} {target.x} {y2}"
    return f'<path class="edge {kind}" marker-end="url(#tip)" d="{path}"/>'


def box(node: Node, state: StepState | None, link: str) -> str:
    step = node.step
    status = state.status if state else ""
    label = escape(describe_step(step, state))
    sign = SIGNS.get(status, "")
    state_text = beside(state)
    # The text on the right takes six letters of the line.
    letters = 18 if state_text else 24
    target = escape(shorten_label(what(step), letters))
    key = escape(shorten_label(step.key))
    right = WIDTH - 12
    group = (
        f'<g class="node {step.target_kind} {status}" role="img" data-step="{escape(step.key)}" '
        f'aria-label="{label}" transform="translate({node.x} {node.y})"><title>{label}</title>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
        f'<text x="12" y="23">{key}</text>'
        f'<text class="what" x="12" y="41">{target}</text>'
        f'<text class="what" x="{right}" y="41" text-anchor="end" aria-hidden="true">{state_text}</text>'
        f'<text class="sign" x="{right}" y="23" text-anchor="end" aria-hidden="true">{sign}</text>'
        f"{bar(state)}</g>"
    )
    if not link:
        return group
    return f'<a href="{escape(link)}">{group}</a>'


def describe_step(step: StepSpec, state: StepState | None) -> str:
    """A step and its state in words, for screen readers and the mouse."""
    status = state.status if state else ""
    label = f"{step.key}: {step.target_kind} {step.target}, {status or 'not started'}"
    if state is None:
        return label
    if state.pinned:
        label += ", output given"
    elif state.took_s is not None:
        label += f", took {state.took_s:.1f} s"
    if state.total:
        label += f", {state.done} of {state.total} items, {state.failed} failed"
    return label


def beside(state: StepState | None) -> str:
    """Items of a loop, or how long the step took."""
    if state is None:
        return ""
    if state.pinned:
        return "given"
    if state.total:
        return f"{state.done}/{state.total}"
    if state.took_s is None:
        return ""
    return f"{state.took_s:.1f} s"


def bar(state: StepState | None) -> str:
    """How many items of a loop are done, as a bar at the lower edge."""
    if state is None or not state.total:
        return ""
    top = HEIGHT - 8
    whole = WIDTH - 24
    done = whole * state.done // state.total
    return (
        f'<rect class="track" x="12" y="{top}" width="{whole}" height="3"/>'
        f'<rect class="bar" x="12" y="{top}" width="{done}" height="3"/>'
    )


def what(step: StepSpec) -> str:
    """The target of a step, and a sign for each thing that is special about it."""
    specials = (("?", step.when), ("⋯", step.for_each), ("↻", step.repeat_until), ("✋", step.approval))
    signs = [sign for sign, is_on in specials if is_on]
    target = f"{step.target_kind} {step.target}".strip()
    return " ".join([target, *signs])


def shorten_label(text: str, letters: int = LETTERS) -> str:
    if len(text) <= letters:
        return text
    return f"{text[: letters - 1]}…"
