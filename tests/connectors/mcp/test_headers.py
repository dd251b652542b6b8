import pytest

from connectors.mcp.headers import BadMark, build_message_headers, encode_header_text, marks, of_arguments


def schema(**properties):
    return {"type": "object", "properties": properties}


def marked(name="Region", type="string"):
    return {"type": type, "x-mcp-header": name}


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("", "=?base64??="),
    ],
)
def test_values_are_encoded_as_the_specification_shows(text, header):
    assert encode_header_text(text) == header


def test_a_line_break_in_a_name_cannot_add_a_header():
    headers = build_message_headers({"method": "tools/call", "params": {"name": "x\r\nAuthorization: stolen"}})
    assert "\n" not in headers["Mcp-Name"] and headers["Mcp-Name"].startswith("=?base64?")


def test_marked_arguments_become_headers_where_they_have_a_value():
    rule = schema(
        region=marked(), dry=marked("Dry", "boolean"), count=marked("Count", "integer"), none=marked("None"),
        inner=schema(place=marked("Place")),
    )  # fmt: skip
    given = {"region": "eu", "dry": True, "count": 7, "none": None, "inner": {"place": "here"}, "x": 1}
    assert of_arguments(rule, given) == {
        "Mcp-Param-Region": "eu",
        "Mcp-Param-Dry": "true",
        "Mcp-Param-Count": "7",
        "Mcp-Param-Place": "here",
    }
    assert of_arguments(rule, {"inner": "no object"}) == {}


@pytest.mark.parametrize(
    "rule",
    [
        schema(a=marked("")),
        schema(a=marked("has space")),
        schema(a=marked("a\r\nb")),
        schema(a=marked(7)),
        schema(a=marked("A"), b=marked("a")),
        schema(a=marked("A", "number")),
        schema(a=marked("A", "object")),
        schema(a={"type": "array", "items": marked("A")}),
        {"type": "object", "anyOf": [schema(a=marked("A"))]},
        {"type": "object", "$defs": {"a": marked("A")}},
    ],
)
def test_a_mark_that_breaks_the_rules_is_refused(rule):
    with pytest.raises(BadMark):
        marks(rule)


def test_a_property_may_have_the_name_of_the_mark():
    assert marks(schema(**{"x-mcp-header": {"type": "string"}})) == {}


def test_an_integer_beyond_what_a_double_holds_is_refused():
    with pytest.raises(BadMark):
        of_arguments(schema(n=marked("N", "integer")), {"n": 2**53})
