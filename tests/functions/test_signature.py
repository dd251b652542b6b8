import pytest

from agents.schema import check_schema
from functions.signature import SourceProblem, read_source_signature


def properties(source):
    schema = read_source_signature(source).input_schema
    assert check_schema(schema) == []
    return schema["properties"]


def of(annotation, head=""):
    return properties(f"{head}\ndef main(x: {annotation}): ...")["x"]


def test_the_entry_is_the_last_top_level_function_unless_named():
    source = "def first(a: int): ...\ndef last(b: str): ..."
    assert read_source_signature(source).entry == "last"
    assert read_source_signature(source, entry="first").input_schema["required"] == ["a"]
    assert read_source_signature(source).functions == ("first", "last")


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("int", {"type": "integer"}),
        ("float", {"type": "number"}),
        ("list[str]", {"type": "array", "items": {"type": "string"}}),
        ("List[int]", {"type": "array", "items": {"type": "integer"}}),
        ("list", {"type": "array"}),
        ("dict[str, float]", {"type": "object", "additionalProperties": {"type": "number"}}),
        ("int | None", {"type": ["integer", "null"]}),
        ("typing.Optional[str]", {"type": ["string", "null"]}),
        ("Union[int, list[int]]", {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]}),
        ("Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}),
        ("Literal[1, 'b']", {"enum": [1, "b"]}),
        ("tuple[int, ...]", {"type": "array", "items": {"type": "integer"}}),
        ("datetime.date", {"type": "string", "format": "date"}),
        ("'list[int]'", {"type": "array", "items": {"type": "integer"}}),
        ("Annotated[int, 'how many']", {"type": "integer", "description": "how many"}),
        ("Any", {}),
        ("int | Any", {}),
        ("Unknown[int]", {}),
    ],
)
def test_it_reads_annotations(annotation, schema):
    assert of(annotation) == schema


def test_it_reads_pairs():
    assert of("tuple[int, str]") == {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string"}],
        "minItems": 2,
        "maxItems": 2,
    }


def test_it_reads_classes_and_aliases_of_the_source():
    typed = "class P(TypedDict):\n    name: str\n    age: NotRequired[int]"
    assert of("P", typed) == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    }
    assert of("Colour", "class Colour(Enum):\n    RED = 'red'\n    BLUE = 'blue'") == {
        "type": "string",
        "enum": ["red", "blue"],
    }
    assert of("Point", "@dataclass(frozen=True)\nclass Point:\n    x: float\n    y: float = 0")["required"] == ["x"]
    assert of("Number", "Number = int | float") == {"type": ["integer", "number"]}


def test_classes_that_hold_each_other_stay_small():
    fields = "\n".join(f"    f{n}: list[A | B]" for n in range(20))
    head = f"class A(TypedDict):\n{fields}\nclass B(TypedDict):\n{fields}"
    assert len(str(of("A", head))) < 100_000


def test_defaults_make_arguments_optional_and_stand_in_the_schema():
    source = "LIMIT = 5\ndef main(a: int, b: int = LIMIT, c: str = None, d=True, *, e: list = [], f=g()): ..."
    schema = read_source_signature(source).input_schema
    assert schema["required"] == ["a"]
    assert schema["properties"]["b"] == {"type": "integer", "default": 5}
    assert schema["properties"]["c"] == {"type": ["string", "null"], "default": None}
    assert schema["properties"]["d"] == {"type": "boolean", "default": True}
    assert schema["properties"]["f"] == {}
    assert read_source_signature(source).defaults == {"b": 5, "c": None, "d": True, "e": []}


GOOGLE = '''def main(a, b=2):
    """Add two numbers.

    Slowly.

    Args:
        a (int): the first
            of them
        b: the second

    Returns:
        int: their sum
    """'''
NUMPY = '''def main(a, b=2):
    """Add two numbers.

    Slowly.

    Parameters
    ----------
    a : int
        the first of them
    b
        the second

    Returns
    -------
    int
        their sum
    """'''
REST = '''def main(a, b=2):
    """Add two numbers.

    Slowly.

    :param int a: the first of them
    :param b: the second
    :returns: their sum
    """'''


@pytest.mark.parametrize("source", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_it_reads_the_three_docstring_styles(source):
    signature = read_source_signature(source)
    assert signature.summary == "Add two numbers."
    assert signature.description == "Add two numbers.\n\nSlowly.\n\nReturns: their sum"
    assert signature.input_schema["properties"] == {
        "a": {"type": "integer", "description": "the first of them"},
        "b": {"type": "number", "default": 2, "description": "the second"},
    }


def test_the_context_is_not_an_argument():
    signature = read_source_signature("async def main(ctx, a: int): ...")
    assert signature.requires_context and signature.is_async
    assert list(signature.input_schema["properties"]) == ["a"]


def test_other_arguments_are_refused_unless_the_function_takes_them():
    assert read_source_signature("def main(a): ...").input_schema["additionalProperties"] is False
    assert read_source_signature("def main(a, **more): ...").input_schema["additionalProperties"] is True


def test_it_lists_imports_and_what_comes_back():
    signature = read_source_signature("import re, datetime as dt\nfrom math import pi\ndef main() -> list[int]: ...")
    assert signature.imports == ("re", "datetime", "math")
    assert signature.output_schema == {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize(
    ("source", "entry", "code", "line"),
    [
        ("x = 1\ndef main(:\n", "", "syntax", 2),
        ("x = 1", "", "no_entry", 1),
        ("def main(): ...", "other", "no_entry", 1),
        ("def main(a, *rest): ...", "", "nameless_arguments", 1),
        ("-" * 20_000 + "1", "", "too_complex", 1),
        ("x = 'a'" + ".b" * 20_000, "", "too_complex", 1),
        ("def main(): ...\0", "", "syntax", 1),
    ],
)
def test_it_says_why_a_source_has_no_signature(source, entry, code, line):
    with pytest.raises(SourceProblem) as caught:
        read_source_signature(source, entry)
    refusal = caught.value.as_refusal()
    assert (refusal["code"], refusal["line"]) == (code, line)
    assert refusal["hint"]


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("Decimal", {"type": "string", "description": "a decimal number"}),
        ("set[int]", {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        ("list[date]", {"type": "array", "items": {"type": "string", "format": "date"}}),
        ("Color", {"type": "string", "enum": ["red"]}),
        ("Item", {"type": "object", "properties": {"price": {"type": "string", "description": "a decimal number"}},
                  "required": ["price"]}),
        ("Pair", {"type": "array", "prefixItems": [{"type": "integer"}], "minItems": 1, "maxItems": 1}),
        ("bytes", {"type": "string", "contentEncoding": "base64"}),
        ("pd.DataFrame", {"type": "array", "items": {"type": "object"}, "description": "one object per row"}),
    ],
)  # fmt: skip
def test_the_output_schema_describes_what_results_are_converted_to(annotation, schema):
    source = (
        "class Color(Enum):\n    RED = 'red'\n"
        "@dataclass\nclass Item:\n    price: Decimal\n"
        "class Pair(NamedTuple):\n    a: int\n"
        f"def main() -> {annotation}: ...\n"
    )
    assert read_source_signature(source).output_schema == schema
