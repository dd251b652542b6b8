"""Each operation of a document becomes a tool that can be called, or is named with the reason why not."""

import json

import pytest
import yaml

from agents.models import Tool
from agents.schema import check_schema, drop_unusable_patterns, validate
from connectors.models import Connection
from plumbing.untrusted import openapi
from plumbing.untrusted.parse_in_child import Refused
from tests.docs.signs import ROOT

CORPUS = sorted((ROOT / "tests" / "corpus" / "openapi").glob("*.yaml"))
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
JSON_OF = "application/json"


def read(document, base_url="", found_at="", only=None):
    """{name: operation}"""
    facts = openapi.read_here(json.dumps(document), only, base_url, found_at)
    return {one["name"]: one for one in map(json.loads, facts["operations"])}


def document(paths, version="3.0.3", **more):
    return {"openapi": version, "servers": [{"url": "https://a.example/v1"}], "paths": paths, **more}


def post(schema, media=JSON_OF, version="3.0.3", **components):
    """The only operation of a document whose body has this schema."""
    body = {"content": {media: {"schema": schema}}, "required": True}
    paths = {"/x": {"post": {"operationId": "x", "requestBody": body}}}
    return read(document(paths, version, components={"schemas": components}))["x"]


def takes(schema, value, **more):
    """Whether our own check accepts this body."""
    described = post(schema, **more)
    assert described["problem"] == ""
    assert check_schema(described["input_schema"]) == []
    return validate(described["input_schema"], {"body": value}) == []


def get(**operation):
    return {"get": {"operationId": "x", **operation}}


def parameter(name, where="query", **more):
    return {"name": name, "in": where, "schema": {"type": "string"}, **more}


# -- the corpus ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_every_operation_of_the_corpus_is_a_tool_or_says_why_not(path):
    """`x-tools` names the arguments of each tool, `x-left-out` a part of each reason, `x-valid` and `x-invalid` calls."""
    value = yaml.safe_load(path.read_text())
    operations = read(value, found_at="https://a.example/openapi.yaml")
    tools = {name: one for name, one in operations.items() if not one["problem"]}
    assert {name: sorted(one["input_schema"]["properties"]) for name, one in tools.items()} == {
        name: sorted(arguments) for name, arguments in value["x-tools"].items()
    }
    reasons = {name: one["problem"] for name, one in operations.items() if one["problem"]}
    assert reasons.keys() == value.get("x-left-out", {}).keys()
    for name, part in value.get("x-left-out", {}).items():
        assert part in reasons[name]
    schemas = {name: drop_unusable_patterns(one["input_schema"]) for name, one in tools.items()}
    assert {name: check_schema(schema) for name, schema in schemas.items() if check_schema(schema)} == {}
    for name, arguments in value.get("x-valid", []):
        assert validate(schemas[name], arguments) == [], (name, arguments)
    for name, arguments in value.get("x-invalid", []):
        assert validate(schemas[name], arguments), (name, arguments)


# -- names, references, places --------------------------------------------------------------------------------------------


def test_two_operations_with_one_id_are_both_there():
    operations = read(document({"/a": get(), "/b": get(), "/c": {"get": {}, "post": {"operationId": "get_c"}}}))
    assert {name: one["details"]["path"] for name, one in operations.items()} == {
        "x": "/a", "get_b": "/b", "get_c": "/c", "post_c": "/c",
    }  # fmt: skip


def test_parameters_of_one_name_are_told_apart():
    same = [parameter("id", "query"), parameter("id", "path"), parameter("id", "header"), parameter("body")]
    body = {"content": {JSON_OF: {"schema": NAME}}}
    described = read(document({"/a/{id}": get(parameters=same, requestBody=body)}))["x"]
    assert set(described["input_schema"]["properties"]) == {"id", "id_query", "id_header", "body_query", "body"}
    places = {one["argument"]: one["in"] for one in described["details"]["parameters"]}
    assert places == {"id": "path", "id_query": "query", "id_header": "header", "body_query": "query"}


