"""Arguments arrive as they are annotated, and results leave as the same JSON."""

from __future__ import annotations

import pytest

from agents.schema import check_schema, validate
from functions import annotations, sandbox
from functions.sandbox.inside import arguments
from functions.signature import read_source_signature

IMPORTS = ("collections", "dataclasses", "datetime", "decimal", "enum", "fractions", "pathlib", "uuid", "zoneinfo")
HEAD = """
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, KW_ONLY, dataclass, field
from datetime import date, datetime, time, timedelta
from datetime import datetime as moment
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum, auto
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, List, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, Union
from uuid import UUID
from zoneinfo import ZoneInfo

@dataclass
class Line:
    price: Decimal
    count: int = 1
    total: float = field(init=False, default=0.0)
    unit: ClassVar[str] = "EUR"

@dataclass
class Dated(Line):
    _: KW_ONLY
    day: date = date(2026, 1, 1)

class Order(TypedDict):
    lines: list[Line]
    note: NotRequired[str]
    day: date

class Point(NamedTuple):
    x: float
    y: float = 0.0

class Node(TypedDict):
    day: date
    children: list["Node"]

class Size(Enum):
    S = "small"
    L = "large"

class Colour(StrEnum):
    RED = auto()

class Level(IntEnum):
    LOW = 1
    HIGH = 2

class Corner(Enum):
    TOP = (0, 1)

UserId = NewType("UserId", int)
Money = Decimal | None
"""


def call(annotation, value, body="return repr(x)", head=HEAD):
    source = f"{head}\ndef main(x: {annotation}):\n    {body}\n"
    return sandbox.execute(source, {"x": value}, allowed_imports=IMPORTS)


