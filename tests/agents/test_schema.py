import time

import pytest

from agents.schema import MAX_VALUE_DEPTH, cache_key, canonical_json, check_schema, find_validator, hash_json, validate

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "age": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}


def codes(schema):
    return [problem["code"] for problem in check_schema(schema)]


def doubling(levels):
    """Each definition asks for the next one twice."""
    defs = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{levels}": {"type": "integer"}}}


def nested(levels, inner=None):
    for _ in range(levels):
        inner = {"items": inner or {}}
    return inner


def test_it_accepts_ordinary_schemas():
    tree = {"$defs": {"node": {"properties": {"left": {"$ref": "#/$defs/node"}}}}, "$ref": "#/$defs/node"}
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    for schema in (PERSON, {}, tree, draft7, doubling(6), {"properties": {"$ref": {"type": "string"}}}):
        assert check_schema(schema) == []


def test_it_says_where_a_schema_is_none():
    (problem,) = check_schema({"type": "object", "properties": {"age": {"type": "intger"}}})
    assert problem["path"] == "/properties/age/type"
    assert problem["code"] == "not_a_schema"
    assert problem["hint"]


@pytest.mark.parametrize("schema", [None, True, [], "object", 3, {"const": float("nan")}])
def test_it_refuses_what_is_no_schema(schema):
    assert check_schema(schema)


@pytest.mark.parametrize(
    "where", ["http://example.com/s.json", "https://x/y", "file:///etc/passwd", "other.json#/a", "//host/x"]
)
def test_it_refuses_remote_references_wherever_they_hide(where):
    assert codes({"properties": {"a": {"anyOf": [{"$ref": where}]}}}) == ["remote_ref"]
    assert codes({"$defs": {"a": {"$dynamicRef": where}}}) == ["remote_ref"]


def test_data_that_looks_like_a_reference_is_data():
    assert check_schema({"default": {"$ref": "http://example.com"}, "examples": [{"$ref": "http://example.com"}]}) == []


def test_an_unchecked_remote_reference_is_never_fetched():
    with pytest.raises(ValueError, match="Retrieval is disabled"):
        validate({"$ref": "http://127.0.0.1:9/schema.json"}, 1)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a*)*", "(a|a)*b", "(a|aa)+$", r"^(\w+\s?)*$", "((a{1000}){1000})", "(a+|b)*c"]
)
def test_it_refuses_patterns_that_can_run_away(pattern):
    assert codes({"type": "string", "pattern": pattern}) == ["bad_pattern"]
    assert codes({"patternProperties": {pattern: {}}}) == ["bad_pattern"]


@pytest.mark.parametrize(
    "pattern", [r"^\d{4}-\d{2}-\d{2}$", "^([a-z]+,)*[a-z]+$", "^[a-z0-9]+(-[a-z0-9]+)*$", r"^\p{L}+$", "^(foo|bar)+$"]
)
def test_it_accepts_honest_patterns(pattern):
    assert check_schema({"type": "string", "pattern": pattern}) == []


def test_a_pattern_that_was_never_checked_still_ends_at_once():
    started = time.thread_time()
    assert validate({"type": "string", "pattern": "^(a+)+$"}, "a" * 5000 + "!")
    assert time.thread_time() - started < 20


def test_it_refuses_lookaround_and_unreadable_patterns():
    assert (
        check_schema({"pattern": "(?=a)b"})
        and check_schema({"pattern": "(x"})
        and check_schema({"pattern": "a" * 2000})
    )


def test_it_caps_depth_size_and_work():
    assert codes(nested(40)) == ["too_deep"]
    assert codes({"description": "x" * 70_000}) == ["too_large"]
    started = time.thread_time()
    assert codes(doubling(31)) == ["too_much_work"]
    assert time.thread_time() - started < 20


def test_it_refuses_a_reference_to_nothing():
    assert codes({"$ref": "#/$defs/nowhere"}) == ["bad_ref"]


def test_a_reference_to_itself_ends():
    assert check_schema({"$ref": "#"}) == []
    assert validate({"$ref": "#"}, {"a": [1]}) == []


def test_it_names_each_error_of_a_value():
    problems = validate(PERSON, {"name": "", "age": "old", "shoe/size": 44})
    assert {problem["path"] for problem in problems} == {"", "/name", "/age"}
    assert validate(PERSON, {"name": "Ada", "age": 36}) == []


def test_it_keeps_messages_short_and_few():
    problems = validate({"items": {"type": "integer"}}, ["x" * 80] * 200)
    assert len(problems) == 50
    problems += validate({"items": {"type": "integer"}}, ["x" * 10_000] * 200)
    assert len(problems) == 51, "only the first error of a large value"
    assert max(len(problem["message"]) for problem in problems) < 320


def test_it_refuses_bottomless_values():
    value = 1
    for _ in range(MAX_VALUE_DEPTH + 1):
        value = [value]
    assert validate({}, value)[0]["message"].startswith("The value is nested deeper")


def test_equal_schemas_share_one_validator():
    one, other = {"type": "string", "minLength": 1}, {"minLength": 1, "type": "string"}
    assert find_validator(cache_key(one)) is find_validator(cache_key(other))


def test_equal_values_have_equal_hashes():
    assert canonical_json({"b": 1, "a": [1.5, "é"]}) == '{"a":[1.5,"é"],"b":1}'
    assert hash_json({"b": 1, "a": 2}) == hash_json({"a": 2, "b": 1})
    with pytest.raises(ValueError):
        hash_json(float("inf"))
