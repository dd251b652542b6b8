"""The one form in which names of people are compared, limited and kept unique, and what they look like; technical
names made from what people write.
"""

import re
import unicodedata

from plumbing.confusables import HIDDEN, LOOKALIKES

ALIKE = {**LOOKALIKES, "0": "o", "1": "l"}
# Letters that are written with other Latin ones; those with a mark above or below lose it.
LATIN = {
    "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "œ": "oe", "ø": "oe", "å": "aa", "đ": "d", "ð": "d",
    "þ": "th", "ł": "l", "ħ": "h", "ı": "i",
}  # fmt: skip
CYRILLIC = {
    "а": "a", "б": "b", "в": "v", "г": "g", "д": "d", "е": "e", "ё": "yo", "ж": "zh", "з": "z", "и": "i", "й": "y",
    "к": "k", "л": "l", "м": "m", "н": "n", "о": "o", "п": "p", "р": "r", "с": "s", "т": "t", "у": "u", "ф": "f",
    "х": "kh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ы": "y", "ь": "", "э": "e", "ю": "yu",
    "я": "ya", "і": "i", "ї": "yi", "є": "ye", "ґ": "g",
}  # fmt: skip
GREEK = {
    "α": "a", "β": "v", "γ": "g", "δ": "d", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i", "κ": "k", "λ": "l",
    "μ": "m", "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s", "ς": "s", "τ": "t", "υ": "y", "φ": "f",
    "χ": "ch", "ψ": "ps", "ω": "o",
}  # fmt: skip
TRANSLITERATED = {**LATIN, **CYRILLIC, **GREEK}


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


def make_technical_name(text: str, *, separator: str = "-", length: int = 64) -> str:
    """The text in lower-case Latin letters and digits; "" if it has none that can be transliterated.

    “Rechnungen für Köln” becomes rechnungen-fuer-koeln.
    """
    latin = "".join(map(transliterate, normal_name(text)))
    words = re.findall("[a-z0-9]+", latin)
    return separator.join(words)[:length].strip(separator)


def transliterate(letter: str) -> str:
    """The letter in Latin ones; one with a mark that is not listed as the letter without it."""
    if letter in TRANSLITERATED:
        return TRANSLITERATED[letter]
    plain = "".join(part for part in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(part))
    return "".join(TRANSLITERATED.get(part, part) for part in plain)
