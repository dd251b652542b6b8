"""Makes of JSON arguments the values that a function's annotations promise, before it is called.

functions/annotations.py derives the readers from the same tables as the input schema. They are
JSON: the name of a type, or `[kind, …]`. Classes of the source are found in its own globals.
"""

from __future__ import annotations

import re
import sys
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from . import facades

Reader = Any
_MESSAGE_CHARS = 500
_SHOWN_CHARS = 60


class InvalidArgument(Exception):
    """An argument is not what its annotation says. `places` lead to it from the outside."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.places: list[str] = []

    def __str__(self) -> str:
        return f"{''.join(self.places)} {self.message}"


class Arguments:
    """Reads the arguments of one call."""

    def __init__(self, readers: dict[str, Any], namespace: dict[str, Any], *, safe_mode: bool) -> None:
        self.readers = readers
        self.namespace = namespace
        self.safe_mode = safe_mode
        self.kinds: dict[str, Callable[..., Any]] = {
            "list": self.read_list, "dict": self.read_dict, "tuple": self.read_tuple, "either": self.read_either,
            "values": self.read_values, "enum": self.read_enum, "class": self.read_class,
        }  # fmt: skip

    def read_all(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The values by name. Raises InvalidArgument with the place and what belongs there."""
        return {name: self.read_named(name, value) for name, value in arguments.items()}

    def read_named(self, name: str, value: Any) -> Any:
        more = "Any" if name in self.readers["named"] else self.readers["more"]
        reader = self.readers["parameters"].get(name, more)
        try:
            return self.read(reader, value)
        except InvalidArgument as error:
            if name in self.readers["defaults"] and _is_same(value, self.readers["defaults"][name]):
                # The author's own default, such as "" for a date.
                return value
            error.places.insert(0, name)
            raise

    def read(self, reader: Reader, value: Any) -> Any:
        if type(reader) is str:
            plain = PLAIN.get(reader)
            return plain(value, self) if plain else value
        kind, *details = reader
        return self.kinds[kind](value, *details)

    def read_list(self, value: Any, how: str, reader: Reader) -> Any:
        if type(value) is not list:
            raise InvalidArgument(f"must be a list, not {_show(value)}")
        items = []
        # Around the loop, and not read_within for each item: lists may be long.
        try:
            for item in value:
                items.append(self.read(reader, item))
        except InvalidArgument as error:
            error.places.insert(0, f"[{len(items)}]")
            raise
        try:
            return LISTS[how](items)
        except TypeError:
            raise InvalidArgument(f"must be a {how}, and its items cannot be compared: use list[…]") from None

    def read_tuple(self, value: Any, readers: list[Reader]) -> Any:
        if type(value) is not list or len(value) != len(readers):
            raise InvalidArgument(f"must be a list of {len(readers)}, not {_show(value)}")
        items = []
        for index, (reader, item) in enumerate(zip(readers, value, strict=True)):
            items.append(self.read_within(f"[{index}]", reader, item))
        return tuple(items)

    def read_dict(self, value: Any, how: str, key_reader: Reader, reader: Reader) -> Any:
        if type(value) is not dict:
            raise InvalidArgument(f"must be an object, not {_show(value)}")
        items: dict[Any, Any] = {}
        for key, item in value.items():
            typed_key = self.read_key(key_reader, key)
            typed_item = self.read_within(f"[{key!r}]", reader, item)
            try:
                items[typed_key] = typed_item
            except TypeError:  # a class of the source may have no hash
                raise InvalidArgument("must be an object whose keys can be compared: use dict[str, …]") from None
        if len(items) < len(value):
            raise InvalidArgument("has two keys that mean the same")
        if how == "defaultdict":
            return defaultdict(_find_factory(reader), items)
        return DICTS[how](items)

    def read_key(self, reader: Reader, key: str) -> Any:
        """A key as its annotation says. Keys of JSON objects are always text."""
        convert = KEYS.get(reader) if type(reader) is str else None
        try:
            return self.read(reader, convert(key) if convert else key)
        except (InvalidArgument, ValueError, LookupError):
            raise InvalidArgument(f"has the key {key!r}, which is not {_describe(reader)}") from None

    def read_within(self, place: str, reader: Reader, value: Any) -> Any:
        try:
            return self.read(reader, value)
        except InvalidArgument as error:
            error.places.insert(0, place)
            raise

    def read_either(self, value: Any, options: list[Reader]) -> Any:
        """The option that the value already is, else the first that it can become."""
        if EXACT.get(type(value)) in options:
            return value
        others = [option for option in options if option != "None"]
        if len(others) == 1:
            # Its own reason says more than “must be a date or null”.
            return self.read(others[0], value)
        for option in sorted(options, key=lambda option: option == "Any"):
            # Any takes everything, so it is last.
            if _is_only_a_day(option, value):
                continue
            try:
                return self.read(option, value)
            except MemoryError:
                raise
            except Exception:  # it may create an object of the source, whose class may raise anything
                continue
        raise InvalidArgument(f"must be {' or '.join(map(_describe, options))}, not {_show(value)}")

    def read_values(self, value: Any, values: list[Any]) -> Any:
        for one in values:
            if one == value and (type(one) is bool) == (type(value) is bool):
                return one
        raise InvalidArgument(f"must be one of {', '.join(map(repr, values))}, not {_show(value)}")

    def read_enum(self, value: Any, name: str) -> Any:
        """The member with this value, else with this name."""
        enum = self.find_class(name)
        try:
            return enum(value)
        except (ValueError, TypeError):
            pass
        members = enum.__members__
        if type(value) is str and value in members:
            return members[value]
        values = ", ".join(repr(member.value) for member in list(members.values())[:20])
        raise InvalidArgument(f"must be one of {values}, not {_show(value)}")

    def read_class(self, value: Any, name: str) -> Any:
        how, fields, required = self.readers["classes"].get(name, ["", {}, []])
        if not how:
            return value
        if type(value) is list and how == "call" and len(value) == len(fields):
            # A named tuple as another function returned it.
            value = dict(zip(fields, value, strict=True))
        if type(value) is not dict:
            raise InvalidArgument(f"must be an object with {_list_names(fields)}, not {_show(value)}")
        made_of = self.find_class(name)
        if how == "model":
            return _validate_model(made_of, value)
        if missing := [field for field in required if field not in value]:
            raise InvalidArgument(f"lacks {_list_names(missing)}")
        unknown = [field for field in value if field not in fields]
        if unknown and how == "call":
            raise InvalidArgument(f"has {_list_names(unknown)}; the fields of {name} are {_list_names(fields)}")
        values = {
            field: self.read_within(f".{field}", fields[field], item)
            for field, item in value.items()
            if field in fields
        }
        return made_of(**values) if how == "call" else {**value, **values}

    def find_class(self, name: str) -> Any:
        """What the source calls this. It may be a function: a decorator can replace a class."""
        kind = self.namespace.get(name)
        if not callable(kind):
            raise InvalidArgument(f"is annotated {name}, which is not a class when the function is called")
        return kind

    def find_offered(self, module: str, name: str) -> Any:
        """A class of a module, as the function itself may import it."""
        if self.safe_mode:
            exports = facades.exports(module)
        else:
            exports = vars(sys.modules[module]) if module in sys.modules else {}
        if name not in exports:
            raise InvalidArgument(f"is annotated {name}: write “from {module} import {name}”")
        return exports[name]


