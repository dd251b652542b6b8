"""Ordinary Python runs, results become JSON, and a refusal names the thing, the line and what to write instead."""

from __future__ import annotations

import pytest

from functions import sandbox

IMPORTS = tuple(sandbox.IMPORTABLE)


def run(source: str, *, safe_mode: bool = True) -> sandbox.Outcome:
    return sandbox.execute(source, allowed_imports=IMPORTS, safe_mode=safe_mode)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.timezone.utc)", "2024-01-02T03:00:00+00:00"),
        ("datetime.date(2024, 1, 2)", "2024-01-02"),
        ("datetime.time(1, 2)", "01:02:00"),
        ("datetime.timedelta(days=1, hours=2, seconds=1.5)", "P1DT2H1.5S"),
        ("datetime.timedelta(0)", "P0D"),
        ("decimal.Decimal('1.50')", "1.50"),
        ("uuid.UUID(int=1)", "00000000-0000-0000-0000-000000000001"),
        ("{3, 1, 2}", [1, 2, 3]),
        ("frozenset(['b', 1])", ["b", 1]),
        ("b'abc'", "YWJj"),
        ("bytearray(b'abc')", "YWJj"),
        ("pathlib.PurePath('a') / 'b'", "a/b"),
        ("Color.RED", 1),
        ("[Item(1, {decimal.Decimal('2')})]", [{"n": 1, "tags": ["2"]}]),
        ("{Color.RED: 1, datetime.date(2024, 1, 2): 2}", {"1": 1, "2024-01-02": 2}),
        ("(n for n in [1, 2])", [1, 2]),
        ("{'a': 1}.items()", [["a", 1]]),
        ("types.SimpleNamespace(a=range(2))", {"a": [0, 1]}),
        ("fractions.Fraction(1, 2)", "1/2"),
    ],
)
def test_values_of_the_standard_library_become_json(expression, expected):
    source = (
        "import dataclasses, datetime, decimal, enum, fractions, pathlib, types, uuid\n"
        "class Color(enum.Enum):\n    RED = 1\n"
        "@dataclasses.dataclass\nclass Item:\n    n: int\n    tags: set\n"
        f"def main():\n    return {expression}\n"
    )
    outcome = run(source)
    assert (outcome.error, outcome.result) == (None, expected)


@pytest.mark.parametrize("expression", ["1j", "main", "object()", "{(1, 2): 3}", "[float('nan')]"])
def test_what_cannot_become_json_is_named(expression):
    outcome = run(f"def main():\n    return {expression}\n")
    assert outcome.status == "error"
    assert "result" in outcome.error.message


@pytest.mark.parametrize(
    ("source", "line", "message", "hint"),
    [
        ("import os\ndef main(): pass", 1, "os cannot be imported in a function", "os.path"),
        ("def main():\n    import requests", 2, "requests cannot be imported in a function", "ctx.http"),
        ("import jsn\ndef main(): pass", 1, "jsn cannot be imported in a function", "Did you mean json?"),
        ("import abcdefgh\ndef main(): pass", 1, "abcdefgh cannot be imported in a function", "plain Python"),
        ("from json import dumpz\ndef main(): pass", 1, "json.dumpz is not available in a function", "dump"),
        ("from uuid import uuid1\ndef main(): pass", 1, "uuid.uuid1 is not available in a function", "uuid4()"),
        ("def main():\n    return open('x')", 2, "open is not available in a function", "io.StringIO"),
        ("def main():\n    return [\n        eval('1')]", 3, "eval is not available in a function", "json.loads()"),
        ("def f(input): return input\ndef main():\n    return input()", 3, "input is not available", "argument"),
    ],
)
def test_a_refusal_names_the_thing_the_line_and_what_to_write_instead(source, line, message, hint):
    refusal = sandbox.check(source, IMPORTS)[0]
    assert refusal.line == line
    assert message in refusal.message
    assert hint in refusal.hint
    assert len(refusal.hint) < 200