def test_a_placeholder_that_is_not_described_takes_text():
    schema = read(document({"/a/{id}/{part}.json": get(parameters=[parameter("id", "path")])}))["x"]["input_schema"]
    assert schema["required"] == ["id", "part"] and schema["properties"]["part"] == {"type": "string"}


def test_a_parameter_that_the_path_has_no_place_for_is_a_reason():
    assert "no place" in read(document({"/a": get(parameters=[parameter("id", "path")])}))["x"]["problem"]


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("#/paths/~1shared/get/parameters/0", ""),
        ("#/components/parameters/One", ""),
        ("#/components/parameters/Chain", ""),
        ("#/components/parameters/None", "which the document does not have"),
        ("#/components/parameters/Circle", "in a circle"),
        ("other.yaml#/p", "outside of the document"),
        ("https://b.example/p.json", "outside of the document"),
    ],
)
def test_references_are_followed_inside_the_document_alone(reference, problem):
    components = {
        "One": parameter("limit"),
        "Chain": {"$ref": "#/components/parameters/One"},
        "Circle": {"$ref": "#/components/parameters/Circle"},
    }
    paths = {"/shared": {"get": {"parameters": [parameter("limit")]}}, "/a": get(parameters=[{"$ref": reference}])}
    described = read(document(paths, components={"parameters": components}))["x"]
    assert problem in described["problem"] and bool(problem) == bool(described["problem"])
    assert problem or "limit" in described["input_schema"]["properties"]


@pytest.mark.parametrize("reference", ["#/components/schemas/None", "other.yaml#/X", "None"])
def test_a_schema_that_cannot_be_read_is_a_reason(reference):
    assert post({"type": "object", "properties": {"a": {"$ref": reference}}})["problem"]
    assert post(NAME)["problem"] == ""


def test_a_path_may_stand_elsewhere():
    shared = {"parameters": [parameter("limit")], "get": {"operationId": "x"}}
    paths = {
        "/a": {"$ref": "#/components/pathItems/Shared", "parameters": [parameter("page")]},
        "/b": {"$ref": "b.yaml"},
    }
    operations = read(document(paths, "3.1.0", components={"pathItems": {"Shared": shared}}))
    assert set(operations["x"]["input_schema"]["properties"]) == {"page"}, "what stands beside the reference counts"
    assert "outside" in operations["path_b"]["problem"]


@pytest.mark.parametrize(
    ("servers", "base_url", "expected"),
    [
        ([{"url": "/v9"}], "", "https://a.example/v9"),
        ([{"url": "https://other.example/api/"}], "", "https://other.example/api"),
        ([{"url": "https://{where}.example", "variables": {"where": {"default": "eu"}}}], "", "https://eu.example"),
        ([{"url": "https://a.example/v1"}], "", None),
        ([{"url": "https://a.example/v9"}], "http://127.0.0.1:9/v1", "http://127.0.0.1:9/v9"),
        ([{"url": "https://other.example"}], "http://127.0.0.1:9/v1", "https://other.example"),
    ],
)
@pytest.mark.parametrize("level", ["operation", "path"])
def test_a_server_of_an_operation_or_a_path_is_called(servers, base_url, expected, level):
    item = get(servers=servers) if level == "operation" else {**get(), "servers": servers}
    assert read(document({"/a": item}), base_url)["x"]["details"].get("server") == expected


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ({"trace": {}}, "TRACE"),
        ({"query": {}}, "QUERY"),
        ({"get": []}, "not an object"),
        ({"get": {"parameters": 5}}, "cannot be read"),
        ({"get": {"requestBody": {"content": [1]}}}, "no content type"),
        ({"get": {"requestBody": {"content": {}}}}, "no content type"),
        ({"get": {"requestBody": {"content": {"application/xml": {"schema": NAME}}}}}, "application/xml"),
        ({"get": {"parameters": [parameter("a", "querystring")]}}, "querystring"),
        ({"get": {"parameters": [parameter("a", "query", style="simple")]}}, "style"),
        ({"get": {"parameters": [parameter("Host", "header", required=True)]}}, "header Host"),
        (
            {"get": {"parameters": [{"name": "a", "in": "query", "content": {"application/xml": {}}}]}},
            "application/xml",
        ),
        ({"get": {"servers": [{"url": "ftp://a.example"}]}}, "base address"),
        ([1], "not an object"),
    ],
)
def test_what_cannot_be_sent_is_named_with_its_reason_and_the_others_come(item, part):
    operations = list(read(document({"/a": item, "/b": get()})).values())
    assert part in operations[0]["problem"] and operations[1]["problem"] == ""