def _validate_model(model: Any, value: Any) -> Any:
    """An instance of a Pydantic model, which reads and checks its fields itself."""
    try:
        return model.model_validate(value)
    except ValueError as error:  # pydantic's ValidationError, or one that a validator raised
        raise InvalidArgument(f"is not valid: {' '.join(str(error).split())[:_MESSAGE_CHARS]}") from None


# -- plain types


def _read_int(value: Any, arguments: Arguments) -> Any:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise InvalidArgument(f"must be a whole number, not {_show(value)}")


def _read_float(value: Any, arguments: Arguments) -> Any:
    if type(value) is float:
        return value
    try:
        return float(_check_number(value))
    except OverflowError:
        raise InvalidArgument("is too large for a float: use int or Decimal") from None


def _read_complex(value: Any, arguments: Arguments) -> Any:
    return complex(_check_number(value))


def _check_number(value: Any) -> Any:
    if type(value) not in (int, float):
        raise InvalidArgument(f"must be a number, not {_show(value)}")
    return value


def _read_text(value: Any, arguments: Arguments) -> Any:
    if type(value) is not str:
        raise InvalidArgument(f"must be text, not {_show(value)}")
    return value


def _read_bool(value: Any, arguments: Arguments) -> Any:
    if type(value) is not bool:
        raise InvalidArgument(f"must be true or false, not {_show(value)}")
    return value


