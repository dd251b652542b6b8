"""How large the rows of a list are, and what becomes of large fields: lists stay small whatever rows hold."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from agents.exceptions import Invalid
from plumbing import json_values

JSON = Any
# What the rows of one page hold; a page has at least one row.
PAGE_BYTES = 4_000_000
# A field that is larger is cut in lists…
FIELD_BYTES = 16_000
# … to this.
CUT_BYTES = 1_000
TRUNCATED = "truncated"
MAX_METADATA = 64_000
# A text of so few characters is counted without writing it.
SHORT = 64


def measure(value: JSON, most: int = PAGE_BYTES) -> int:
    """About how many bytes a value takes as JSON; it stops counting beyond `most`."""
    if isinstance(value, str):
        return measure_text(value, most)
    if not isinstance(value, list | tuple | Mapping):
        return measure_other(value)
    total = 2
    pending = [value]
    while pending and total <= most:
        part = pending.pop()
        if isinstance(part, str):
            # With the comma or the colon, and a space.
            total += measure_text(part, most) + 2
        elif isinstance(part, Mapping):
            total += 2
            pending.extend(part.keys())
            pending.extend(part.values())
        elif isinstance(part, list | tuple):
            total += 2
            pending.extend(part)
        else:
            total += measure_other(part)
    return total


def measure_other(value: JSON) -> int:
    """A number, a moment, an id; an integer may have thousands of digits."""
    if not isinstance(value, int):
        return 8
    # A digit holds 3.3 bits.
    return max(8, value.bit_length() // 3)


def measure_text(text: str, most: int) -> int:
    """The bytes of a text as JSON, with its quotes. One that has more characters than `most` is not written."""
    if len(text) > most or (len(text) <= SHORT and text.isascii()):
        return len(text) + 2
    return len(json_values.dump_json(text))


# Of plumbing.stored_rows: the same values once more.
OWN_NOTES = ("read_row", "known_values")


def measure_row(row: Any) -> int:
    """What a row holds, with the rows that were read with it."""
    total = 0
    prefetched = getattr(row, "_prefetched_objects_cache", {})
    for related_row in (row, *row._state.fields_cache.values(), *chain.from_iterable(prefetched.values())):
        # A reference that is empty, as it was read.
        if related_row is None:
            continue
        for name, value in vars(related_row).items():
            if name not in OWN_NOTES:
                total += measure(value)
    return total


def within_page(rows: Iterable[Any], most: int | None = None) -> Iterator[Any]:
    """The first rows that together hold no more than a page, and at least one."""
    most = PAGE_BYTES if most is None else most
    total = 0
    for row in rows:
        yield row
        total += measure_row(row)
        if total > most:
            return


def within_bytes(values: Iterable[JSON], most: int = PAGE_BYTES) -> Iterator[JSON]:
    """The first values that together take no more than a page as JSON, and at least one."""
    total = 0
    for value in values:
        size = measure(value, most)
        if total and total + size > most:
            return
        total += size
        yield value


def check_metadata(metadata: Mapping[str, JSON] | None) -> None:
    """Lists show the metadata of each of their rows. Raises Invalid."""
    if metadata and measure(metadata, MAX_METADATA) > MAX_METADATA:
        raise Invalid(
            "The metadata may hold at most 64 kB.",
            code="metadata_too_large",
            hint="Send large values as the input, or as a file.",
        )


def cut_fields(row: JSON) -> JSON:
    """The row of a list: a large field becomes its beginning, and `truncated` names it."""
    large = [name for name, value in row.items() if measure(value, FIELD_BYTES) > FIELD_BYTES]
    if not large:
        return row
    cut = dict(row)
    for name in large:
        cut[name], _room = shorten(row[name], CUT_BYTES)
    cut[TRUNCATED] = large
    return cut


def shorten(value: JSON, room: int) -> tuple[JSON, int]:
    """The beginning of a value, of the same type, and the room that is left."""
    if isinstance(value, str):
        short_text = cut_text(value, room)
        return short_text, room - measure_text(short_text, room)
    if isinstance(value, Mapping):
        return shorten_object(value, room)
    if isinstance(value, list | tuple):
        short_list: list[Any] = []
        for item in value:
            if room <= 0:
                break
            short_item, room = shorten(item, room - 2)
            short_list.append(short_item)
        return short_list, room
    return value, room - 8


def shorten_object(value: Mapping[Any, JSON], room: int) -> tuple[JSON, int]:
    short: dict[Any, Any] = {}
    # Small values first: they are kept whole, and one large value takes none of them away.
    for key in sorted(value, key=lambda name: measure(value[name], CUT_BYTES)):
        key_length = len(str(key))
        if room <= key_length:
            break
        short[key], room = shorten(value[key], room - key_length)
    in_order = {key: short[key] for key in value if key in short}
    return in_order, room


def cut_text(text: str, room: int) -> str:
    """Its beginning that takes no more than `room` bytes in UTF-8."""
    # Cut twice: a letter has at least one byte, so what is behind `room` letters need not be encoded.
    encoded = text[:room].encode("utf-8", "surrogatepass")
    return encoded[:room].decode("utf-8", "ignore")
