"""The one form in which names of people are compared, limited and kept unique, and what they look like."""

import unicodedata

from plumbing.confusables import HIDDEN, LOOKALIKES

ALIKE = {**LOOKALIKES, "0": "o", "1": "l"}


def normal_name(name: str) -> str:
    """The name as it is compared: without spaces around it, wide and composed letters as usual, small letters.

    “Bob”, “bob ” and “ｂｏｂ” are one name. Source: Unicode's NFKC_Casefold, as identifiers use it.
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded).strip()


def find_look(name: str) -> str:
    """What the name looks like: letters of other alphabets as the Latin ones that they resemble.

    The digits 0 and 1 are o and l. Nobody signs in with it: two people must not look like one.
    """
    visible = (letter for letter in normal_name(name) if unicodedata.category(letter) not in HIDDEN)
    return "".join(ALIKE.get(letter, letter) for letter in visible)