def _read_null(value: Any, arguments: Arguments) -> Any:
    if value is not None:
        raise InvalidArgument(f"must be null, not {_show(value)}")
    return None


def _read_decimal(value: Any, arguments: Arguments) -> Any:
    number = _convert_from_text(arguments.find_offered("decimal", "Decimal"), value, 'a decimal number, such as "1.10"')
    if not number.is_finite():
        raise InvalidArgument(f"must be a finite number, not {_show(value)}")
    return number


def _read_fraction(value: Any, arguments: Arguments) -> Any:
    return _convert_from_text(
        arguments.find_offered("fractions", "Fraction"), value, 'a number or a fraction, such as "1/3"'
    )


def _convert_from_text(kind: Any, value: Any, described: str) -> Any:
    """A Decimal or Fraction, through text, so that the number 1.1 becomes exactly 1.1."""
    if type(value) not in (str, int, float):
        raise InvalidArgument(f"must be {described}, not {_show(value)}")
    try:
        return kind(str(value))
    except (ValueError, ArithmeticError):
        raise InvalidArgument(f"must be {described}, not {_show(value)}") from None


def _read_bytes(value: Any, arguments: Arguments) -> Any:
    text = _read_text(value, arguments).translate(_SPACES)
    try:
        # Otherwise letters that are no Base64 are left out in silence.
        return a2b_base64(text, strict_mode=True)
    except (Base64Error, ValueError):
        raise InvalidArgument(f"must be Base64 text, not {_show(value)}") from None


_SPACES = dict.fromkeys(map(ord, " \t\r\n"))


def _read_bytearray(value: Any, arguments: Arguments) -> Any:
    return bytearray(_read_bytes(value, arguments))


def _make_iso_reader(name: str, example: str) -> Callable[[Any, Arguments], Any]:
    def read(value: Any, arguments: Arguments) -> Any:
        kind = arguments.find_offered("datetime", name)
        try:
            return kind.fromisoformat(_read_text(value, arguments).strip().upper())
        except ValueError:
            raise InvalidArgument(f"must be a {name} such as “{example}”, not {_show(value)}") from None

    return read


_DURATION = re.compile(
    r"(?P<sign>[+-])?P(?=\d|T\d)(?:(?P<weeks>\d+(?:[.,]\d+)?)W)?(?:(?P<days>\d+(?:[.,]\d+)?)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+(?:[.,]\d+)?)H)?(?:(?P<minutes>\d+(?:[.,]\d+)?)M)?(?:(?P<seconds>\d+(?:[.,]\d+)?)S)?)?",
    re.ASCII | re.IGNORECASE,
)


