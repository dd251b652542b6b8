"""The documents hang together: every link leads somewhere, and a decision is short. Names: test_signs.py."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("docs/**/*.md")) + sorted(ROOT.glob("*.md")), ids=lambda path: path.name
)
def test_every_link_leads_somewhere(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())

    missing = [link for link in links if not (page.parent / link).exists()]

    assert not missing


def test_the_tour_visits_the_door_the_loop_and_the_sandbox():
    tour = (ROOT / "docs" / "tour.md").read_text()

    assert all(
        place in tour
        for place in ("runs/intake/messages.py", "runs/worker/runner.py", "functions/sandbox/", "config/errors.py")
    )


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "adr").glob("0*.md")), ids=lambda path: path.name)
def test_a_decision_is_told_in_four_hundred_words(page):
    assert len(page.read_text().split()) <= 400


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
        if page.parent.name != "reference" and page.name != "CHANGELOG.md"
    ],
    ids=lambda page: page.name,
)
def test_prose_wraps_at_a_hundred_characters(page):
    """Tables, headings, code, HTML and what cannot be broken (a link) may be longer."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    prose = [line for line in text.splitlines() if not line.lstrip().startswith(("|", "#", "<", "    "))]

    assert [line for line in prose if len(line) > 100 and " " in line.strip()[:90]] == []
