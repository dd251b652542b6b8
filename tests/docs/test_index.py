"""Every page of the documentation can be found from the first page, the index and the site's menu."""

import re

import pytest

from tests.docs.reference import APPS
from tests.docs.signs import ROOT

HOWTOS = sorted(page.name for page in (ROOT / "docs" / "howto").glob("*.md"))
INDEX = ROOT / "docs" / "adr" / "index.md"
DECISIONS = sorted((ROOT / "docs" / "adr").glob("0*.md"))


@pytest.mark.parametrize("place", ["README.md", "docs/index.md", "mkdocs.yml"])
def test_every_how_to_page_is_linked(place):
    text = (ROOT / place).read_text()

    assert [name for name in HOWTOS if f"howto/{name}" not in text] == []


def test_every_decision_is_listed_once_with_its_title():
    titles = {path.name: path.read_text().splitlines()[0].removeprefix("# ") for path in DECISIONS}

    assert sorted(listed()) == sorted((title, name) for name, title in titles.items())


def test_decisions_are_in_order_of_their_numbers_in_each_section():
    sections = [[name for _, name in listed(section)] for section in INDEX.read_text().split("\n## ")[1:]]

    assert [names for names in sections if names != sorted(names) or not names] == []


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name)
def test_a_decision_begins_with_its_number(page):
    assert page.read_text().startswith(f"# {int(page.name[:4])}. ")


def listed(text=None):
    """(title, file) of each entry of the index; a title may wrap."""
    links = re.findall(r"^- \[([^]]+)\]\((\S+)\)", text or INDEX.read_text(), re.MULTILINE)
    return [(" ".join(title.split()), name) for title, name in links]


def test_every_app_and_every_package_of_runs_is_named_in_the_architecture():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = {path.parent.name for path in (ROOT / "runs").glob("*/__init__.py")} - {"migrations"}

    assert [app for app in APPS if f"`{app}/`" not in text] == []
    assert [room for room in sorted(rooms) if f"`{room}`" not in text] == []


def test_the_architecture_is_short_enough_to_be_read():
    assert (ROOT / "ARCHITECTURE.md").stat().st_size <= 10_000