def test_a_document_with_more_operations_than_a_connection_has_names_the_others():
    operations = read(document({f"/{number}": {"get": {}} for number in range(250)}))
    assert len(operations) == 250
    assert sum("name those" in one["problem"] for one in operations.values()) == 50
    assert (
        read(document({f"/{number}": {"get": {}} for number in range(250)}), only=["get_240"])["get_240"]["problem"]
        == ""
    )


# -- schemas of requests -----------------------------------------------------------------------------------------------


def test_what_only_answers_have_is_neither_needed_nor_offered():
    thing = {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "owner": {"allOf": [{"$ref": "#/components/schemas/Owner"}], "readOnly": True},
            "made": {"$ref": "#/components/schemas/Moment"},
            "name": {"type": "string"},
            "secret": {"type": "string", "writeOnly": True},
        },
        "required": ["id", "owner", "made", "name", "secret"],
    }
    components = {"Thing": thing, "Owner": NAME, "Moment": {"type": "string", "readOnly": True}}
    described = post({"$ref": "#/components/schemas/Thing"}, **components)
    assert set(described["input_schema"]["$defs"]["Thing"]["properties"]) == {"name", "secret"}
    assert described["input_schema"]["$defs"]["Thing"]["required"] == ["name", "secret"]


def test_what_one_part_says_is_only_read_another_does_not_need():
    schema = {"allOf": [{"type": "object", "properties": {"id": {"readOnly": True}}}, {"required": ["id", "name"]}]}
    assert takes(schema, {"name": "x"}) and not takes(schema, {})


CAT = {"type": "object", "properties": {"kind": {"type": "string"}, "lives": {"type": "integer"}}, "required": ["kind"]}
DOG = {"type": "object", "properties": {"kind": {"type": "string"}, "bark": {"type": "string"}}, "required": ["kind"]}
EITHER = [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
def test_a_choice_by_discriminator_takes_each_branch_by_its_word(keyword):
    mapping = {"cat": "#/components/schemas/Cat", "dog": "Dog"}
    schema = {keyword: EITHER, "discriminator": {"propertyName": "kind", "mapping": mapping}}
    assert takes(schema, {"kind": "cat", "lives": 9}, Cat=CAT, Dog=DOG)
    assert takes(schema, {"kind": "dog", "bark": "loud"}, Cat=CAT, Dog=DOG)
    assert not takes(schema, {"kind": "cow"}, Cat=CAT, Dog=DOG)
    assert not takes(schema, {"kind": "cat", "lives": "many"}, Cat=CAT, Dog=DOG)


def test_without_a_mapping_the_names_of_the_schemas_choose():
    schema = {"oneOf": EITHER, "discriminator": {"propertyName": "kind"}}
    assert takes(schema, {"kind": "Cat"}, Cat=CAT, Dog=DOG) and not takes(schema, {"kind": "cat"}, Cat=CAT, Dog=DOG)


def test_a_base_schema_that_lists_what_extends_it_does_not_go_round_in_circles():
    pet = {
        "type": "object",
        "properties": {"kind": {"type": "string"}, "name": {"type": "string"}},
        "required": ["kind", "name"],
        "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/components/schemas/Cat"}},
    }
    cat = {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"properties": {"lives": {"type": "integer"}}}]}
    for more in ({}, {"oneOf": [{"$ref": "#/components/schemas/Cat"}]}):
        schema = {"$ref": "#/components/schemas/Pet"}
        assert takes(schema, {"kind": "cat", "name": "Tom", "lives": 9}, Pet={**pet, **more}, Cat=cat)
        assert not takes(schema, {"kind": "cat", "name": "Tom", "lives": "9"}, Pet={**pet, **more}, Cat=cat)
        assert not takes(schema, {"kind": "cat"}, Pet={**pet, **more}, Cat=cat)


