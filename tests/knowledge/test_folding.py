"""Searches find words in every spelling of Unicode and in scripts without spaces, on both databases."""

import unicodedata

import pytest

from devices.client.folding import fold_text, list_spellings, split_bigrams
from knowledge.collections.search import search_collection
from knowledge.memory.filters import MemoryFilter
from knowledge.models import Memory
from knowledge.words import list_word_stems
from registry import tool_search
from tests.knowledge.documents import collection_with
from tests.spellings import TEXTS

QUESTIONS = {
    "保留收据": "chinese", "客服": "chinese", "領収書": "japanese", "영수증": "korean", "コーヒー": "halfwidth", "café": "decomposed",
    unicodedata.normalize("NFD", "café"): "decomposed", "STRASSE": "street", "strasse": "street", "Fußballplatz": "capitals",
    "geöffnet": "capitals", "4711": "wide",
}  # fmt: skip


def test_a_collection_is_searched_in_every_script_and_spelling(alice):
    box = collection_with(alice, TEXTS)
    found = {}
    for question in QUESTIONS:
        results = search_collection(box, question, limit=5)
        found[question] = results[0].chunk.document.name if results else ""
    assert found == QUESTIONS
    assert search_collection(box, "収据", limit=5) == [], "no two letters of it stand together"
    [result] = search_collection(box, "café", limit=1)
    assert result.chunk.text == TEXTS["decomposed"], "what is shown is not folded"


@pytest.mark.parametrize("question", QUESTIONS)
def test_tools_are_found_in_every_script_and_spelling(question):
    entries = [tool_search.Entry((number, name), dict.fromkeys(list_word_stems(text), 1.0), text)
               for number, (name, text) in enumerate(TEXTS.items())]  # fmt: skip
    stated = [match.key[1] for match in tool_search.rank_by_words(entries, question)]
    assert question == "4711" or stated[:1] == [QUESTIONS[question]]


def test_the_list_of_memories_finds_other_spellings(alice):
    for number, text in enumerate(TEXTS.values()):
        Memory.objects.create(owner=alice, text=text, words=f"{number}")
    for question in ("保留收据", "café", "STRASSE", "Fußballplatz", "geöffnet"):
        rows = MemoryFilter({"search": question}, queryset=Memory.objects.all()).qs
        assert [row.text for row in rows] == [TEXTS[QUESTIONS[question]]], question


def test_folding_composes_letters_and_forgets_case_and_width():
    assert fold_text("Ｓtraße") == fold_text("STRASSE") == "strasse"
    assert fold_text(unicodedata.normalize("NFD", "É")) == "é"
    assert list(split_bigrams("退货须")) == ["退货", "货须"] and list(split_bigrams("退")) == ["退"]
    assert list_spellings("parcel") == ["parcel"] and "straße" in list_spellings("strasse")
    assert list_word_stems("iPhone手机壳 case") == ["iphon", "手机", "机壳", "cas"]


@pytest.mark.parametrize("word", ["müller", "tür", "größe", "naïve", "čapek", "résumé"])
def test_a_letter_with_an_accent_does_not_part_a_word(word):
    assert len(list_word_stems(word)) == 1


def test_letters_and_signs_that_no_space_parts_are_parted_by_their_script():
    assert list_word_stems("GPT模型") == ["gpt", "模型"]
