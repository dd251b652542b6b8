"""Replaces letters that look like Latin ones, so that a value is found in a disguised text."""

import unicodedata

# Cyrillic, Greek and other letters, and below each the Latin one that it looks like.
LATIN = dict(
    zip(
        "аеорсухіјѕԁһԛԝкмтвнгпзьꙍαβγεζηικνοπρστυχωϲϳ",
        "aeopcyxijsdhqwkmtbhrn3bwabyeznikvonpotuxwcj",
        strict=True,
    )
)
# Also single letters of other kinds; “ß” is the one that becomes two.
LOOKALIKES = {**LATIN, "ı": "i", "ł": "l", "ø": "o", "đ": "d", "ß": "ss"}
# Categories of characters that do not show.
HIDDEN = ("Mn", "Cf", "Cc")


class Table(dict[int, str]):
    """A table for str.translate that computes each entry at its first use."""

    # It has at most one entry for each character of Unicode, and in practice a few hundred.
    def __missing__(self, code: int) -> str:
        letter = chr(code)
        is_hidden = unicodedata.category(letter) in HIDDEN and letter not in "\n\t "
        plain_letter = "" if is_hidden else LOOKALIKES.get(letter, letter)
        self[code] = plain_letter
        return plain_letter


TABLE = Table()


def fold_lookalikes(text: str) -> str:
    """Removes differences in case, accents, width, look-alikes and invisible characters."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKD", text).casefold().translate(TABLE)
