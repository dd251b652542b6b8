"""Converts values of the standard library and of libraries to JSON; the fork server fills the table
from loaded modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

TABLE: dict[type, Callable[[Any], Any]] = {}


def learn() -> None:
    """Fill TABLE with the types of loaded modules: a module that this profile has not loaded has no values here."""
    for path, convert in _CONVERSIONS.items():
        module, _, name = path.rpartition(".")
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type):
            TABLE[kind] = convert


def _enum(value: Any) -> Any:
    # Not `.value`, which a class of the function may have replaced by code of its own.
    return value._value_


def _iso(value: Any) -> str:
    return str(value.isoformat())


def _duration(value: Any) -> str:
    """ISO 8601: P1DT2H3M4.5S."""
    sign = ""
    if value.days < 0:
        sign = "-"
        value = -value
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    time = ""
    if hours:
        time += f"{hours}H"
    if minutes:
        time += f"{minutes}M"
    if value.microseconds:
        fraction = f".{value.microseconds:06}".rstrip("0")
        time += f"{seconds}{fraction}S"
    elif seconds:
        time += f"{seconds}S"
    days = ""
    if value.days:
        days = f"{value.days}D"
    if time:
        return f"{sign}P{days}T{time}"
    return f"{sign}P{days or '0D'}"


def _missing(value: Any) -> None:
    return None


def _records(frame: Any) -> Any:
    """A data frame as a list of rows; missing values become null."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def _items(series: Any) -> Any:
    return series.astype(object).where(series.notna(), None).tolist()


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "enum.Enum": _enum,
    "datetime.datetime": _iso,
    "datetime.date": _iso,
    "datetime.time": _iso,
    "datetime.timedelta": _duration,
    "decimal.Decimal": str,
    "fractions.Fraction": str,
    "uuid.UUID": str,
    "pathlib.PurePath": str,
    "array.array": list,
    "collections.UserDict": dict,
    "collections.UserList": list,
    "zoneinfo.ZoneInfo": str,
    "pydantic.BaseModel": lambda model: model.model_dump(mode="json"),
    "bs4.element.PageElement": str,
    "numpy.generic": lambda number: number.item(),
    "numpy.ndarray": lambda numbers: numbers.tolist(),
    "pandas.DataFrame": _records,
    "pandas.Series": _items,
    "pandas.Index": _items,
    "pandas._libs.tslibs.nattype.NaTType": _missing,
    "pandas._libs.missing.NAType": _missing,
}
