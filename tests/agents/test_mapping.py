"""Mappings say what they found, and what was missing."""

import pytest

from agents.mapping import MAX_ITEMS, MappingError, find_items, find_steps, holds, map_input, search_expression

SCOPE = {
    "input": {"count": 3, "names": ["ann", "ben"], "nothing": None},
    "steps": {"fetch": {"output": {"mails": [{"id": 1}, {"id": 2}], "total": 2}}},
}


def test_it_maps_paths_constants_and_defaults():
    mapping = {"n": "input.count", "mode": {"value": "fast"}, "limit": {"path": "input.limit", "default": 10}}
    assert map_input(mapping, SCOPE) == {"n": 3, "mode": "fast", "limit": 10}


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("steps.fetch.output.missing", "nothing_there", "steps.fetch.output has mails, total, and no “missing”"),
        ("steps.other.output", "nothing_there", "steps has fetch, and no “other”"),
        ("input.count.inner", "nothing_there", "input.count is a number"),
        ("input.nothing", "nothing_there", "no “nothing”"),
        ("input.[", "invalid_expression", "is not valid JMESPath"),
        ("steps.my-step.output", "invalid_expression", "is not valid JMESPath"),
        ("length(input.count)", "invalid_expression", "length"),
        (7, "invalid_mapping", "7 is not a mapping"),
        ("a" * 3000, "invalid_expression", "2000 characters"),
    ],
)
def test_a_mapping_to_nothing_names_the_parameter_and_the_missing_part(source, code, words):
    with pytest.raises(MappingError) as caught:
        map_input({"q": source}, SCOPE)
    assert caught.value.code == code
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("source", "item", "value"),
    [
        ("item", None, None),
        ("item.name", None, None),
        ("item.name", {"name": None}, None),
        ("item.name", {"name": 1}, 1),
    ],
)
def test_a_null_in_an_item_is_a_value(source, item, value):
    assert map_input({"x": source}, {**SCOPE, "item": item}) == {"x": value}


def test_what_an_item_lacks_is_missing():
    with pytest.raises(MappingError, match="no “name”"):
        map_input({"x": "item.name"}, {**SCOPE, "item": {"other": 1}})


@pytest.mark.parametrize(
    ("condition", "scope", "value"),
    [
        ("input.count > input.limit", {"count": 3, "limit": 2}, True),
        ("input.count > input.limit", {"count": 3, "limit": 3.5}, False),
        ("input.day < input.until", {"day": "2026-01-31", "until": "2026-02-01"}, True),
        ("input.name == input.other", {"name": "a", "other": "a"}, True),
        ("input.count > input.limit", {"count": 3}, False),
        ("contains(input.names, input.name)", {"names": ["a"], "name": "a"}, True),
    ],
)
def test_a_condition_compares_two_fields(condition, scope, value):
    assert holds(condition, {"input": scope}) is value


def test_a_number_and_a_text_are_not_compared_and_the_error_shows_both():
    with pytest.raises(MappingError) as caught:
        holds("input.count > input.limit", {"input": {"count": 3, "limit": "5"}})
    assert (caught.value.code, str(caught.value)) == ("not_comparable", "`>` compares a number ('3') with text ('5').")


@pytest.mark.parametrize("expression", ["`NaN`", "`[1e999]`", '`"\\ud800"`', '{"\\u0000": input}', "input[::0]"])
def test_a_constant_that_no_database_stores_is_refused(expression):
    with pytest.raises(MappingError) as caught:
        search_expression(expression, {"input": [1]})
    assert caught.value.code == "invalid_expression"


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "-Infinity"])
def test_a_number_that_no_database_stores_is_none(text):
    assert search_expression("to_number(@)", text) is None


def test_a_sum_that_cannot_be_written_is_none():
    assert search_expression("sum(@)", [10**4299] * 10) is None
    assert search_expression("sum(@)", [1e308, 1e308]) is None
    with pytest.raises(MappingError):
        search_expression("avg(@)", [10**400])


def test_the_expressions_of_a_mapping_share_their_work():
    rows = [{"a": number} for number in range(400)]
    mapping = {f"p{number}": "length(rows[?a >= `0`])" for number in range(40)}
    assert set(map_input(mapping, {"rows": rows}).values()) == {400}


@pytest.mark.parametrize("bomb", ["|".join(["[@,@]"] * 100), "|".join(["[@,@][]"] * 60), "|".join(["{a:@,b:@}"] * 60)])
def test_an_expression_that_doubles_itself_is_stopped(bomb):
    with pytest.raises(MappingError) as caught:
        search_expression(bomb, SCOPE)
    assert caught.value.code == "too_much_work"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("input.count > `2`", True),
        ("input.count > `3`", False),
        ("input.missing", False),
        ("input.names", True),
        ("`0`", True),
    ],
)
def test_conditions_follow_the_truth_of_jmespath(expression, expected):
    assert holds(expression, SCOPE) is expected


def test_for_each_takes_a_list_or_an_object_as_key_value_items():
    assert find_items("input.names", SCOPE) == ["ann", "ben"]
    assert find_items("steps.fetch", SCOPE) == [{"key": "output", "value": SCOPE["steps"]["fetch"]["output"]}]


@pytest.mark.parametrize(
    ("expression", "code"),
    [("input.count", "not_a_list"), ("input.missing", "nothing_there"), ("'text'", "not_a_list")],
)
def test_for_each_over_something_else_is_refused(expression, code):
    with pytest.raises(MappingError) as caught:
        find_items(expression, SCOPE)
    assert caught.value.code == code


def test_for_each_over_a_million_items_is_refused_with_the_limit():
    with pytest.raises(MappingError) as caught:
        find_items("input", {"input": [0] * 1_000_000})
    assert caught.value.code == "too_many_items"
    assert str(MAX_ITEMS) in str(caught.value)


def test_it_finds_the_steps_an_expression_reads():
    assert find_steps('steps.a.output[?x > `3`] || steps."b-c".error && length(steps.d.output)') == {"a", "b-c", "d"}
