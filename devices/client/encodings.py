"""How the bytes of a file become text, also where only a part of it is read. The standard library alone.

A file is UTF-8 unless it begins with the mark of another encoding. A byte that is no UTF-8 is taken for a letter of
Windows-1252, wherever in the file it stands: no guess from the beginning of a file loses letters that come later.
"""

import codecs
import re
from collections.abc import Callable

from .exceptions import ToolRefused

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    # Begins with the mark of UTF-16, so it comes first.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# These names leave open what the mark at the beginning of the file says.
OF_FAMILY = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
# These encode names, or are slow without a limit.
NO_TEXT = ("idna", "punycode", "undefined")
# What a byte means depends on all bytes before it.
WITH_STATES = ("iso2022", "hz", "utf-7")
# Bytes that may belong to one character.
LONGEST = 1 << 20
READ_AT_ONCE = 1 << 16
# Letters by which `surrogateescape` writes bytes.
NO_UTF8 = re.compile("[\udc80-\udcff]")
HAS_UTF8 = re.compile("[^\0-\x7f\udc80-\udcff]")
LETTERS = {0xDC00 + byte: bytes([byte]).decode("cp1252", "replace") for byte in range(0x80, 0x100)}

# Reads so many bytes, from this offset.
Read = Callable[[int, int], bytes]


def find_mark(head: bytes) -> tuple[bytes, str] | None:
    """The mark at the beginning of a file, and the encoding that it names."""
    for mark, encoding in MARKS:
        if head.startswith(mark):
            return mark, encoding
    return None


def choose_encoding(requested: str, head: bytes) -> str:
    """The encoding of a file that begins with these bytes. Raises ToolRefused for one that does not exist."""
    mark = find_mark(head)
    if not requested:
        return mark[1] if mark else "utf-8"
    name = find_encoding_name(requested)
    if name not in OF_FAMILY:
        return name
    if mark and mark[1].startswith(name.removesuffix("-sig")):
        return mark[1]
    return OF_FAMILY[name]


def find_encoding_name(requested: str) -> str:
    """The usual name of an encoding of text."""
    try:
        codec = codecs.lookup(requested)
        is_text = codec._is_text_encoding and codec.incrementaldecoder is not None
    except (LookupError, TypeError, ValueError):
        is_text = False
    if not is_text or codec.name in NO_TEXT:
        # Zlib and similar codecs would decompress without limit.
        raise ToolRefused("invalid_arguments", f"there is no encoding “{requested[:40]}”")
    return codec.name


def read_part(read: Read, size: int, offset: int, length: int, encoding: str) -> tuple[str, int | None, str]:
    """The text of a part of a file, where the next part begins (None behind the last one), and the part's encoding.

    The part has at least one character, however short it is, and begins with a whole one.
    """
    if offset >= size:
        return "", None, encoding
    start = find_start(read, offset, encoding)
    while True:
        data = read(length, start)
        is_last = start + len(data) >= size or not data
        raw, used = decode_part(read, data, start, encoding, is_last=is_last or length > LONGEST)
        if used or is_last:
            break
        length = max(2 * length, 8)
    if start == 0:
        raw = raw.removeprefix("\ufeff")
    if NO_UTF8.search(raw) and not HAS_UTF8.search(raw):
        encoding = "cp1252"
    return show_letters(raw), None if is_last else start + used, encoding


def find_start(read: Read, offset: int, encoding: str) -> int:
    """Where the first character begins that does not begin before `offset`."""
    if encoding == "utf-8":
        return start_in_utf8(read, offset)
    if encoding.startswith("utf-32"):
        return -(-offset // 4) * 4
    if not encoding.startswith("utf-16"):
        return offset
    start = -(-offset // 2) * 2
    around = read(4, start - 2) if start else b""
    try:
        is_inside = len(around) == 4 and len(around.decode(encoding)) == 1
    except UnicodeDecodeError:
        return start
    return start + 2 if is_inside else start


def start_in_utf8(read: Read, offset: int) -> int:
    first = max(0, offset - 3)
    around = read(offset - first + 3, first)
    for lead in range(offset - first):
        for end in range(offset - first + 1, min(lead + 4, len(around)) + 1):
            if is_one_letter(around[lead:end]):
                return first + end
    return offset


def is_one_letter(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False


def decode_part(read: Read, data: bytes, start: int, encoding: str, *, is_last: bool) -> tuple[str, int]:
    """Text in which bytes that are no UTF-8 are escaped, and how many bytes it takes: what is not complete at the end
    is left for the next part. Raises ToolRefused.
    """
    decoder = codecs.getincrementaldecoder(encoding)(choose_error_handler(encoding))
    try:
        if encoding.startswith(WITH_STATES):
            # What a byte means depends on those before it, so all of them are read.
            for at in range(0, start, READ_AT_ONCE):
                before = read(min(READ_AT_ONCE, start - at), at)
                decoder.decode(before)
        text = decoder.decode(data, is_last)
    except UnicodeError as error:
        raise ToolRefused("invalid_arguments", f"this file cannot be read as “{encoding}”: {error}"[:300])
    if is_last:
        return text, len(data)
    incomplete, _ = decoder.getstate()
    return text, len(data) - len(incomplete)


def decode_whole(data: bytes, encoding: str) -> str:
    return data.decode(encoding, choose_error_handler(encoding))


def choose_error_handler(encoding: str) -> str:
    if encoding == "utf-8":
        return "surrogateescape"
    return "replace"


def show_letters(raw: str) -> str:
    """The text with a letter for each byte that is no UTF-8; the places of all other letters stay."""
    if not NO_UTF8.search(raw):
        return raw
    return raw.translate(LETTERS)


def count_bytes(raw: str, encoding: str) -> int:
    """How many bytes of the file this text was."""
    data = raw.encode(encoding, choose_error_handler(encoding))
    return len(data)
