"""Bytes as text: by a byte order mark, as UTF-8, by what the text declares, or by what its letters look like."""

from __future__ import annotations

import codecs
import re

from .report import LeftOut, Refused

MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
         (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))  # fmt: skip
DECLARED = re.compile(rb"(?i)(?:charset|encoding)\s*=\s*[\"']?([a-z0-9_.:-]{2,30})")
# As browsers read them: each is a superset of what its name says, and programs write the superset.
WIDER = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932",
         "euc_kr": "cp949", "iso8859-9": "cp1254"}  # fmt: skip
NAMES = {"iso-8859-8-i": "iso-8859-8", "iso-8859-8-e": "iso-8859-8", "iso-8859-6-i": "iso-8859-6", "x-sjis": "cp932",
         "ks_c_5601-1987": "cp949", "x-gbk": "gb18030", "windows-874": "cp874", "x-mac-roman": "mac-roman"}  # fmt: skip
NO_CHARSETS = frozenset({"punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined", "utf_7"})
SHIFTING = ("iso2022", "hz")
UNPRINTED = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f]")
# Bytes that a guess reads.
LOOKED_AT = 64 << 10


def decode_text(content: bytes, left_out: LeftOut, declared: str = "", place: str = "document") -> str:
    """The text of these bytes. Raises Refused if they are not text."""
    for mark, codec in MARKS:
        if content.startswith(mark):
            return decode_leniently(content[len(mark) :], codec, left_out, place)
    if codec := find_wide_codec(content):
        return decode_leniently(content, codec, left_out, place)
    if b"\0" in content[:4096]:
        raise Refused("unsupported_type", "This kind of file has no text that can be read.")
    named = find_codec(declared) or find_codec(find_declared_charset(content))
    # Codecs with shift sequences use only ASCII bytes, so their texts are valid UTF-8 too, and wrong.
    codecs_by_rank = [named, "utf-8"] if named.startswith(SHIFTING) else ["utf-8", named]
    for codec in filter(None, codecs_by_rank):
        try:
            return content.decode(codec)
        except UnicodeDecodeError:
            continue
    return guess_text(content, left_out, place)


def decode_leniently(content: bytes, codec: str, left_out: LeftOut, place: str) -> str:
    """The text in this codec; bytes that are no text in it are replaced, and listed."""
    text = content.decode(codec, "replace")
    if "\ufffd" in text:
        left_out.add(place, f"Some bytes are no text in {codec.upper()}; they stand as \ufffd.")
    return text


def find_wide_codec(content: bytes) -> str:
    """The codec of UTF-16 without a mark, or empty: in most such texts every other byte is often zero."""
    head = content[:4096]
    if len(head) < 4 or len(head) % 2:
        head = head[:-1]
    low, high = head[0::2], head[1::2]
    if not low or b"\0\0\0" in head:
        return ""
    if high.count(0) > len(high) * 0.4 and not low.count(0):
        return "utf-16-le"
    if low.count(0) > len(low) * 0.4 and not high.count(0):
        return "utf-16-be"
    return ""


def find_declared_charset(content: bytes) -> str:
    """The charset that a page or an XML document names in its beginning."""
    match = DECLARED.search(content[:2048])
    if not match or content.lstrip()[:1] != b"<":
        return ""
    return match[1].decode()


def find_codec(name: str) -> str:
    """The codec of a charset; empty for an unknown one or one that is not a charset of documents."""
    name = name.strip().strip("\"'").lower()
    try:
        codec = codecs.lookup(NAMES.get(name, name)).name
        # Refuses codecs from bytes to bytes, such as zlib.
        b"x".decode(codec, "replace")
    except (LookupError, ValueError):
        return ""
    if codec.replace("-", "_") in NO_CHARSETS:
        return ""
    return WIDER.get(codec, codec)


def guess_text(content: bytes, left_out: LeftOut, place: str) -> str:
    """The text in the codec that its bytes look like, by the frequencies of letters in the languages of the world.

    Raises Refused if they are not text, and ImportError without the library chardet.
    """
    import chardet

    encoding = chardet.detect(content[:LOOKED_AT])["encoding"]
    codec = find_codec(encoding or "") or "cp1252"
    text = content.decode(codec, "replace")
    if len(UNPRINTED.findall(text[:4096])) > len(text[:4096]) // 50:
        raise Refused("unsupported_type", "This kind of file has no text that can be read.")
    left_out.note(place, f"The encoding is not stated: it was read as {codec}. If letters are wrong, save it as UTF-8.")
    if "\ufffd" in text:
        left_out.add(place, f"Some bytes are no text in {codec}; they stand as \ufffd.")
    return text
