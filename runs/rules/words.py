"""Texts as something that values are found in: strictly in words that may be relied on, leniently in strangers'."""

import re
import unicodedata
from typing import Any

from .dates import Day, dates_in, moment, without_dates
from .lookalikes import folded

WRAPPING = "\"'`“”‘’«»()[]{}<>,;:!?.…*_ "
NUMBER = re.compile(r"\d+(?:[,'’]\d{3})*(?:\.\d+)?")
SHORT = 4  # letters: below this a value must stand alone in a stranger's text to count as found there


class Words:
    """Texts that may be relied on, as their words, numbers and days."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.bag: set[str] = set()
        self.numbers: set[str] = set()
        self.days: set[Day] = set()

    def add(self, value: Any) -> None:
        for text in texts_in(value):
            words = tokens(without_dates(text))
            self.texts.append(f" {' '.join(words)} ")
            self.bag.update(words)
            self.numbers.update(number(found) for found in NUMBER.findall(text))
            self.days |= dates_in(text)

    def holds(self, value: Any, *, in_order: bool = True) -> bool:
        if isinstance(value, int | float):
            return number(value) in self.numbers
        if (day := moment(value)) and any(day.is_on(one) for one in self.days):
            return True
        words = tokens(str(value))
        if not words or not self.bag.issuperset(words):
            return False
        wanted = f" {' '.join(words)} "
        return not in_order or len(words) == 1 or any(wanted in text for text in self.texts)


class Marked:
    """A stranger's text. Spaces, punctuation, case and look-alike letters do not hide a value in it."""

    def __init__(self, value: Any) -> None:
        plain = "\n".join(texts_in(value))
        self.squeezed = squeezed(plain)
        self.alone = set(re.findall(r"[^\W_]+", folded(plain)))
        self.numbers = {number(found) for found in NUMBER.findall(plain)}
        self.days = dates_in(plain)

    def holds(self, value: Any) -> bool:
        if isinstance(value, int | float):
            return number(value) in self.numbers
        if (day := moment(value)) and any(day.is_on(one) for one in self.days):
            return True
        wanted = squeezed(str(value))
        if len(wanted) < SHORT:
            return wanted in self.alone
        return wanted in self.squeezed


def tokens(text: str) -> list[str]:
    """Whole words in the spelling that counts: case and the marks around a word do not, letters do."""
    plain = unicodedata.normalize("NFC", text).casefold()
    found = (word.strip(WRAPPING) for word in re.split(r"[\s,;]+", plain))
    return [re.sub(r"['’]s$", "", word) for word in found if word]


def longer_words(text: str) -> list[str]:
    return [word for word in tokens(text) if len(word) >= SHORT]


def squeezed(text: str) -> str:
    return re.sub(r"[\W_]+", "", folded(text))


def texts_in(value: Any) -> list[str]:
    """Every value in it as text, the names of objects too."""
    if isinstance(value, dict):
        return [text for key, one in value.items() for part in (key, one) for text in texts_in(part)]
    if isinstance(value, list | tuple):
        return [text for one in value for text in texts_in(one)]
    if value is None or isinstance(value, bool):
        return []
    return [value if isinstance(value, str) else number(value)]


def number(value: Any) -> str:
    """10, 10.0, “10.00” and “1,000” are the numbers they look like."""
    text = re.sub(r"[,'’]", "", value) if isinstance(value, str) else repr(value)
    try:
        return format(float(text), ".12g")
    except (ValueError, OverflowError):
        return text
