"""What models, tools and services send becomes something that every database, JSON and UTF-8 can hold."""

import json
import math
import re
import subprocess
from pathlib import Path

import pytest

from plumbing import json_values

ROOT = Path(__file__).resolve().parents[2]
HUGE = 10**4_299
TABLE = [
    ("plain", "plain"),
    ("größe 😀", "größe 😀"),
    ("a\x00b", "a\ufffdb"),
    ("a\ud83d", "a\ufffd"),
    ("\ude00a", "\ufffda"),
    ("\ud83d\ude00", "😀"),
    (2**70, 2**70),
    (-(2**70), -(2**70)),
    (HUGE, HUGE),
    (10**4_300, "a number of more than 4,300 digits"),
    (math.nan, "NaN"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
    (True, True),
    (None, None),
    (1.5, 1.5),
    ({"a\x00": ["b\ud800", {"c": math.nan}]}, {"a\ufffd": ["b\ufffd", {"c": "NaN"}]}),
    ([2**64, [2**63]], [2**64, [2**63]]),
]


@pytest.mark.parametrize(("value", "expected"), TABLE, ids=range(len(TABLE)))
def test_a_value_is_cleaned_written_and_read_again(value, expected):
    cleaned = json_values.clean_json(value)

    assert cleaned == expected and type(cleaned) is type(expected)
    assert json_values.load_json(json_values.dump_json(cleaned)) == cleaned
    assert json.loads(json_values.dump_json(cleaned)) == cleaned


def test_what_is_clean_is_not_copied():
    value = {"a": [1, "b", {"c": 2.5}], "d": 2**70}

    assert json_values.clean_json(value) is value


LONG = "1234567890123456789"  # which the standard library reads in place of orjson
REFUSED = [
    '{"x": NaN}',
    "[Infinity]",
    "{",
    '{"a": 1} x',
    "1" * 5_000,
    "[1e400]",
    '["\\ud83d"]',
    "[" * 3_000 + "]" * 3_000,
]


@pytest.mark.parametrize("number", REFUSED, ids=range(len(REFUSED)))
@pytest.mark.parametrize("beside", ["", LONG])
def test_what_is_not_json_is_refused_in_the_same_way_beside_a_long_number(number, beside):
    text = f"[{beside}, {number}]" if beside else number
    with pytest.raises(ValueError):
        json_values.load_json(text)


def test_nothing_else_reads_and_writes_json_with_orjson():
    """It turns integers beyond 64 bits into floats, and refuses what our writer takes."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.py"], cwd=ROOT, capture_output=True)
    found = [
        name
        for name in listed.stdout.decode().split()
        if (ROOT / name).exists() and re.search(r"^\s*(import|from) orjson\b", (ROOT / name).read_text(), re.MULTILINE)
    ]
    assert found == ["plumbing/json_values.py"]
