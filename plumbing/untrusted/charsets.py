"""Charsets named by untrusted sources: not every codec of Python is a charset, and punycode takes
quadratic time.
"""

import codecs

NO_CHARSETS = frozenset({"punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined"})


def known_charset(name: str) -> str:
    """The codec to decode with, or None for an unknown one or one that is not a charset of
    documents.
    """
    try:
        codec = codecs.lookup(name)
        # Refuses codecs from bytes to bytes, such as zlib.
        b"x".decode(name, "replace")
    except (LookupError, ValueError):
        return ""
    return "" if codec.name.replace("-", "_") in NO_CHARSETS else codec.name
