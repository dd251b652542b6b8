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

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 168, 56, 56, 24, 16
LETTERS = 20  # characters that fit into a node
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
    kind: str  # needs, or instead (a fallback)


def layout(spec: ChainSpec) -> tuple[dict[str, Node], list[Edge]]:
    """The position of each step, and the edges."""
    needs, edges = find_needs(spec), find_edges(spec)
    before = {step.key: list(needs[step.key]) for step in spec.steps}
    for step in spec.steps:
        if step.key not in fallback_keys(spec) and step.on_error == "fallback" and step.fallback in before:
            before[step.fallback].append(step.key)
    columns = place_in_columns(spec, before)
    rows: dict[int, int] = {}
    nodes: dict[str, Node] = {}
    for step in spec.steps:
        column = columns[step.key]
        row = rows.get(column, 0)
        rows[column] = row + 1
        nodes[step.key] = Node(step, MARGIN + column * (WIDTH + GAP_X), MARGIN + row * (HEIGHT + GAP_Y))
    return nodes, edges


def place_in_columns(spec: ChainSpec, before: dict[str, list[str]]) -> dict[str, int]:
    """One more than the furthest step it waits for; steps of a circle are placed on the left."""
    columns: dict[str, int] = {step.key: 0 for step in spec.steps}
    for _ in range(2):  # the second pass moves the steps that follow a fallback
        for key in order_steps(spec):
            columns[key] = max((columns.get(need, 0) + 1 for need in before[key]), default=0)
    return columns


def find_edges(spec: ChainSpec) -> list[Edge]:
    keys = {step.key for step in spec.steps}
    edges = [
        Edge(need, key, "needs") for key, all_needs in find_needs(spec).items() for need in all_needs if need in keys
    ]
    for step in spec.steps:
        if step.on_error == "fallback" and step.fallback in keys:
            edges.append(Edge(step.key, step.fallback, "instead"))
    return edges


def serialize_graph(spec: ChainSpec, states: Mapping[str, StepState] | None = None) -> dict[str, Any]:
    """{"nodes": […], "edges": […]} with positions, for other drawing code."""
    nodes, edges = layout(spec)
    states = states or {}
    return {
        "nodes": [serialize_node(key, node, states.get(key)) for key, node in nodes.items()],
        "edges": [{"from": edge.source, "to": edge.target, "kind": edge.kind} for edge in edges],
    }


def serialize_node(key: str, node: Node, state: StepState | None) -> dict[str, Any]:
    step = node.step
    return {
        "key": key,
        "kind": step.target_kind,
        "target": step.target,
        "when": step.when,
        "for_each": step.for_each,
        "x": node.x,
        "y": node.y,
        "status": state.status if state else None,
        "done": state.done if state else 0,
        "total": state.total if state else 0,
    }


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
    states, links = states or {}, links or {}
    width = max((node.x for node in nodes.values()), default=0) + WIDTH + MARGIN
    height = max((node.y for node in nodes.values()), default=0) + HEIGHT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chain" role="group" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" aria-labelledby="chain-title chain-text">',
        f'<title id="chain-title">Chain {escape(spec.name)}</title>',
        f'<desc id="chain-text">{escape(description(spec, states))}</desc>',
        f"<style>{styles()}</style>" if is_alone else "",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
    ]
    parts += [line(nodes[edge.source], nodes[edge.target], edge.kind) for edge in edges]
    parts += [box(node, states.get(key), links.get(key, "")) for key, node in nodes.items()]
    return "".join([*parts, "</svg>"])


@cache
def styles() -> str:
    return STYLES.read_text()


def description(spec: ChainSpec, states: Mapping[str, StepState]) -> str:
    """The picture as text, for screen readers."""
    words = [f"{step.key}: {states[step.key].status if step.key in states else 'not started'}" for step in spec.steps]
    return f"{len(spec.steps)} steps. {'; '.join(words)}."


def line(source: Node, target: Node, kind: str) -> str:
    x1, y1 = source.x + WIDTH, source.y + HEIGHT // 2
    x2, y2 = target.x, target.y + HEIGHT // 2
    if target.x <= source.x:  # a fallback in the same column: down the side
        x1, y1, x2, y2 = source.x + WIDTH // 2, source.y + HEIGHT, target.x + WIDTH // 2, target.y
        return f'<path class="edge {kind}" marker-end="url(#tip)" d="M{x1} {y1} {x2} {y2}"/>'
    middle = (x1 + x2) // 2
    path = f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"
    return f'<path class="edge {kind}" marker-end="url(#tip)" d="{path}"/>'


def box(node: Node, state: StepState | None, link: str) -> str:
    step, status = node.step, state.status if state else ""
    label = f"{step.key}: {step.target_kind} {step.target}, {status or 'not started'}"
    if state and state.pinned:
        label += ", output given"
    elif state and state.took_s is not None:
        label += f", took {state.took_s:.1f} s"
    if state and state.total:
        label += f", {state.done} of {state.total} items, {state.failed} failed"
    sign = SIGNS.get(status, "")
    group = (
        f'<g class="node {step.target_kind} {status}" role="img" data-step="{escape(step.key)}" '
        f'aria-label="{escape(label)}" transform="translate({node.x} {node.y})"><title>{escape(label)}</title>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
        f'<text x="12" y="23">{escape(shorten_label(step.key))}</text>'
        f'<text class="what" x="12" y="41">{escape(shorten_label(what(step), 18 if beside(state) else 24))}</text>'
        f'<text class="what" x="{WIDTH - 12}" y="41" text-anchor="end" aria-hidden="true">{beside(state)}</text>'
        f'<text class="sign" x="{WIDTH - 12}" y="23" text-anchor="end" aria-hidden="true">{sign}</text>'
        f"{bar(state)}</g>"
    )
    return f'<a href="{escape(link)}">{group}</a>' if link else group


def beside(state: StepState | None) -> str:
    """Items of a loop, or how long the step took."""
    if state is None or state.pinned:
        return "given" if state else ""
    if state.total:
        return f"{state.done}/{state.total}"
    return "" if state.took_s is None else f"{state.took_s:.1f} s"


def bar(state: StepState | None) -> str:
    if state is None or not state.total:
        return ""
    inner = WIDTH - 24
    return (
        f'<rect class="track" x="12" y="{HEIGHT - 8}" width="{inner}" height="3"/>'
        f'<rect class="bar" x="12" y="{HEIGHT - 8}" width="{inner * state.done // state.total}" height="3"/>'
    )


def what(step: StepSpec) -> str:
    marks = [
        sign
        for sign, is_on in (("?", step.when), ("⋯", step.for_each), ("↻", step.repeat_until), ("✋", step.approval))
        if is_on
    ]
    return " ".join([f"{step.target_kind} {step.target}".strip(), *marks])


def shorten_label(text: str, letters: int = LETTERS) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
