"""Dates that a text mentions, in the usual spellings."""

import re
from dataclasses import dataclass
from datetime import date
from typing import Any

NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
MONTHS = {name[:length]: place for place, name in enumerate(NAMES, start=1) for length in (3, 4, len(name))}
MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
ISO = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")
DOTTED = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b")
SLASHED = re.compile(r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b")
MONTH_FIRST = re.compile(rf"\b({MONTH})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(\d{{4}})\b)?", re.IGNORECASE)
DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({MONTH})\b\.?(?:,?\s+(\d{{4}})\b)?", re.IGNORECASE)
RANGE = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s*(?:to|until|till|and|-|–)\s*(?:the\s+)?(\d{{1,2}})(?:st|nd|rd|th)?\s+"
    rf"(?:of\s+)?({MONTH})\b(?:,?\s+(\d{{4}})\b)?",
    re.IGNORECASE,
)
MOMENT = re.compile(r"^(\d{4})-(\d{2})-(\d{2})(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$")


@dataclass(frozen=True, slots=True)
class Day:
    """A date; without a year it is that day of any year."""

    month: int
    day: int
    year: int | None = None

    def is_on(self, other: "Day") -> bool:
        years = {self.year, other.year} - {None}
        return (self.month, self.day) == (other.month, other.day) and len(years) < 2


def moment(value: Any) -> Day | None:
    """The day of a value that is a date, or a date and a time."""
    match = MOMENT.match(value.strip()) if isinstance(value, str) else None
    return day(*map(int, match.groups())) if match else None


def dates_in(text: str) -> set[Day]:
    """Every date that the text mentions."""
    days = [day(int(year), int(month), int(of)) for year, month, of in ISO.findall(text)]
    days += [day(int(year), int(month), int(of)) for of, month, year in DOTTED.findall(text)]
    days += [day(int(year), *pair) for one, two, year in SLASHED.findall(text) for pair in either(one, two)]
    days += [day(year_of(year), MONTHS[month.lower()], int(of)) for month, of, year in MONTH_FIRST.findall(text)]
    days += [day(year_of(year), MONTHS[month.lower()], int(of)) for of, month, year in DAY_FIRST.findall(text)]
    days += [day(year_of(year), MONTHS[month.lower()], int(of)) for of, _, month, year in RANGE.findall(text)]
    return {one for one in days if one}


def without_dates(text: str) -> str:
    """The text with a gap for each date written in words: the 13 of “June 13” is not a value of its
    own.
    """
    for pattern in (RANGE, MONTH_FIRST, DAY_FIRST):
        text = pattern.sub(" … ", text)
    return text


def either(one: str, two: str) -> list[tuple[int, int]]:
    """(month, day) in both orders, since countries differ."""
    return [(int(one), int(two)), (int(two), int(one))]


def year_of(text: str) -> int | None:
    return int(text) if text else None


def day(year: int | None, month: int, of: int) -> Day | None:
    try:
        date(year or 2024, month, of)
    except ValueError:
        return None
    return Day(month, of, year)
