"""Turns the corpus's text files into cases."""

from __future__ import annotations

import itertools
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
KINDS = ("twice", "spend", "ends", "large", "shape", "fd3", "source")
_STEAL = re.compile(r"^( *)steal (os|builtins|open): (.*)$", re.MULTILINE)
_TAKEN = {
    "os": "return _it.read(_it.open(CANARY, 0), 99).decode()",
    "builtins": "return _it['open'](CANARY).read()",
    "open": "return _it(CANARY).read()",
}
_PACKAGES = ("collections.abc", "urllib.parse")


@dataclass(frozen=True)
class Case:
    """One function. For kind `source` the text is an expression, else the function itself."""

    group: str
    name: str
    kind: str
    text: str
    expected: object = None

    @property
    def id(self) -> str:
        return f"{self.group}: {self.name}"

    def source(self, constants: dict[str, object]) -> str:
        """The function as it is stored, its constants on top."""
        if self.kind == "source":
            return str(eval(self.text))
        used = [f"{name} = {value!r}\n" for name, value in constants.items() if re.search(rf"\b{name}\b", self.text)]
        return "".join(used) + self.text


def read(directory: str) -> list[Case]:
    """All cases of a directory, in order."""
    return [case for path in sorted((HERE / directory).glob("*.txt")) for case in _cases(path)]


def _cases(path: Path) -> list[Case]:
    cases = []
    for chunk in re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)[1:]:
        name, _, rest = chunk.partition("\n")
        lines = rest.rstrip("\n").split("\n")
        directives = list(itertools.takewhile(lambda line: line.startswith("@") and " = " not in line[:3], lines))
        directives = [line for line in directives if line[1:].split(":")[0].split(" ")[0] in ("each", "import", *KINDS)]
        body = "\n".join(lines[len(directives) :])
        body, _, expected = body.partition("\n-> ")
        if expected:
            cases.append(Case(path.stem, name, "ordinary", _function(body, "ordinary"), eval(expected)))
        else:
            cases += _expanded(path.stem, name, directives, body)
    return cases


def _expanded(group: str, name: str, directives: list[str], body: str) -> list[Case]:
    kind = next((word[1:] for word in directives if word[1:] in KINDS), "steal")
    choices = {}
    for line in directives:
        if line.startswith("@each "):
            variable, _, values = line[6:].partition(": ")
            choices[variable] = values.split(" | ")
    imports = [line[8:] for line in directives if line.startswith("@import ")]
    cases = []
    for values in itertools.product(*choices.values()):
        chosen = dict(zip(choices, values, strict=True))
        # Two variables may name each other: the second holds {first}.
        chosen = {key: value.format(**chosen) if len(chosen) > 1 else value for key, value in chosen.items()}
        text = body.format(**chosen) if chosen else body
        text = "".join(f"import {_module_of(chosen[variable])}\n" for variable in imports) + text
        cases.append(Case(group, name.format(**chosen) if chosen else name, kind, _function(text, kind)))
    return cases


def _function(body: str, kind: str) -> str:
    if kind == "source" or re.search(r"^(async )?def main\(", body, re.MULTILINE):
        return body
    body = _STEAL.sub(lambda found: f"{found[1]}_it = {found[3]}\n{found[1]}{_TAKEN[found[2]]}", body)
    return f"def main({'STEP' if kind == 'twice' else ''}):\n{textwrap.indent(body, '    ')}\n"


def _module_of(path: str) -> str:
    return next((package for package in _PACKAGES if path.startswith(package)), path.partition(".")[0])
