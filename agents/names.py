"""The normal form of user names: whoever types a name in another way means the same person."""

import unicodedata


def normal_name(name: str) -> str:
    """NFKC, without case and without white space around it: `bob`, `Bob ` and a fullwidth `ｂｏｂ` are one name."""  # noqa: RUF002
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded).strip()
