"""`make reading` counts what it says, however the code is laid out."""

import ast

from . import reading, reading_scripts

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


TERNARY = """// Why.
/** @param {string[]} rows */
for (let place = 0; place < rows.length; place += 1) show(`${rows[place] ? "a" : "b"};`, /[;`]/.test(rows[place]));
"""


def test_a_script_is_cut_into_statements_without_a_parser():
    script = reading_scripts.measure_script(TERNARY, "page.js")

    assert script.statements == 2  # the loop and the call: neither its head nor a text nor a pattern ends a statement
    assert script.conditionals == 1
    assert script.comment_lines == 1  # types are no comment
    assert script.long_lines == 0


def test_a_division_is_no_pattern():
    assert list(reading_scripts.iterate_tokens("half = all / 2; part = half / 3;")).count("/") == 2


def test_optional_chains_and_defaults_are_no_conditional_expressions():
    assert reading_scripts.measure_script("name = row?.name ?? (isNew ? one : other);", "page.js").conditionals == 1


def test_the_figures_of_scripts_are_printed(capsys):
    reading.main(["static/muster"])
    printed = capsys.readouterr().out
    assert [name for name in reading_scripts.MODELS if name not in printed] == []
