"""Prompt templates: what an author may write, and what no template can do."""

import time

import pytest

from agents import prompts
from agents.exceptions import Invalid

NAME = {"customer": {"type": "string"}}


def problems(template, variables=NAME):
    return [(one["field"], one["code"]) for one in prompts.check_template(template, variables)]


def test_a_template_may_only_read_declared_variables():
    assert problems("Hello {{ customer }}") == []
    assert problems("Hello {{ custmer }} {{ lipsum() }} {{ range(3) }}") == [("system_prompt", "unknown_variable")] * 3
    assert "did you mean “customer”" in prompts.check_template("{{ custmer }}", NAME)[0]["message"]


def test_a_broken_template_names_its_line():
    [problem] = prompts.check_template("Hello\n{% if customer %}", NAME)
    assert problem["code"] == "template_syntax" and problem["message"].startswith("Line 2")


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ([], "variables"),
        ({"Name": {}}, "variables.Name"),
        ({"name": {"type": "word"}}, "variables.name"),
        ({"name": {"$ref": "https://example.org/x"}}, "variables.name"),
        ({"name": {"type": "integer", "default": "x"}}, "variables.name.default"),
        ({f"n{number}": {} for number in range(51)}, "variables"),
    ],
)
def test_declarations_are_checked(variables, place):
    assert prompts.check_variables(variables)[0]["field"] == place


ATTACKS = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ customer.__init__.__globals__ }}",
    "{{ customer|attr('__class__') }}",
    "{{ customer.format.__globals__ }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(customer) }}",
    "{{ self._TemplateReference__context.environment }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{{ customer.x.y }}",
    "{{ 1 // 0 }}",
]


@pytest.mark.parametrize("template", ATTACKS)
def test_a_template_reaches_nothing_but_its_values(template):
    try:
        text = prompts.render_prompt(template, {"customer": "Ada"})
    except Invalid as refused:
        assert refused.code == "prompt_failed"
    else:
        assert "class" not in text and "root:" not in text, text


BOMBS = [
    "{% for a in x %}{% for b in x %}{% for c in x %}{% for d in x %}{{ a }}{% endfor %}{% endfor %}{% endfor %}{% endfor %}",
    "{{ 'a' * 10 ** 10 }}",
    "{{ customer|replace('a', customer)|replace('a', customer)|replace('a', customer)|replace('a', customer) }}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ '%9999999999d' % 1 }}",
    "{{ customer.ljust(10 ** 10) }}",
]


@pytest.mark.parametrize("template", BOMBS)
def test_a_template_that_asks_for_too_much_is_stopped(template):
    started = time.monotonic()
    with pytest.raises(Invalid) as refused:
        prompts.render_prompt(template, {"x": list(range(1000)), "customer": "a" * 2000})
    assert refused.value.code == "prompt_failed" and time.monotonic() - started < 60


def test_a_deep_template_is_refused_and_not_a_crash():
    assert problems("{{ " + "(" * 5000 + "customer" + ")" * 5000 + " }}")[0][0] == "system_prompt"


def test_what_was_rendered_is_kept_by_its_content(monkeypatch):
    first = prompts.render_prompt("Hello {{ customer }}", {"customer": "Bob"})
    monkeypatch.setattr(prompts.parse_in_child, "run_reader_task", lambda *_: pytest.fail("rendered again"))
    assert prompts.render_prompt("Hello {{ customer }}", {"customer": "Bob"}) == first == "Hello Bob"


def test_unseen_characters_do_not_come_out_of_a_template():
    assert prompts.render_prompt('{{ "a\\u0000b\\ud800\\u200bc" }}{{ customer }}', {"customer": "x"}) == "abcx"
