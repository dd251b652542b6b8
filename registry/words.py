"""Words of a text, for matching without a language model: lower case, no endings, no little words. Plain Python."""

import re
from collections.abc import Iterable
from functools import lru_cache

LITTLE = frozenset(
    """
    a an and any are as at be been but by can could did do does for from get give had has have he her him his how i
    if in into is it its just let like me my no not of off on one or our out please shall she should so some tell
    than that the their them then there these they this those to too up us use using want was we were what when
    where which who why will with would you your
    """.split()  # noqa: SIM905 (read as a text)
)
# What signs say in words, so that "3 + 4" finds a calculator.
SIGNS = (
    (re.compile(r"\d\s*[-+*/%^]\s*\(?\d|\)\s*[-+*/]"), "calculate arithmetic expression"),
    (re.compile(r"\d\s*\+\s*\d"), "add sum plus"),
    (re.compile(r"\d\s*[*×]\s*\d"), "multiply product times"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "date"),
)
WORD = re.compile(r"[a-z]+|[^\W\d_]+", re.UNICODE)


def words_of(text: str) -> list[str]:
    """Stems in order, little words left out; a shape such as "3 + 4" adds the words it stands for."""
    text = text.lower()
    text += "".join(f" {said}" for sign, said in SIGNS if sign.search(text))
    return [stem(word) for word in WORD.findall(text.replace("_", " ")) if word not in LITTLE]


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Crude and steady: plural, -ing, -ed, -ion and the like are cut where four letters stay."""
    for ending in (
        "ations",
        "ation",
        "ators",
        "ator",
        "ings",
        "ing",
        "ions",
        "ion",
        "ers",
        "er",
        "ies",
        "ed",
        "es",
        "ly",
        "s",
        "e",
        "y",
    ):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def shared(words: Iterable[str], others: Iterable[str]) -> set[str]:
    return set(words) & set(others)
