"""What the documents say of the code is so: every path they name exists, every link leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/tour.md", "docs/howto/production.md"]
OURS = (
    "agents/",
    "functions/",
    "connectors/",
    "devices/",
    "registry/",
    "runs/",
    "gateway/",
    "config/",
    "docs/",
    "tests/",
)


@pytest.mark.parametrize("name", WRITTEN)
def test_every_path_that_is_named_exists(name):
    named = re.findall(r"`([\w./-]+)`", (ROOT / name).read_text())
    paths = [path for path in named if path.startswith(OURS) and ("." in path or path.endswith("/"))]

    missing = [path for path in paths if not (ROOT / path).exists()]

    assert not missing


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


def test_every_variable_in_the_documents_is_a_setting():
    known = set(re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs" / "reference" / "settings.md").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bMUSTER_[A-Z_]+[A-Z]\b", "".join((ROOT / name).read_text() for name in WRITTEN)))

    assert {name for name in named if not any(one.startswith(name) for one in known)} <= {"MUSTER_LOCAL_MODEL"}