def test_a_value_that_fits_several_branches_is_left_to_the_service():
    assert takes({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 3)
    both = {"oneOf": [{"type": "string"}], "anyOf": [{"minLength": 2}]}
    assert takes(both, "ab") and not takes(both, "a") and not takes(both, 5)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "nullable": True},
        {"type": "string", "enum": ["a"], "nullable": True},
        {"allOf": [{"$ref": "#/components/schemas/Name"}], "nullable": True},
        {"type": "object", "allOf": [{"$ref": "#/components/schemas/Name"}], "nullable": True},
        {"$ref": "#/components/schemas/Name", "nullable": True},
        {"oneOf": [{"type": "string"}, {"type": "integer"}], "nullable": True},
        {"enum": ["a"], "nullable": True},
    ],
)
def test_null_is_taken_where_the_document_allows_it(schema):
    assert takes(schema, None, Name=NAME)
    assert not takes({key: value for key, value in schema.items() if key != "nullable"}, None, Name=NAME)


def test_schemas_that_refer_to_themselves_are_taken():
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/components/schemas/Node"}, "value": {"type": "integer"}},
    }
    assert takes({"$ref": "#/components/schemas/Node"}, {"next": {"next": {"value": 1}}}, Node=node)
    assert not takes({"$ref": "#/components/schemas/Node"}, {"next": {"next": {"value": "1"}}}, Node=node)


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "string", "required": True},
        {"type": "any"},
        {"type": ["string", "file"]},
        {"enum": []},
        {"minimum": "0"},
        {"examples": {"one": {"value": "x"}}},
        {"items": []},
        {"properties": None},
        {"type": "string", "maxLength": -1},
        {"exclusiveMaximum": True},
        {"multipleOf": 0},
        {"description": 5},
        {"x-anything": {"$ref": "nowhere"}},
        {"example": {"$ref": "nowhere"}},
        {"required": ["a", "a"], "type": ["string", "object"]},
    ],
)
def test_keywords_that_are_written_wrongly_refuse_nothing(odd):
    assert takes({"type": "object", "properties": {"a": odd}}, {"a": "text"})


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(?=.*\d).+$",
        r"^(?!_)",
        r"(?<name>x)",
        r"\A\w+\z",
        r"^\u{1F600}$",
        r"\cA",
        "[",
        r"(a+)+",
        r"[\d-x]",
        "x" * 2000,
    ],
)
def test_a_pattern_of_another_dialect_refuses_no_tool(pattern):
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern, "description": "A."}}}
    schema = drop_unusable_patterns(schema)
    assert check_schema(schema) == [] and validate(schema, {"a": "anything"}) == []
    assert schema["properties"]["a"]["description"].startswith("A. Must match the pattern ")


def test_a_pattern_at_any_place_is_left_out_and_the_good_ones_stay():
    bad, good = {"type": "string", "pattern": "(?=x)"}, {"type": "string", "pattern": "^a+$"}
    schema = {
        **bad,
        "type": "object",
        "properties": {"pattern": good, "b": {"$ref": "#/$defs/b"}},
        "patternProperties": {"(?!x)": {}},
        "$defs": {"b": bad},
    }
    schema = drop_unusable_patterns(schema)
    assert check_schema(schema) == [] and "patternProperties" not in schema and "pattern" not in schema["$defs"]["b"]
    assert validate(schema, {"pattern": "aa"}) == [] and validate(schema, {"pattern": "b"})


