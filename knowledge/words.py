"""Word stems of texts and questions, the same on both databases. Plain Python."""

import re

from plumbing.words import find_words

NUMBER = re.compile(r"\d[\d.,:/-]*\d|\d")
LONGEST = 40  # characters of a number, such as that of an invoice


def stems_of(text: str) -> list[str]:
    """The stems of the words, and the numbers, which say much in a question."""
    return [*find_words(text), *(number[:LONGEST] for number in NUMBER.findall(text))]
