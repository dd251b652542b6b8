"""Texts of the code are translated where they are shown, with the values in them."""

import time

import polib
import pytest
from django.utils import translation

from plumbing.texts import PLACE, shown
from tests.docs.messages import ROOT

CATALOG = polib.pofile(str(ROOT / "locale/de/LC_MESSAGES/code.po"))


@pytest.fixture
def german():
    with translation.override("de"):
        yield


def test_every_text_of_the_code_is_recognized_with_values_in_it(german):
    wrong = {}
    for entry in (one for one in CATALOG if " " in one.msgid and "config/names.py" not in dict(one.occurrences)):
        names = PLACE.findall(entry.msgid)
        values = {name: f"<{number}>" for number, name in enumerate(names)}
        text = entry.msgid % values if names else entry.msgid
        if shown(text) != (entry.msgstr % values if names else entry.msgstr):
            wrong[entry.msgid] = shown(text)
    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Step “a” needs itself.", "Schritt „a“ braucht sich selbst."),
        (
            "input “x” of step “a”: `b c` is not valid JMESPath: Bad token",
            "input “x” von Schritt „a“: `b c` ist kein gültiges",
        ),
        ("The frame is not valid. nme: It takes no fields.", "Der Frame ist nicht gültig. nme: Hier gibt es keine"),
        ("There is no agent “x” that you can see.", "(Agent)"),
        ("A person wrote this.", "A person wrote this."),
        ("", ""),
    ],
)
def test_values_and_sentences_are_translated_too(german, text, words):
    assert words in shown(text) if words else shown(text) == ""


def test_an_english_page_shows_the_text_as_it_is():
    assert shown("Step “a” needs itself.") == "Step “a” needs itself."


def test_a_long_text_of_somebody_else_takes_no_time(german):
    text = "“" + "has no: is not “ reads “ of step “" * 3000
    started = time.perf_counter()
    assert shown(text).endswith(text[-100:])
    assert time.perf_counter() - started < 2