DAY = "datetime.date(2026, 1, 2)"
CASES = [
    ("int", 1.0, "1"),
    ("int", 12345678901234567890, "12345678901234567890"),
    ("float", 1, "1.0"),
    ("complex", 2, "(2+0j)"),
    ("Decimal", "1.10", "Decimal('1.10')"),
    ("Decimal", 1.1, "Decimal('1.1')"),
    ("Money", "2", "Decimal('2')"),
    ("Money", None, "None"),
    ("Fraction", "1/3", "Fraction(1, 3)"),
    ("date", "2026-01-02", DAY),
    ("datetime", "2026-01-02T03:04:05", "datetime.datetime(2026, 1, 2, 3, 4, 5)"),
    ("moment", "2026-01-02T03:04:05Z", "datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)"),
    ("datetime", "2026-01-02", "datetime.datetime(2026, 1, 2, 0, 0)"),
    ("time", "09:30", "datetime.time(9, 30)"),
    ("timedelta", "P1DT2H", "datetime.timedelta(days=1, seconds=7200)"),
    ("timedelta", "-PT0.5S", "datetime.timedelta(days=-1, seconds=86399, microseconds=500000)"),
    ("UUID", "12345678-1234-5678-1234-567812345678", "UUID('12345678-1234-5678-1234-567812345678')"),
    ("bytes", "YWI=", "b'ab'"),
    ("bytes", "", "b''"),
    ("bytearray", "YW\nI=", "bytearray(b'ab')"),
    ("PurePosixPath", "a/b", "PurePosixPath('a/b')"),
    ("ZoneInfo", "Europe/Berlin", "zoneinfo.ZoneInfo(key='Europe/Berlin')"),
    ("set[str]", ["a", "a"], "{'a'}"),
    ("frozenset[int]", [1, 1.0], "frozenset({1})"),
    ("set", [1], "{1}"),
    ("tuple[int, str]", [1.0, "a"], "(1, 'a')"),
    ("tuple[Decimal, ...]", ["1"], "(Decimal('1'),)"),
    ("tuple", [1], "(1,)"),
    ("deque[int]", [1], "deque([1])"),
    ("list[int]", [1.0, 2], "[1, 2]"),
    ("List[date]", ["2026-01-02"], f"[{DAY}]"),
    ("Sequence[date]", ["2026-01-02"], f"[{DAY}]"),
    ("list[list[Decimal]]", [["1"], []], "[[Decimal('1')], []]"),
    ("dict[str, Decimal]", {"a": "1"}, "{'a': Decimal('1')}"),
    ("dict[int, str]", {"1": "a"}, "{1: 'a'}"),
    ("dict[date, list[int]]", {"2026-01-02": [1.0]}, f"{{{DAY}: [1]}}"),
    ("Mapping[Size, int]", {"small": 1}, "{<Size.S: 'small'>: 1}"),
    ("Counter[str]", {"a": 2.0}, "Counter({'a': 2})"),
    ("defaultdict[str, int]", {"a": 1}, "defaultdict(<class 'int'>, {'a': 1})"),
    ("defaultdict[str, list[date]]", {"a": ["2026-01-02"]}, f"defaultdict(<class 'list'>, {{'a': [{DAY}]}})"),
    ("defaultdict[str, dict]", {}, "defaultdict(<class 'dict'>, {})"),
    ("defaultdict[str, Size]", {"a": "small"}, "defaultdict(None, {'a': <Size.S: 'small'>})"),
    ("Line", {"price": "2.5"}, "Line(price=Decimal('2.5'), count=1, total=0.0)"),
    ("list[Line]", [{"price": 1, "count": 2.0}], "[Line(price=Decimal('1'), count=2, total=0.0)]"),
    ("Dated", {"price": 1, "day": "2026-01-02"}, f"Dated(price=Decimal('1'), count=1, total=0.0, day={DAY})"),
    ("Point", {"x": 1}, "Point(x=1.0, y=0.0)"),
    ("Point", [1, 2], "Point(x=1.0, y=2.0)"),
    ("Size", "small", "<Size.S: 'small'>"),
    ("Colour", "red", "<Colour.RED: 'red'>"),
    ("Level", 2, "<Level.HIGH: 2>"),
    ("Corner", "TOP", "<Corner.TOP: (0, 1)>"),
    ("UserId", 5.0, "5"),
    ("Literal[1, 'a']", 1.0, "1"),
    ("Annotated[Decimal, 'the price']", "1", "Decimal('1')"),
    ("'list[Decimal]'", ["1"], "[Decimal('1')]"),
    ("Optional[date]", None, "None"),
    ("date | None", "2026-01-02", DAY),
    ("datetime | None", "2026-01-02", "datetime.datetime(2026, 1, 2, 0, 0)"),
    ("date | str", "tomorrow", "'tomorrow'"),
    ("str | date", "2026-01-02", "'2026-01-02'"),
    ("datetime | date", "2026-01-02", DAY),
    ("int | float", 1.0, "1.0"),
    ("Union[int, list[Decimal]]", ["1"], "[Decimal('1')]"),
    ("Line | Point", {"x": 1}, "Point(x=1.0, y=0.0)"),
    ("Line | int | None", 3, "3"),
    ("Any", {"a": 1.0}, "{'a': 1.0}"),
    ("object", "2026-01-02", "'2026-01-02'"),
    ("dict", {"a": 1}, "{'a': 1}"),
]


@pytest.mark.parametrize(("annotation", "value", "shown"), CASES)
def test_an_argument_arrives_as_annotated(annotation, value, shown):
    outcome = call(annotation, value)
    assert (outcome.result, outcome.error) == (shown, None)


# The reader is more lenient than the schema, for authors who write their own.
BEYOND = ["2026-01-02T03:04:05", "09:30", "-PT0.5S", [1, 2]]
DAY_ALONE = [("datetime", "2026-01-02"), ("datetime | None", "2026-01-02")]
OFFERED = [case[:2] for case in CASES if case[1] not in BEYOND and case[:2] not in DAY_ALONE]


@pytest.mark.parametrize(("annotation", "value"), OFFERED)
def test_the_schema_accepts_what_the_reader_reads(annotation, value):
    schema = read_source_signature(f"{HEAD}\ndef main(x: {annotation}): ...").input_schema
    assert check_schema(schema) == []
    assert validate(schema, {"x": value}) == []


