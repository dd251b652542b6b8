"""Words of texts and questions for matching without a language model: folded, stemmed, without stop words. The same
on both databases, and for documents, memories and the catalogue of tools. Plain Python.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from devices.client.folding import UNSPACED, fold_text, split_bigrams

LITTLE = frozenset(
    """
    a about again all also am an and any are as at be because been but by can could did do does each every for from
    get give go going good got had has have he hello her here hi him his how i if in into is it its just know last
    let like look made make many may me might more most much must my need new next no not now of off ok on one only
    or other our out over own please put really right same say see shall she should show so some something such take
    tell thank thanks that than the their them then there these they thing things think this those through to too
    two up us use using very want was way we well were what when where which while who whole whom whose why will
    with without would yes yet you your
    """.split()  # noqa: SIM905 (read as a text)
)
# Words for operators, so that "3 + 4" finds a calculator.
SIGNS = (
    (re.compile(r"\d\s*[-+*/%^]\s*\(?\d|\)\s*[-+*/]"), "calculate arithmetic expression"),
    (re.compile(r"\d\s*\+\s*\d"), "add sum plus"),
    (re.compile(r"\d\s*[*×]\s*\d"), "multiply product times"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "date"),
)
WORD = re.compile(r"[^\W\d_]+")
NUMBER = re.compile(r"\d[\d.,:/-]*\d|\d")
# Letters of a word that count: the stems are kept.
LONGEST = 60
ENDINGS = """
    ations ation ating ators ator ated ates ate ically ical ants ant ances ance ments ment ions ion ings ing
    ics ic ors or ers er ies ied ed es ly s e y
    """.split()  # noqa: SIM905
# Characters, such as those of an invoice.
LONGEST_NUMBER = 40


def list_search_stems(text: str) -> list[str]:
    """The stems of the words, and the numbers, which say much in a question."""
    stems = list_word_stems(text)
    for number in NUMBER.findall(fold_text(text)):
        stems.append(number[:LONGEST_NUMBER])
    return stems


def list_word_stems(text: str) -> list[str]:
    """Stems in order, without stop words; a pattern such as "3 + 4" adds the words it stands for. Of Chinese, Japanese
    and Korean each two letters that stand together are a word.
    """
    text = fold_text(text)
    added_words = [words for sign, words in SIGNS if sign.search(text)]
    text = " ".join([text, *added_words])
    stems: list[str] = []
    for word in WORD.findall(text.replace("_", " ")):
        stems.extend(stem_letters(word))
    return stems


def stem_letters(letters: str) -> Iterator[str]:
    """Of letters that no space parts."""
    if letters.isascii():
        if letters not in LITTLE:
            yield stem(letters[:LONGEST])
        return
    start = 0
    for run in UNSPACED.finditer(letters):
        if start < run.start():
            yield stem(letters[start : run.start()][:LONGEST])
        yield from split_bigrams(run[0])
        start = run.end()
    if start < len(letters):
        yield stem(letters[start:][:LONGEST])


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """A crude stemmer: cuts plural, -ing, -ed, -ation and the like if three letters remain."""
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    # “running” is left as “runn”.
    if len(word) > 3 and word[-1] == word[-2]:
        return word[:-1]
    return word
