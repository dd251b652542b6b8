"""The charset that a stranger names for a text: not every codec of Python is one, and punycode takes quadratic time."""

import codecs

NO_CHARSETS = frozenset({"punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined"})


def known_charset(name: str) -> str:
    """The codec to decode with, or nothing for what is unknown or no charset of documents."""
    try:
        codec = codecs.lookup(name)
        b"x".decode(name, "replace")  # refuses what turns bytes into bytes, such as zlib
    except (LookupError, ValueError):
        return ""
    return "" if codec.name.replace("-", "_") in NO_CHARSETS else codec.name
