"""Dates that a text mentions, in the usual spellings."""

import re
from dataclasses import dataclass
from datetime import date
from typing import Any, cast

NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
# The number of each month by its name and its usual abbreviations: sep, sept, september.
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
        if (self.month, self.day) != (other.month, other.day):
            return False
        return self.year is None or other.year is None or self.year == other.year


def parse_day(value: Any) -> Day | None:
    """The day of a value that is a date, or a date and a time."""
    if not isinstance(value, str):
        return None
    match = MOMENT.match(value.strip())
    if match is None:
        return None
    year, month, day_of_month = map(int, match.groups())
    return day(year, month, day_of_month)


def find_dates(text: str) -> set[Day]:
    """Every date that the text mentions."""
    days: set[Day | None] = set()
    for year, month, number in ISO.findall(text):
        days.add(day(int(year), int(month), int(number)))
    for number, month, year in DOTTED.findall(text):
        days.add(day(int(year), int(month), int(number)))
    for first, second, year in SLASHED.findall(text):
        # Countries differ in the order of day and month: take both.
        days.add(day(int(year), int(first), int(second)))
        days.add(day(int(year), int(second), int(first)))
    for name, number, year in MONTH_FIRST.findall(text):
        days.add(day_in_words(number, name, year))
    for number, name, year in DAY_FIRST.findall(text):
        days.add(day_in_words(number, name, year))
    for number, _, name, year in RANGE.findall(text):
        # The last day of the range is found as DAY_FIRST.
        days.add(day_in_words(number, name, year))
    days.discard(None)
    return cast(set[Day], days)


def day_in_words(number: str, month_name: str, year: str) -> Day | None:
    """`year` may be empty: then the day is one of any year."""
    return day(parse_year(year), MONTHS[month_name.lower()], int(number))


def without_dates(text: str) -> str:
    """The text with a gap for each date in words: the 13 of “June 13” is not a number that the text names."""
    for pattern in (RANGE, MONTH_FIRST, DAY_FIRST):
        text = pattern.sub(" … ", text)
    return text


def parse_year(text: str) -> int | None:
    return int(text) if text else None


def day(year: int | None, month: int, of: int) -> Day | None:
    """None if the calendar has no such day."""
    # Without a year 29 February is possible, as in the leap year 2024.
    checked_year = year or 2024
    try:
        date(checked_year, month, of)
    except ValueError:
        return None
    return Day(month, of, year)
