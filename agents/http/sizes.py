"""How large the rows of a list are, and what becomes of large fields: lists stay small whatever rows hold."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from agents.exceptions import Invalid
from plumbing import json_values

JSON = Any
PAGE_BYTES = 4_000_000  # what the rows of one page hold; a page has at least one row
FIELD_BYTES = 16_000  # a field that is larger is cut in lists,
CUT_BYTES = 1_000  # to this
TRUNCATED = "truncated"
MAX_METADATA = 64_000
SHORT = 64  # a text of so few characters is counted without writing it


def measure(value: JSON, most: int = PAGE_BYTES) -> int:
    """About how many bytes a value takes as JSON; it stops counting beyond `most`."""
    if isinstance(value, str):
        return measure_text(value, most)
    if not isinstance(value, list | tuple | Mapping):
        return measure_other(value)
    total, pending = 2, [value]
    while pending and total <= most:
        one = pending.pop()
        if isinstance(one, str):
            total += measure_text(one, most) + 2
        elif isinstance(one, Mapping):
            total += 2
            pending.extend(one.keys())
            pending.extend(one.values())
        elif isinstance(one, list | tuple):
            total += 2
            pending.extend(one)
        else:
            total += measure_other(one)
    return total


def measure_other(value: JSON) -> int:
    """A number, a moment, an id; an integer may have thousands of digits."""
    return max(8, value.bit_length() // 3) if isinstance(value, int) else 8


def measure_text(text: str, most: int) -> int:
    """The bytes of a text as JSON, with its quotes. One that has more characters than `most` is not written."""
    if len(text) > most or (len(text) <= SHORT and text.isascii()):
        return len(text) + 2
    return len(json_values.write(text))


OWN_NOTES = ("read_row", "known_values")  # of plumbing.stored_rows: the same values once more


def measure_row(row: Any) -> int:
    """What a row holds, with the rows that were read with it."""
    prefetched = getattr(row, "_prefetched_objects_cache", {})
    rows = [row, *row._state.fields_cache.values(), *chain.from_iterable(prefetched.values())]
    fields = (item for one in rows if one is not None for item in vars(one).items())
    return sum(measure(value) for name, value in fields if name not in OWN_NOTES)


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
    cut = {name: (shorten(value, CUT_BYTES)[0] if name in large else value) for name, value in row.items()}
    return {**cut, TRUNCATED: large}


def shorten(value: JSON, room: int) -> tuple[JSON, int]:
    """The beginning of a value, of the same type, and the room that is left."""
    if isinstance(value, str):
        short_text = cut_text(value, room)
        return short_text, room - measure_text(short_text, room)
    if isinstance(value, Mapping):
        short: dict[Any, Any] = {}
        for key in sorted(value, key=lambda name: measure(value[name], CUT_BYTES)):  # small values are kept whole
            if room <= len(str(key)):
                break
            short[key], room = shorten(value[key], room - len(str(key)))
        return {key: short[key] for key in value if key in short}, room
    if isinstance(value, list | tuple):
        some: list[Any] = []
        for one in value:
            if room <= 0:
                break
            first, room = shorten(one, room - 2)
            some.append(first)
        return some, room
    return value, room - 8


def cut_text(text: str, room: int) -> str:
    """Its beginning that takes no more than `room` bytes in UTF-8."""
    return text[:room].encode("utf-8", "surrogatepass")[:room].decode("utf-8", "ignore")
