"""The one form in which names of people are compared, limited and kept unique."""

import unicodedata


def normal_name(name: str) -> str:
    """The name as it is compared: without spaces around it, wide and composed letters as usual, small letters.

    “Bob”, “bob ” and “ｂｏｂ” are one name. Source: Unicode's NFKC_Casefold, as identifiers use it.
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded).strip()
