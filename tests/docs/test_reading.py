"""`make reading` counts what it says, however the code is laid out."""

import ast

from . import reading

ONE_LINE = "def f(rows):\n    return [row.name for row in rows if row.name] if rows else []\n"
BROKEN = "def f(rows):\n    return [\n        row.name\n        for row in rows\n        if row.name\n    ] if rows else []\n"
PLAIN = "def f(rows):\n    if not rows:\n        return []\n    return [row.name for row in rows if row.name]\n"


def measure(source):
    return reading.measure_function(ast.parse(source).body[0], "module.py")


def test_the_layout_does_not_count():
    assert measure(ONE_LINE).density == measure(BROKEN).density


def test_a_line_that_does_one_thing_is_less_dense():
    assert measure(PLAIN).density < measure(ONE_LINE).density
    assert (measure(ONE_LINE).conditionals, measure(PLAIN).conditionals) == (1, 0)


def test_names_that_say_what_is_done_are_not_listed():
    assert [name for name in ("shown", "marked", "text_of") if not unclear(name)] == []
    assert [name for name in ("render_message", "read", "embed", "find_grants") if unclear(name)] == []


def unclear(name):
    return reading.is_participle(name) or reading.ends_in_preposition(name)


def test_every_figure_of_the_models_is_printed(capsys):
    reading.main(["plumbing"])
    printed = capsys.readouterr().out
    assert [name for name in reading.MODELS if name not in printed] == []
    assert "The densest functions" in printed