def test_a_name_that_a_module_does_not_show_is_named_when_it_is_read():
    outcome = run("import sys\ndef main():\n    return sys.modules\n")
    assert (outcome.error.type, outcome.error.line) == ("AttributeError", 3)
    assert "sys.modules is not available in a function" in outcome.error.message


def test_what_only_the_main_guard_uses_is_not_looked_at():
    source = (
        "import doctest, pytest\nfrom os import environ\n"
        "def main():\n    return __name__\n"
        "def other():\n    return numbers\n"
        "if __name__ == '__main__':\n    numbers = [environ]\n    doctest.testmod(pytest)\n    input()\n"
    )
    assert run(source).result == "stored_function"
    assert [one.message for one in sandbox.check("import os\ndef main(): pass")] != []


@pytest.mark.parametrize("name", sandbox.IMPORTABLE)
def test_every_module_of_the_table_offers_every_name(name):
    names = [one for one in sandbox.IMPORTABLE[name] if name != "__future__"]
    source = f"import {name} as module\ndef main():\n    return [n for n in {names!r} if not hasattr(module, n)]\n"
    if name != "__future__":
        assert run(source).result == []


def test_packed_data_cannot_fill_the_memory():
    for module in ("gzip", "zlib"):
        outcome = run(
            f"import {module}\ndef main():\n    return len({module}.decompress({module}.compress(bytes(70 << 20))))\n"
        )
        assert (outcome.error.type, "64 MB" in outcome.error.message) == ("ValueError", True)


def test_xml_entities_cannot_multiply():
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    text = f'<!DOCTYPE a [<!ENTITY a0 "aaaaaaaaaa">{entities}]><a>&a11;</a>'
    outcome = run(f"import xml.etree.ElementTree as ET\ndef main():\n    return len(ET.fromstring({text!r}).text)\n")
    assert outcome.error.type == "ParseError"


def test_a_traceback_shows_the_function_and_nothing_of_the_server():
    source = "import json, traceback\ndef main():\n    try:\n        json.loads('{')\n    except ValueError:\n        return traceback.format_exc()\n"
    text = run(source).result
    assert 'File "<function>", line 4, in main' in text
    assert "/" not in text


def test_annotations_as_text_name_only_what_the_function_sees():
    source = (
        "import typing\n"
        "def main(text):\n"
        "    def f(x): pass\n"
        "    g = typing.Optional[text]\n"
        "    return repr(typing.get_args(g)[0]._evaluate({}, {}, frozenset()))\n"
    )
    for text in ("open", "print.__self__", "[].append(1)", "__import__"):
        outcome = sandbox.execute(source, {"text": text}, allowed_imports=IMPORTS)
        assert outcome.error.type in ("NameError", "TypeError")
    assert sandbox.execute(source, {"text": "list[int]"}, allowed_imports=IMPORTS).result == "list[int]"


def test_printing_to_standard_error_is_kept_with_the_rest():
    source = "import sys\ndef main():\n    print('a')\n    print('b', file=sys.stderr)\n    sys.stdout.write('c')\n"
    assert run(source).printed == "a\nb\nc"


@pytest.mark.parametrize(
    "source",
    [
        "import collections\ndef main():\n    return issubclass(dict, collections.abc.Mapping)\n",
        "import xml.etree.ElementTree as ET\ndef main():\n    return ET.Element('a').tag == 'a'\n",
        "from urllib import parse\ndef main():\n    return parse.quote(' ') == '%20'\n",
        "import email.mime.text, email.utils\ndef main():\n    return email.utils.quote('a') == 'a'\n",
        "import os.path\ndef main():\n    return os.path.join('a', 'b') == 'a/b' and not hasattr(os, 'environ')\n",
    ],
)
def test_modules_within_packages_are_found_however_they_are_imported(source):
    assert run(source).result is True


def test_a_module_that_one_call_changes_is_whole_in_the_next():
    source = "import json\ndef main(n):\n    was = hasattr(json, 'mark')\n    json.mark = n\n    return was\n"
    for reuse in (None, "run-1"):
        for n in range(3):
            outcome = sandbox.execute(source, {"n": n}, allowed_imports=IMPORTS, reuse=reuse)
            assert outcome.result is False
    sandbox.release("run-1")
