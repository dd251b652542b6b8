"""How large the rows of a list are, and what becomes of large fields: lists stay small whatever rows hold."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

JSON = Any
PAGE_BYTES = 4_000_000  # what the rows of one page hold; a page has at least one row
FIELD_BYTES = 16_000  # a field that is larger is cut in lists,
CUT_BYTES = 1_000  # to this
TRUNCATED = "truncated"


def measure(value: JSON, most: int = PAGE_BYTES) -> int:
    """About how many bytes a value takes as JSON; it stops counting beyond `most`."""
    if isinstance(value, str):
        return len(value) + 2
    if not isinstance(value, list | tuple | Mapping):
        return 8
    total, pending = 2, [value]
    while pending and total <= most:
        one = pending.pop()
        if isinstance(one, str):
            total += len(one) + 4
        elif isinstance(one, Mapping):
            total += 2
            pending.extend(one.keys())
            pending.extend(one.values())
        elif isinstance(one, list | tuple):
            total += 2
            pending.extend(one)
        else:
            total += 8
    return total


OWN_NOTES = ("read_row", "known_values")  # of plumbing.stored_rows: the same values once more


def measure_row(row: Any) -> int:
    """What a row holds, with the rows that were read with it."""
    rows = [row, *row._state.fields_cache.values()]
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
        return value[:room], room - min(len(value), room)
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
