"""Finds values in texts: strictly in trusted words, leniently in untrusted text."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from plumbing.confusables import fold_lookalikes

from .dates import Day, find_dates, parse_day, without_dates

OPENING = " \"'`“”„‘’‚«»‹›([{<,;¿¡"
CLOSING = " \"'`“”‘’«»‹›)]}>,;"
ENDING = ".!?:…"
WRAPPING = OPENING + CLOSING + ENDING + "*_"
NUMBER = re.compile(r"\d+(?:[,'’]\d{3})*(?:\.\d+)?")
# Not part of a name, a time or an account.
ALONE = re.compile(rf"(?<![\w.,:/'’-]){NUMBER.pattern}(?![\w:/]|[-.,]\d)")
# Letters: a shorter value must stand alone in an untrusted text to count as found.
SHORT = 4
FIELD = re.compile(r"[a-z_][a-zA-Z0-9_-]*")


class Words:
    """Trusted texts, as their words, numbers and dates."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.dateless: list[str] = []
        self.bag: set[str] = set()
        self.numbers: set[str] = set()
        self.days: set[Day] = set()

    def add(self, value: Any) -> None:
        for text in collect_texts(value):
            dateless = without_dates(text)
            self.texts.append(f" {normalize_words(text)} ")
            self.dateless.append(f" {normalize_words(dateless)} ")
            self.bag.update(tokens(dateless))
            # Numbers count only outside dates, which are compared as dates.
            self.bag.update(word for word in tokens(text) if not word.isdigit())
            self.numbers.update(normalize_number(digits) for digits in ALONE.findall(dateless))
            self.days |= find_dates(text)

    def holds(self, value: Any, *, in_order: bool = True) -> bool:
        """`in_order`: as it is, at word boundaries; else word by word, as in a search."""
        if isinstance(value, int | float):
            return normalize_number(value) in self.numbers
        day = parse_day(value)
        if day is not None and any(day.is_on(trusted_day) for trusted_day in self.days):
            return True
        needle = normalize_words(str(value))
        if not needle:
            return False
        if not in_order:
            return all(self.has_word(word) for word in needle.split())
        texts = self.dateless if needle.isdigit() else self.texts
        return any(contains_words(needle, text) for text in texts)

    def has_word(self, word: str) -> bool:
        # A search may put quotes and commas around a word.
        return word in self.bag or word.strip(" \"'“”,;") in self.bag


class Marked:
    """An untrusted text. Spaces, punctuation, case and look-alike letters do not hide a value in it."""

    def __init__(self, value: Any) -> None:
        self.text = "\n".join(collect_texts(value))

    # Computed at first use: most untrusted texts are never searched.
    @cached_property
    def squeezed(self) -> str:
        return squeeze_text(self.text)

    @cached_property
    def alone(self) -> set[str]:
        """Its words, for values that are too short to be found inside others."""
        words = re.findall(r"[^\W_]+", fold_lookalikes(self.text))
        return set(words)

    @cached_property
    def numbers(self) -> set[str]:
        return {normalize_number(digits) for digits in NUMBER.findall(self.text)}

    @cached_property
    def days(self) -> set[Day]:
        return find_dates(self.text)

    def holds(self, value: Any) -> bool:
        if isinstance(value, int | float):
            return normalize_number(value) in self.numbers
        day = parse_day(value)
        # Only then: to find the dates of a long text takes time.
        if day is not None and any(day.is_on(marked_day) for marked_day in self.days):
            return True
        needle = squeeze_text(str(value))
        if len(needle) < SHORT:
            return needle in self.alone
        return needle in self.squeezed


def contains_words(word: str, text: str) -> bool:
    """Whether it occurs in the text as whole words. The text begins and ends with a space."""
    place = text.find(word)
    while place >= 0:
        if is_word_start(text, place) and is_word_end(text, place + len(word)):
            return True
        place = text.find(word, place + 1)
    return False


def is_word_start(text: str, place: int) -> bool:
    """Whether a word may begin here: after a space or an opening sign, also as #word or @word."""
    before = text[place - 1]
    if before in OPENING:
        return True
    return before in "#@" and text[place - 2 : place - 1] in OPENING


def is_word_end(text: str, place: int) -> bool:
    """Whether a word may end here: before a space or closing punctuation, or at the end of a sentence."""
    if text[place] in CLOSING:
        return True
    following = text[place + 1 : place + 2]
    return text[place] in ENDING and following in CLOSING + ENDING


def normalize_words(text: str) -> str:
    """In lower case, with single spaces."""
    lowered = unicodedata.normalize("NFC", text).lower()
    return " ".join(lowered.split())


def tokens(text: str) -> list[str]:
    """Its words, without surrounding punctuation and without a genitive's 's."""
    pieces = re.split(r"[\s,;]+", normalize_words(text))
    words = [piece.strip(WRAPPING) for piece in pieces]
    return [re.sub(r"['’]s$", "", word) for word in words if word]


def longer_words(text: str) -> list[str]:
    return [word for word in tokens(text) if len(word) >= SHORT]


def squeeze_text(text: str) -> str:
    """Its letters and digits alone, folded."""
    return re.sub(r"[\W_]+", "", fold_lookalikes(text))


def collect_texts(value: Any) -> list[str]:
    """Every value in it as text, and the names of objects that are not declared fields."""
    if isinstance(value, str):
        return [value]
    if value is None or isinstance(value, bool):
        return []
    if not isinstance(value, dict | list | tuple):
        return [normalize_number(value)]
    texts: list[str] = []
    parts: Iterable[Any] = value
    if isinstance(value, dict):
        texts = [name for name in value if not FIELD.fullmatch(name)]
        parts = value.values()
    for part in parts:
        texts += collect_texts(part)
    return texts


def normalize_number(value: Any) -> str:
    """The number in one spelling: 10, 10.0 and “10.00” are “10”, “1,000” is “1000”."""
    text = re.sub(r"[,'’]", "", value) if isinstance(value, str) else repr(value)
    try:
        return format(float(text), ".12g")
    except (ValueError, OverflowError):
        return text
