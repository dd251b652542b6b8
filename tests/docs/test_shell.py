"""The shell examples of the documentation work as they are printed: each page sets the variables that it uses."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^[ ]*```(?:bash|sh)\n(.*?)```", re.S | re.M)
SET = re.compile(r"(?:^|[\s;])([A-Za-z_]\w*)=")
USED = re.compile(r"\$\{?([A-Za-z_]\w*)")
OF_THE_SHELL = {"HOME", "PATH", "PWD", "USER"}


def unset(text: str) -> list[str]:
    """Variables that a block uses and no line before it on the page sets."""
    known, found = set(OF_THE_SHELL), []
    for line in "\n".join(BLOCK.findall(text)).splitlines():
        known |= set(SET.findall(line))
        found += [name for name in USED.findall(line) if name not in known]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_sets_the_variables_of_its_commands_and_names_the_interpreter(page):
    text = page.read_text()
    assert unset(text) == []
    assert [line for block in BLOCK.findall(text) for line in block.splitlines() if line.startswith("manage.py")] == []


def test_an_unset_variable_is_found():
    assert unset('```bash\nK=1; curl "$K" $URL\n```\n') == ["URL"]
    assert unset('```sh\ncurl "$K"\nK=1\n```\n') == ["K"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_chains_that_python_examples_start_are_on_every_site(page):
    starters = re.findall(r"^name: (.+)$", (ROOT / "agents" / "starters" / "chains.yaml").read_text(), re.M)
    started = re.findall(r"chains\.start\(\"([^\"]+)\"", page.read_text())
    assert set(started) <= set(starters)
