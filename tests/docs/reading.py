"""Counts how much a reader must keep in mind at once. `make reading` prints it; nothing fails because of it.

    make reading                     the whole product
    make reading OF="runs/calls"     some folders or files, with their densest functions and their unclear names

A node is one node of Python's syntax tree. Nodes a statement do not depend on the layout: a line that is broken in two
counts the same. Tests, migrations, benchmarks and generated code are left out. The figures of the pages' scripts follow
(`reading_scripts.py`).
"""

import ast
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs import reading_scripts

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = ("tests/", "migrations/", "benchmarks/", "client/muster_client/types.py", "client/muster_client/_sync/")
PREPOSITIONS = {"of", "for", "in", "at", "on", "to", "from", "by", "with", "as", "about", "within", "behind", "over"}
# Participles without “-ed”. Those that are verbs as well (read, set, put, split, shut) say what is done.
PARTICIPLES = {
    "shown", "told", "kept", "found", "known", "said", "held", "taken", "given", "made", "sent", "heard", "built",
    "begun", "done", "drawn", "written", "chosen", "seen", "spent", "lost", "meant", "sold", "understood", "won",
    "worn", "woken", "gone", "spoken", "stolen",
}  # fmt: skip
VERBS_IN_ED = ("feed", "need", "seed", "speed", "embed", "exceed", "proceed")
# The same figures of projects whose code people like to read: healthchecks, procrastinate, pretalx, httpx,
# pydantic-ai and open-chat-studio, the lowest and the highest figure.
MODELS = {
    "nodes a statement, median": "9.2 to 11.0",
    "nodes a statement, nine in ten under": "14.5 to 24",
    "conditional expressions in 1,000 statements": "9 to 37",
    "comprehensions in 1,000 statements": "6 to 43",
    "comment lines, %": "2.9 to 6.1",
    "functions named by a participle, %": "0",
    "functions that end in a preposition, %": "0 to 0.6",
    "functions that share their name with two other files, %": "0 to 10",
}
MOST = 15

Function = ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass
class Measured:
    """One function: its place, and what its body holds."""

    place: str
    nodes: int
    statements: int
    conditionals: int
    comprehensions: int

    @property
    def density(self) -> float:
        return self.nodes / self.statements


@dataclass
class Figures:
    """What was counted over some files."""

    functions: list[Measured] = field(default_factory=list)
    # The name of a module's function, and the places where functions of that name stand.
    places: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    lines: int = 0
    comment_lines: int = 0


def list_files(paths: Iterable[str]) -> list[Path]:
    """The files of the product below these paths, or all of them."""
    command = ["git", "ls-files", "--", *(paths or ["*.py"])]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split() if is_product(name)]


def is_product(name: str) -> bool:
    if not name.endswith(".py"):
        return False
    return not any(part in name for part in LEFT_OUT)


def measure_function(function: Function, place: str) -> Measured | None:
    """None for a function that has only a docstring."""
    body = [statement for statement in function.body if not is_docstring(statement)]
    if not body:
        return None
    nodes = [node for statement in body for node in ast.walk(statement)]
    return Measured(
        place=f"{place}:{function.lineno} {function.name}",
        nodes=len(nodes),
        statements=sum(isinstance(node, ast.stmt) for node in nodes),
        conditionals=sum(isinstance(node, ast.IfExp) for node in nodes),
        comprehensions=sum(isinstance(node, COMPREHENSIONS) for node in nodes),
    )


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def measure_files(files: Iterable[Path]) -> Figures:
    figures = Figures()
    for path in files:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        place = str(path.relative_to(ROOT))
        lines = text.splitlines()
        figures.lines += len(lines)
        figures.comment_lines += sum(line.lstrip().startswith("#") for line in lines)
        for statement in tree.body:
            if isinstance(statement, Function):
                figures.places[statement.name].append(f"{place}:{statement.lineno}")
        figures.functions += measure_functions(tree, place)
    return figures


def measure_functions(tree: ast.Module, place: str) -> list[Measured]:
    """All functions and methods, also those inside of others."""
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    measured = [measure_function(function, place) for function in functions]
    return [one for one in measured if one is not None]


def is_participle(name: str) -> bool:
    if "_" in name:
        return False
    if name in PARTICIPLES:
        return True
    return name.endswith("ed") and len(name) > 4 and name not in VERBS_IN_ED


def ends_in_preposition(name: str) -> bool:
    return name.rsplit("_", 1)[-1] in PREPOSITIONS


def find_unclear_names(figures: Figures) -> list[str]:
    lines = []
    for name, places in figures.places.items():
        if is_participle(name) or ends_in_preposition(name):
            lines += [f"{place} {name}" for place in places]
    return lines


def measure_share(figures: Figures, is_meant: Callable[[str], bool]) -> float:
    """How many in a hundred of the modules' functions have such a name."""
    counts = {name: len(places) for name, places in figures.places.items()}
    meant = sum(count for name, count in counts.items() if is_meant(name))
    return 100 * meant / (sum(counts.values()) or 1)


def compute_rows(figures: Figures) -> dict[str, float]:
    """The figures by the names of MODELS. There must be two functions at least."""
    densities = [one.density for one in figures.functions]
    thousands = sum(one.statements for one in figures.functions) / 1000
    conditionals = sum(one.conditionals for one in figures.functions)
    comprehensions = sum(one.comprehensions for one in figures.functions)
    values = (
        statistics.median(densities),
        statistics.quantiles(densities, n=10)[-1],
        conditionals / thousands,
        comprehensions / thousands,
        100 * figures.comment_lines / figures.lines,
        measure_share(figures, is_participle),
        measure_share(figures, ends_in_preposition),
        measure_share(figures, lambda name: len(figures.places[name]) > 2),
    )
    return dict(zip(MODELS, values, strict=True))


def main(paths: list[str]) -> None:
    print_figures(paths)
    reading_scripts.print_figures(paths, MOST)


def print_figures(paths: list[str]) -> None:
    figures = measure_files(list_files(paths))
    if len(figures.functions) < 2:
        print("There are fewer than two functions of Python to read.")
        return
    statements = sum(one.statements for one in figures.functions)
    print(f"{len(figures.functions)} functions, {statements} statements, {figures.lines} lines")
    for name, value in compute_rows(figures).items():
        print(f"  {name:57s} {value:6.1f}   models: {MODELS[name]}")
    if not paths:
        return
    print("\nThe densest functions (nodes a statement):")
    longer = [one for one in figures.functions if one.statements > 2]
    for one in sorted(longer, key=lambda one: -one.density)[:MOST]:
        print(f"  {one.density:5.1f}  {one.place}")
    print("\nNames that do not say what is done:")
    for line in find_unclear_names(figures)[: 3 * MOST]:
        print(f"  {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
