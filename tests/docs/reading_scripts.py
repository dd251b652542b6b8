"""Counts how much a reader of the pages' scripts must keep in mind at once; `make reading` prints it below Python's figures.

There is no parser of JavaScript here, so a script is only cut into its words and signs. A statement is what a semicolon
ends, or what `if`, `for`, `while`, `switch` or `try` begins. Brackets, commas and dots are not counted: they say how a
line is put together, and the names between them are counted already.
"""

import re
import statistics
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Built by `make frontend` out of packages of others.
LEFT_OUT = ("/vendor/", "static/editor/")
TOKEN = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
  | (?P<space> \s+ )
  | (?P<string> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
  | (?P<word> [\w$\#]+ )
  | (?P<sign> => | \?\? =? | \?\.(?!\d) | \.\.\. | [=!]==? | && =? | \|\| =? | [<>]= | \+\+ | -- | [-+*/%]= | . )
    """,
    re.DOTALL | re.VERBOSE,
)
REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
BEFORE_A_REGEX = {"return", "typeof", "case", "in", "of", "yield", "await"}
BLOCKS = {"if", "for", "while", "switch", "try"}
NOT_COUNTED = set("()[]{},;.:")
LONGEST_LINE = 120
# healthchecks, static/js without vendors: the one of the models that has scripts of its own.
MODELS = {
    "words and signs a statement, median of the scripts": "5.4",
    "words and signs a statement, nine scripts in ten under": "7.3",
    "conditional expressions in 1,000 statements": "24",
    "comment lines, %": "6.2",
    "lines over 120 characters, %": "0.1",
}


@dataclass(frozen=True)
class Script:
    """What one script holds."""

    place: str
    counted: int
    statements: int
    conditionals: int
    lines: int
    comment_lines: int
    long_lines: int

    @property
    def density(self) -> float:
        return self.counted / self.statements


def list_scripts(paths: Iterable[str], root: Path = ROOT) -> list[Path]:
    """The scripts of pages below these paths, or all of them."""
    command = ["git", "ls-files", "--", *(paths or ["static", "frontend/src"])]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    return [root / name for name in names if name.endswith(".js") and not any(part in name for part in LEFT_OUT)]


def iterate_tokens(text: str) -> Iterator[str]:
    """The words, texts and signs of a script, without its comments."""
    place = 0
    before = ""
    while place < len(text):
        if text[place] == "`":
            place, inner = cut_template(text, place)
            yield "`"
            for code in inner:
                yield from iterate_tokens(code)
            before = "`"
            continue
        pattern = REGEX if text[place] == "/" and may_begin_regex(text[place:], before) else TOKEN
        token = pattern.match(text, place) or TOKEN.match(text, place)
        assert token is not None
        place = token.end()
        if token.lastgroup in ("comment", "space"):
            continue
        before = token.group()
        yield before


def may_begin_regex(rest: str, before: str) -> bool:
    """Whether a slash after this token begins a pattern: after a value it divides."""
    if rest.startswith(("//", "/*")):
        return False
    is_value = re.fullmatch(r"[\w$#]+|[)\]}`\"'].*", before, re.DOTALL)
    return before in BEFORE_A_REGEX or not is_value


def cut_template(text: str, start: int) -> tuple[int, list[str]]:
    """Where a text in backquotes ends, and the code in its `${…}`."""
    inner = []
    place = start + 1
    while place < len(text) and text[place] != "`":
        if text[place] == "\\":
            place += 2
        elif text.startswith("${", place):
            end = find_end(text, place + 2)
            inner.append(text[place + 2 : end])
            place = end + 1
        else:
            place += 1
    return place + 1, inner


def find_end(text: str, place: int) -> int:
    """Where the bracket closes that was opened before this place."""
    depth = 1
    while place < len(text):
        if text[place] == "`":
            place, _ = cut_template(text, place)
            continue
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            break
        place += 1
    return place


def count_statements(tokens: list[str]) -> int:
    """The two semicolons in the head of a `for` end no statement."""
    statements = 0
    depth = 0
    head: int | None = None  # the depth of the bracket of a `for`
    for before, token in zip(["", *tokens], tokens, strict=False):
        if token in "([{":
            if before == "for":
                head = depth
            depth += 1
        elif token in ")]}":
            depth -= 1
            if head == depth:
                head = None
        elif token in BLOCKS:
            statements += before != "."
        elif token == ";" and head is None:
            statements += 1
    return statements


def is_comment(line: str) -> bool:
    """Whether the line says something to a reader. Types alone are code: a checker reads them."""
    words = line.strip()
    if not words.startswith(("//", "/*", "*")):
        return False
    words = words.strip("/* ")
    return bool(words) and not words.startswith("@")


def measure_script(text: str, place: str) -> Script:
    tokens = list(iterate_tokens(text))
    lines = text.splitlines()
    return Script(
        place=place,
        counted=sum(token not in NOT_COUNTED for token in tokens),
        statements=max(count_statements(tokens), 1),
        conditionals=tokens.count("?"),
        lines=len(lines),
        comment_lines=sum(is_comment(line) for line in lines),
        long_lines=sum(len(line) > LONGEST_LINE for line in lines),
    )


def compute_rows(scripts: list[Script]) -> dict[str, float]:
    """The figures by the names of MODELS. There must be two scripts at least."""
    densities = [one.density for one in scripts]
    lines = sum(one.lines for one in scripts)
    values = (
        statistics.median(densities),
        statistics.quantiles(densities, n=10)[-1],
        1000 * sum(one.conditionals for one in scripts) / sum(one.statements for one in scripts),
        100 * sum(one.comment_lines for one in scripts) / lines,
        100 * sum(one.long_lines for one in scripts) / lines,
    )
    return dict(zip(MODELS, values, strict=True))


def print_figures(paths: list[str], most: int) -> None:
    scripts = [
        measure_script(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))) for path in list_scripts(paths)
    ]
    if len(scripts) < 2:
        return
    print(
        f"\n{len(scripts)} scripts, {sum(one.statements for one in scripts)} statements, {sum(one.lines for one in scripts)} lines"
    )
    for name, value in compute_rows(scripts).items():
        print(f"  {name:57s} {value:6.1f}   model: {MODELS[name]}")
    if not paths:
        return
    print("\nThe densest scripts (words and signs a statement):")
    for one in sorted(scripts, key=lambda one: -one.density)[:most]:
        print(f"  {one.density:5.1f}  {one.place}")