def test_a_large_schema_is_taken_without_its_words():
    fields = {f"field{number}": {"type": "string", "description": "word " * 100} for number in range(200)}
    schema = post({"type": "object", "properties": fields})["input_schema"]
    assert len(schema["properties"]["body"]["properties"]) == 200 and check_schema(schema) == []


# -- versions and addresses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"host": "a.example", "basePath": "/v2", "schemes": ["http", "https"]}, "https://a.example/v2"),
        ({"host": "a.example:8080", "schemes": ["http"]}, "http://a.example:8080"),
        ({"basePath": "/v2"}, "https://found.example/v2"),
        ({}, "https://found.example"),
    ],
)
def test_the_address_of_a_swagger_document(more, expected):
    text = json.dumps({"swagger": "2.0", "paths": {"/a": {"get": {}}}, **more})
    assert openapi.read_here(text, None, "", "https://found.example/docs/swagger.json")["base_url"] == expected


@pytest.mark.parametrize("version", ["3.0.0", "3.0.4", "3.1.0", "3.1.2", "3.2.0"])
def test_every_version_3_is_read(version):
    assert read(document({"/a": get()}, version))["x"]["problem"] == ""


@pytest.mark.parametrize("head", ["swagger: 2.0", "swagger: '2.0'", "openapi: 3.1", "openapi: 3.0.3"])
def test_versions_may_be_numbers(head):
    text = f"{head}\nhost: a.example\nservers: [{{url: 'https://a.example'}}]\npaths: {{/a: {{get: {{}}}}}}"
    assert len(openapi.read_here(text, None, "", "")["operations"]) == 1


@pytest.mark.parametrize("head", ["swagger: '1.2'", "openapi: '2.0'", "openapi: 4.0.0", "asyncapi: 3.0.0"])
def test_other_formats_are_refused(head):
    with pytest.raises(Refused, match=r"OpenAPI 3 and Swagger 2\.0"):
        openapi.read_here(f"{head}\npaths: {{}}", None, "https://a.example", "")


# -- what an import says -------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_an_import_says_how_many_operations_are_tools_and_why_the_others_are_not(alice, alice_api):
    connection = Connection.objects.create(owner=alice, name="shop", provider="openapi")
    paths = {"/a": get(), "/b": {"trace": {}}, "/c": {"get": {"parameters": [{"$ref": "other.yaml#/p"}]}}}
    path = f"/api/v1/connections/{connection.pk}/import"

    shown = alice_api.post(f"{path}/preview", {"document": document(paths)}).json()
    assert (shown["usable"], shown["total"]) == (1, 3)
    assert [one["state"] for one in shown["operations"]] == ["new", "refused", "refused"]
    done = alice_api.post(path, {"document": document(paths)}).json()
    assert (done["usable"], done["total"], done["new"]) == (1, 3, ["x"])
    reasons = {one["name"]: one["reason"] for one in done["refused"]}
    assert reasons["trace_b"] == "The method TRACE is not supported."
    assert Tool.objects.filter(kind="http").count() == 1

    german = alice_api.post(path, {"document": document(paths)}, HTTP_ACCEPT_LANGUAGE="de").json()
    reasons = {one["name"]: one["reason"] for one in german["refused"]}
    assert reasons["get_c"] == "Sie verweist auf „other.yaml#/p“; das liegt außerhalb des Dokuments."


@pytest.mark.django_db
def test_muster_can_read_its_own_description(alice_api):
    described = alice_api.get("/api/schema/", HTTP_ACCEPT="application/json").json()
    operations = read(described, "https://muster.example")
    first = list(operations.values())[:200]
    assert len(operations) > 200 and {one["problem"] for one in first} == {""}
    assert [one["name"] for one in first if check_schema(one["input_schema"])] == []
