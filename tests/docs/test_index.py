"""Every page of the documentation can be found from the first page, the index and the site's menu."""

import pytest

from tests.docs.signs import ROOT

HOWTOS = sorted(page.name for page in (ROOT / "docs" / "howto").glob("*.md"))
DECISIONS = sorted(page.name for page in (ROOT / "docs" / "adr").glob("0*.md"))


@pytest.mark.parametrize("place", ["README.md", "docs/index.md", "mkdocs.yml"])
def test_every_how_to_page_is_linked(place):
    text = (ROOT / place).read_text()

    assert [name for name in HOWTOS if f"howto/{name}" not in text] == []


def test_every_decision_is_linked():
    text = (ROOT / "docs" / "adr" / "index.md").read_text()

    assert [name for name in DECISIONS if f"({name})" not in text] == []


def test_every_package_is_named_in_the_architecture():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    apps = (
        "agents",
        "config",
        "connectors",
        "devices",
        "functions",
        "gateway",
        "knowledge",
        "plumbing",
        "registry",
        "runs",
        "supervisor",
    )
    packages = {path.parent.relative_to(ROOT) for app in apps for path in (ROOT / app).rglob("__init__.py")}
    hidden = {"migrations", "management", "commands", "admin", "templatetags", "tools"}

    assert [str(one) for one in sorted(packages) if not hidden & set(one.parts) and f"`{one}/`" not in text] == []