def _read_duration(value: Any, arguments: Arguments) -> Any:
    kind = arguments.find_offered("datetime", "timedelta")
    match = _DURATION.fullmatch(_read_text(value, arguments).strip())
    if match is None:
        raise InvalidArgument(f"must be a duration such as “P1DT2H30M” without years and months, not {_show(value)}")
    parts = {unit: float(part.replace(",", ".")) for unit, part in match.groupdict().items() if part and unit != "sign"}
    try:
        length = kind(**parts)
    except OverflowError:
        raise InvalidArgument(f"is too long a duration: {_show(value)}") from None
    return -length if match["sign"] == "-" else length


def _make_text_reader(module: str, name: str, described: str) -> Callable[[Any, Arguments], Any]:
    def read(value: Any, arguments: Arguments) -> Any:
        kind = arguments.find_offered(module, name)
        try:
            return kind(_read_text(value, arguments))
        except (ValueError, LookupError, OSError):
            raise InvalidArgument(f"must be {described}, not {_show(value)}") from None

    return read


PLAIN: dict[str, Callable[[Any, Arguments], Any]] = {
    "int": _read_int, "float": _read_float, "complex": _read_complex, "bool": _read_bool,
    "str": _read_text, "LiteralString": _read_text, "None": _read_null, "NoneType": _read_null,
    "bytes": _read_bytes, "bytearray": _read_bytearray, "timedelta": _read_duration,
    "Decimal": _read_decimal, "Fraction": _read_fraction,
    "Number": lambda value, arguments: _check_number(value),
    "datetime": _make_iso_reader("datetime", "2027-06-01T09:00:00+02:00"),
    "date": _make_iso_reader("date", "2027-06-01"),
    "time": _make_iso_reader("time", "09:00:00"),
    "UUID": _make_text_reader("uuid", "UUID", "a UUID"),
    "Path": _make_text_reader("pathlib", "Path", "a path"),
    "PurePath": _make_text_reader("pathlib", "PurePath", "a path"),
    "PurePosixPath": _make_text_reader("pathlib", "PurePosixPath", "a path"),
    "ZoneInfo": _make_text_reader("zoneinfo", "ZoneInfo", "a time zone, such as Europe/Berlin"),
}  # fmt: skip
LISTS: dict[str, Callable[..., Any]] = {
    "list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "deque": deque, "iterator": iter,
}  # fmt: skip
DICTS: dict[str, Callable[..., Any]] = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}
EMPTY: dict[Any, Callable[[], Any]] = {"int": int, "float": float, "str": str, "bool": bool}
KEYS: dict[str, Callable[[str], Any]] = {
    "int": int, "float": float, "bool": {"true": True, "false": False}.__getitem__, "None": {"null": None}.__getitem__,
}  # fmt: skip
# Of a union, a JSON value that one option already is stays what it is: 1.0 for `int | float`.
EXACT: dict[type, str] = {type(None): "None", bool: "bool", int: "int", float: "float"}
_WORDS = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "None": "null",
    "list": "a list", "dict": "an object", "tuple": "a list", "values": "one of the given values",
}  # fmt: skip


def _find_factory(reader: Reader) -> Callable[[], Any] | None:
    """The type of the missing values of a defaultdict; None for types without an empty value: they raise KeyError."""
    if type(reader) is str:
        return EMPTY.get(reader)
    kind, how, *_ = reader
    if kind == "list" and how != "iterator":
        return LISTS[how]
    return DICTS.get(how) if kind == "dict" else None


def _is_only_a_day(option: Reader, value: Any) -> bool:
    """`datetime | date` reads a day as a date; a datetime alone would read it as midnight."""
    return option == "datetime" and type(value) is str and len(value.strip()) <= 10


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _describe(reader: Reader) -> str:
    if type(reader) is str:
        return _WORDS.get(reader, f"a {reader}")
    kind, *details = reader
    return str(details[0]) if kind in ("enum", "class") else _WORDS.get(kind, kind)


def _list_names(names: Any) -> str:
    return ", ".join(f"“{name}”" for name in list(names)[:20])


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
