"""Texts of the code are translated where they are shown, with the values in them."""

from functools import partial
from itertools import chain

import polib
import pytest
from django.utils import translation

from plumbing.texts import MOST, PLACE, load_texts, translate, translate_into
from tests.costs import measure_cpu
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
        if translate(text) != (entry.msgstr % values if names else entry.msgstr):
            wrong[entry.msgid] = translate(text)
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
    assert words in translate(text) if words else translate(text) == ""


def test_an_english_page_shows_the_text_as_it_is():
    assert translate("Step “a” needs itself.") == "Step “a” needs itself."


@pytest.mark.parametrize(
    "text",
    [
        "“" + "has no: is not “ reads “ of step “" * 3000,
        ". " * 5000,
        "x: y. " * 5000,
        "“a” " * 5000,
    ],
)
def test_a_long_text_of_somebody_else_takes_no_time(german, text):
    def translate_anew():
        translate_into.cache_clear()
        assert translate(text).endswith(text[-100:])

    assert measure_cpu(translate_anew, below=0.5) < 0.5


def test_no_text_is_divided_in_many_ways(german):
    """A text that repeats what stands between the values of a pattern, and does not end as the pattern does."""
    for pattern in chain(*load_texts("de").patterns.values()):
        first, *others, last = pattern.literals
        repeated = "".join(literal * 300 for literal in others)[:MOST]
        text = f"{first}{repeated}\0{last}\0"
        assert measure_cpu(partial(pattern.values, text), below=0.1) < 0.1, pattern.literals
