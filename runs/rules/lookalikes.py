"""Letters that look like Latin ones, folded onto them, so that a value is found again in a disguised text."""

import unicodedata

LATIN = dict(
    zip(
        "аеорсухіјѕԁһԛԝкмтвнгпзьꙍαβγεζηικνοπρστυχωϲϳ",
        "aeopcyxijsdhqwkmtbhrn3bwabyeznikvonpotuxwcj",
        strict=True,
    )
)
TABLE = str.maketrans({**LATIN, "ı": "i", "ł": "l", "ø": "o", "đ": "d", "ß": "ss"})


def folded(text: str) -> str:
    """Case, accents, widths, look-alikes and characters that do not show are gone."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text).casefold()
    shown = (one for one in plain if unicodedata.category(one) not in ("Mn", "Cf", "Cc") or one in "\n\t ")
    return "".join(shown).translate(TABLE)