SAME = [
    ("int", 1), ("float", 1.5), ("Decimal", "1.10"), ("Fraction", "1/3"), ("date", "2026-01-02"),
    ("datetime", "2026-01-02T03:04:05+02:00"), ("time", "09:30:00"), ("timedelta", "P1DT2H"), ("bytes", "YWI="),
    ("UUID", "12345678-1234-5678-1234-567812345678"), ("set[str]", ["a", "b"]), ("tuple[int, str]", [1, "a"]),
    ("Line", {"price": "1", "count": 2, "total": 0.0}), ("list[Size]", ["small", "large"]), ("Level", 1),
    ("dict[date, Decimal]", {"2026-01-02": "1"}), ("Optional[Decimal]", None), ("Colour", "red"),
    ("Node", {"day": "2026-01-02", "children": [{"day": "2026-01-03", "children": []}]}),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value"), SAME)
def test_it_comes_back_as_the_same_json(annotation, value):
    sent = {name: one for name, one in value.items() if name != "total"} if annotation == "Line" else value
    assert call(annotation, sent, "return x").result == value


def test_a_record_in_a_record_and_in_itself():
    value = {"lines": [{"price": "1"}], "day": "2026-01-02"}
    assert call("Order", value, "return [type(x['lines'][0]).__name__, x['day'].year]").result == ["Line", 2026]
    node = {"day": "2026-01-02", "children": [{"day": "2026-01-03", "children": []}]}
    assert call("Node", node, "return x['children'][0]['day'].day").result == 3


WRONG = [
    ("int", 1.5, "x must be a whole number, not 1.5"),
    ("Decimal", "ten", 'x must be a decimal number, such as "1.10", not \'ten\''),
    ("Decimal", "NaN", "x must be a finite number, not 'NaN'"),
    ("date", "2026-02-30", "x must be a date such as “2027-06-01”, not '2026-02-30'"),
    ("timedelta", "P1M", "x must be a duration such as “P1DT2H30M” without years and months, not 'P1M'"),
    ("bytes", "a", "x must be Base64 text, not 'a'"),
    ("Size", "medium", "x must be one of 'small', 'large', not 'medium'"),
    ("list[Line]", [{"price": "1"}, {"price": "x"}],
     'x[1].price must be a decimal number, such as "1.10", not \'x\''),
    ("Line", {"count": 1}, "x lacks “price”"),
    ("Line | None", {"count": 1}, "x lacks “price”"),
    ("Optional[list[date]]", ["x"], "x[0] must be a date such as “2027-06-01”, not 'x'"),
    ("Line", {"price": "1", "colour": "red"}, "x has “colour”; the fields of Line are “price”, “count”"),
    ("set[list[int]]", [[1]], "x must be a set, and its items cannot be compared: use list[…]"),
    ("dict[int, str]", {"a": "b"}, "x has the key 'a', which is not a whole number"),
    ("dict[int, str]", {"1": "b", "01": "c"}, "x has two keys that mean the same"),
    ("tuple[int, int]", [1], "x must be a list of 2, not [1]"),
    ("int | date", "x", "x must be a whole number or a date, not 'x'"),
    ("ZoneInfo", "Mars/Base", "x must be a time zone, such as Europe/Berlin, not 'Mars/Base'"),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value", "message"), WRONG)
def test_what_cannot_be_read_is_refused_with_its_place(annotation, value, message):
    outcome = call(annotation, value)
    assert (outcome.status, outcome.error.type, outcome.error.message) == ("error", "InvalidArgument", message)


def test_what_a_class_of_the_source_raises_keeps_its_type_and_line():
    head = "from dataclasses import dataclass\n@dataclass\nclass Line:\n    count: int\n    def __post_init__(self):\n"
    outcome = call("Line", {"count": -1}, head=head + "        raise ValueError('negative')\n")
    assert (outcome.error.type, outcome.error.message, outcome.error.line) == ("ValueError", "negative", 6)
    outcome = call("dict[str, Line]", {"a": {"count": -1}}, head=head + "        raise TypeError('negative')\n")
    assert (outcome.error.type, outcome.error.message, outcome.error.line) == ("TypeError", "negative", 6)


def test_a_default_that_is_no_such_value_stays_what_it_is():
    source = f"{HEAD}\ndef main(day: date = '', size: Size = 'small'):\n    return [day, size.name]\n"
    sent = read_source_signature(source).defaults
    assert sent == {"day": "", "size": "small"}
    assert sandbox.execute(source, sent, allowed_imports=IMPORTS).result == ["", "S"]


def test_further_arguments_are_read_as_annotated():
    source = "from decimal import Decimal\ndef main(a: str, **more: Decimal):\n    return sum(more.values())\n"
    assert read_source_signature(source).input_schema["additionalProperties"] == {"type": ["string", "number"]}
    assert sandbox.execute(source, {"a": "1", "b": "1.5", "c": 2}, allowed_imports=IMPORTS).result == "3.5"


@pytest.mark.parametrize(
    ("source", "sent", "result"),
    [
        ("def main(a: int, /, b: int = 2):\n    return a + b", {"a": 1}, 3),
        ("def main(a: int, b: int = 5, /, *, c: int = 7):\n    return a + b + c", {"a": 1, "c": 1}, 7),
        ("def main(a, /, **more):\n    return [a, more]", {"a": 1, "b": 2}, [1, {"b": 2}]),
        ("def main(größe: int):\n    return größe", {"größe": 2}, 2),
        ("def main(数量: int, 单价: float = 1.5):\n    return 数量 * 单价", {"数量": 2}, 3.0),
        ("async def main(a: int, /):\n    return a", {"a": 4.0}, 4),
    ],
)
def test_parameters_may_be_positional_only_and_have_any_letters(source, sent, result):
    signature = read_source_signature(source)
    assert check_schema(signature.input_schema) == []
    assert sandbox.check(source, input_schema=signature.input_schema) == []
    assert sandbox.execute(source, signature.defaults | sent).result == result


def test_a_string_annotation_is_read_and_never_evaluated():
    source = "from __future__ import annotations\ndef main(x: print('evaluated') or int):\n    return x\n"
    outcome = sandbox.execute(source, {"x": 1.0})
    assert (outcome.result, outcome.printed) == (1.0, "")


def test_a_type_that_is_not_imported_says_how():
    outcome = sandbox.execute("def main(x: 'Decimal'):\n    return x\n", {"x": "1"})
    assert outcome.error.message == "x is annotated Decimal: write “from decimal import Decimal”"


def test_without_safe_mode_arguments_arrive_in_the_same_way():
    source = "from decimal import Decimal\nfrom pathlib import Path\n"
    source += "def main(x: Decimal, p: Path):\n    return [repr(x * 2), repr(p)]\n"
    outcome = sandbox.execute(source, {"x": "1.10", "p": "a"}, safe_mode=False)
    assert outcome.result == ["Decimal('2.20')", "PosixPath('a')"]


def test_schema_and_reader_have_the_same_table():
    assert set(annotations.PLAIN) == set(arguments.PLAIN)
    assert set(annotations.LISTS.values()) | {"tuple"} == set(arguments.LISTS)
    assert set(annotations.DICTS.values()) == {*arguments.DICTS, "defaultdict"}


PERSON = """
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Optional, TypedDict
@dataclass
class B:
    rows: list[int]
    more: dict[str, int] = field(default_factory=dict)
@dataclass
class C:
    b: B
    flag: bool = False
class Todo(TypedDict):
    content: str
    status: Literal["pending", "completed"]
"""


@pytest.mark.parametrize(
    ("report", "annotation", "value", "shown"),
    [
        ("PrefectHQ/fastmcp#3931", "str", '{"a": 1}', "'{\"a\": 1}'"),
        ("modelcontextprotocol/python-sdk#2620", "str | None", "[1]", "'[1]'"),
        ("PrefectHQ/fastmcp#1015", "Optional[str]", "null", "'null'"),
        ("langchain-ai/langchain#30145", "str", "12345678901234567890123456", "'12345678901234567890123456'"),
        ("PrefectHQ/fastmcp#553", "Optional[datetime]", "2025-05-22T00:00:00+00:00",
         "datetime.datetime(2025, 5, 22, 0, 0, tzinfo=datetime.timezone.utc)"),
        ("jataware/archytas#33", "C", {"b": {"rows": [1.0]}}, "C(b=B(rows=[1], more={}), flag=False)"),
        ("langchain-ai/langchain-google#1819", "list[Todo]", [{"content": "a", "status": "pending"}],
         "[{'content': 'a', 'status': 'pending'}]"),
    ],
)  # fmt: skip
def test_what_public_reports_say_of_other_tools_holds_here(report, annotation, value, shown):
    assert call(annotation, value, head=PERSON).result == shown


@pytest.mark.parametrize(
    ("report", "annotation", "value", "message"),
    [
        ("PrefectHQ/fastmcp#932", "C", '{"b": {}}', "x must be an object with “b”, “flag”"),
        ("modelcontextprotocol/python-sdk#3067", "C", {"b": {"rows": []}, "flagg": True}, "x has “flagg”"),
    ],
)
def test_what_other_tools_drop_or_guess_is_refused_here(report, annotation, value, message):
    assert message in call(annotation, value, head=PERSON).error.message
