"""Every package that is installed may be used and passed on without the terms of the GPL."""

import re
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
# GPL and AGPL, not the Lesser GPL, whose libraries may be linked.
GPL = re.compile(r"(?<!L)(?<!Lesser )\bA?GPL|GNU (Affero )?General Public", re.IGNORECASE)


def licence_of(metadata) -> str:
    """The terms that a package states. Of several to choose from, those without GPL count."""
    stated = metadata.get("License-Expression") or ""
    classified = [one for one in metadata.get_all("Classifier") or [] if one.startswith("License ::")]
    terms = [stated] if stated else [*classified, (metadata.get("License") or "").partition("\n")[0]]
    choices = [choice for term in terms for choice in re.split(r" OR ", term) if choice]
    free = [choice for choice in choices if not GPL.search(choice)]
    is_choice = len(choices) > 1 and any(" OR " in term for term in terms)
    return "; ".join(free if is_choice else choices)


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_no_installed_package_has_the_terms_of_the_gpl():
    licences = {one.metadata["Name"]: licence_of(one.metadata) for one in distributions()}
    assert {name: terms for name, terms in licences.items() if GPL.search(terms)} == {}


def test_the_packages_of_documents_are_among_those_that_are_checked():
    installed = {normalized(one.metadata["Name"]) for one in distributions()}
    pinned = set(PINNED.findall((ROOT / "requirements-documents.txt").read_text()))
    assert len(pinned) >= 8 and {normalized(name) for name in pinned} <= installed


def test_the_words_of_licences_are_told_apart():
    for terms in ("GPL-3.0-only", "GNU General Public License v3 (GPLv3)", "AGPL-3.0-or-later", "GPLv2"):
        assert GPL.search(terms), terms
    for terms in ("LGPL-3.0-only", "GNU Lesser General Public License v3 (LGPLv3)", "MIT", "0BSD"):
        assert not GPL.search(terms), terms
