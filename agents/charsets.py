"""The charset that a stranger names for a text: not every codec of Python is one, and punycode takes quadratic time."""

import codecs

NO_CHARSETS = frozenset({"punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined"})


def known_charset(name: str) -> str:
    """The codec to decode with, or nothing for what is unknown or no charset of documents."""
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        return ""
    is_charset = codec._is_text_encoding and codec.name.replace("-", "_") not in NO_CHARSETS  # type: ignore[attr-defined]
    return codec.name if is_charset else ""
