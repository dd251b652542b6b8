"""Replaces letters that look like Latin ones, so that a value is found in a disguised text."""

import unicodedata

LATIN = dict(
    zip(
        "аеорсухіјѕԁһԛԝкмтвнгпзьꙍαβγεζηικνοπρστυχωϲϳ",
        "aeopcyxijsdhqwkmtbhrn3bwabyeznikvonpotuxwcj",
        strict=True,
    )
)
ODD = {**LATIN, "ı": "i", "ł": "l", "ø": "o", "đ": "d", "ß": "ss"}
HIDDEN = ("Mn", "Cf", "Cc")  # categories of characters that do not show


class Table(dict[int, str]):
    """A table for str.translate that computes each entry at its first use."""

    def __missing__(self, code: int) -> str:
        one = chr(code)
        is_hidden = unicodedata.category(one) in HIDDEN and one not in "\n\t "
        self[code] = "" if is_hidden else ODD.get(one, one)
        return self[code]


TABLE = Table()


def folded(text: str) -> str:
    """Removes differences in case, accents, width, look-alikes and invisible characters."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKD", text).casefold().translate(TABLE)
