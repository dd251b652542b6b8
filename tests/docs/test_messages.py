"""Message files: what is compiled is what is translated, and translations keep their places."""

import re

import polib
import pytest

from tests.docs.messages import ROOT, catalogs, compiled

PLACE = re.compile(r"%\(\w+\)[sd]|%%|\{\w*\}|<[^>]+>")
GETTEXT = re.compile(r'\bn?gettext\(\s*"((?:[^"\\]|\\.)*)"')
NAMES = [str(path.relative_to(ROOT)) for path in catalogs()]


def test_there_are_files_for_the_code_for_pages_and_for_scripts():
    assert NAMES == [
        "locale/de/LC_MESSAGES/code.po",
        "locale/de/LC_MESSAGES/django.po",
        "locale/de/LC_MESSAGES/djangojs.po",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_compiled_file_is_that_of_its_source(name):
    path = ROOT / name
    assert path.with_suffix(".mo").read_bytes() == compiled(path), "run make messages"


@pytest.mark.parametrize("name", NAMES)
def test_a_translation_has_the_places_and_tags_of_its_text(name):
    for entry in polib.pofile(str(ROOT / name)):
        assert places(entry.msgstr_plural.get(0, entry.msgstr)) == places(entry.msgid), entry.msgid
        if entry.msgid_plural:
            assert places(entry.msgstr_plural[1]) == places(entry.msgid_plural), entry.msgid


@pytest.mark.parametrize("name", NAMES)
def test_every_text_is_translated_in_all_its_plural_forms(name):
    catalog = polib.pofile(str(ROOT / name))
    wrong = [entry.msgid for entry in catalog if not entry.translated() or entry.fuzzy]
    assert wrong == [], "translate these, then run make messages"
    assert all(sorted(entry.msgstr_plural) == [0, 1] for entry in catalog if entry.msgid_plural)


def test_every_text_of_a_script_is_collected():
    """xgettext loses its place at `1 << 20`, which it takes for the begin of XML."""
    known = {entry.msgid for entry in polib.pofile(str(ROOT / NAMES[2]))}
    scripts = [path for path in (ROOT / "static/muster").rglob("*.js") if "vendor" not in path.parts]
    said = {(path.name, text) for path in scripts for text in GETTEXT.findall(path.read_text())}
    assert len(said) > 100 and [one for one in sorted(said) if one[1] not in known] == []


def places(text):
    return set(PLACE.findall(text))


def test_the_texts_of_notices_are_collected():
    known = {entry.msgid for entry in polib.pofile(str(ROOT / NAMES[1]))}
    assert "Approval needed: %(tool)s" in known and "Signed-in browsers" in known
    assert "Regenerate" in {entry.msgid for entry in polib.pofile(str(ROOT / NAMES[2]))}
