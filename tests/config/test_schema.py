"""The OpenAPI document says what the API does."""

import re

import pytest
import yaml
from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from agents.models import Agent, Provider
from runs.models import Run


@pytest.fixture(scope="module")
def schema():
    return SchemaGenerator().get_schema(request=None, public=True)


@pytest.fixture(scope="module")
def operations(schema):
    return [
        (f"{verb} {path}", operation)
        for path, verbs in schema["paths"].items()
        for verb, operation in verbs.items()
        if verb in ("get", "post", "put", "patch", "delete")
    ]


def parts_of(node):
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from parts_of(child)


def test_the_served_document_is_valid_openapi_3_1(client):
    document = yaml.safe_load(client.get("/api/schema/").content)
    assert document["openapi"] == "3.1.0"
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_operation_ids_are_unique_names_that_a_program_can_use(operations):
    ids = [operation["operationId"] for _, operation in operations]
    assert len(set(ids)) == len(ids)
    assert [name for name in ids if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []
    assert {"agents_list", "agents_publish", "messages_create", "approvals_decide", "runs_graph_svg"} <= set(ids)
    assert [name for name in ids if re.search(r"_(publish|cancel|retry|execute|diff)_(create|retrieve)$", name)] == []


def test_each_operation_has_its_tag_and_each_answer_a_description(operations):
    assert [at for at, one in operations if one["tags"] != [at.split("/")[3]]] == []
    assert [
        (at, code) for at, one in operations for code, body in one["responses"].items() if not body["description"]
    ] == []


def test_an_event_stream_is_a_text_whose_events_are_described(operations):
    streams = {
        at: body["content"]["text/event-stream"]["schema"]
        for at, one in operations
        for body in one["responses"].values()
        if "text/event-stream" in body.get("content", {})
    }
    assert set(streams) == {
        "post /api/v1/messages", "post /api/v1/agents/{name}/messages", "get /api/v1/runs/{id}/stream",
    }  # fmt: skip
    for schema in streams.values():
        assert schema["type"] == "string"
        data = schema["x-itemSchema"]["properties"]["data"]
        assert data["contentSchema"] == {"$ref": "#/components/schemas/Event"}


def test_every_id_is_a_string_without_a_format(schema, operations):
    assert [part for part in parts_of(schema) if part.get("format") == "uuid"] == []
    wanted = [
        (at, one["name"])
        for at, operation in operations
        for one in operation.get("parameters", [])
        if one["in"] == "path" and one["name"] != "number" and one["schema"]["type"] != "string"
    ]
    assert wanted == []
    ids = {
        (name, key): value.get("type")
        for name, one in schema["components"]["schemas"].items()
        for key, value in one.get("properties", {}).items()
        if key == "id" or key.endswith("_id")
    }
    assert {place: kind for place, kind in ids.items() if kind not in ("string", ["string", "null"])} == {}


def test_a_field_for_any_json_may_be_null(schema):
    assert schema["components"]["schemas"]["Run"]["properties"]["input"] == {}
    assert [part for part in parts_of(schema) if part.get("oneOf") == [{}, {"type": "null"}]] == []


def test_enumerations_have_names_of_their_own(schema):
    assert [
        name for name in schema["components"]["schemas"] if name.endswith("Enum") and any(map(str.isdigit, name))
    ] == []


@pytest.mark.django_db
def test_a_changed_row_is_shown_whole(alice, alice_api):
    provider = Provider.objects.create(name="local", kind="offline")
    Agent.objects.create(owner=alice, name="one", provider=provider, model_name="m", system_prompt="You help.")
    whole = alice_api.get("/api/v1/agents/one").json()
    changed = alice_api.patch("/api/v1/agents/one", {"description": "New"}, content_type="application/json")
    assert changed.status_code == 200, changed.content
    assert changed.json().keys() == whole.keys()


@pytest.mark.django_db
def test_a_path_that_is_none_is_refused_in_json_whatever_is_in_it(alice_api):
    answer = alice_api.post("/api/v1/nothing/%0A/here")
    assert answer.status_code == 404 and answer.json()["error"]["code"] == "not_found"


ROWS = [
    ("providers", {"name": "local", "kind": "offline"}),
    ("agents", {"name": "one", "description": "d", "system_prompt": "", "provider": "local", "model_name": "m"}),
    ("secrets", {"name": "token", "value": "s3cret"}),
    ("functions", {"name": "add", "source": "def add(a: int) -> int:\n    return a\n"}),
    ("chains", {"name": "both", "steps": [{"key": "one", "tool": "add"}]}),
    ("schedules", {"name": "daily", "agent": "one", "text": "Go.", "crontab": "0 9 * * *"}),
    ("triggers", {"name": "called", "kind": "webhook", "agent": "one", "text": "Go."}),
    ("budgets", {"period": "day", "max_runs": 5}),
    ("memory", {"text": "Likes tea."}),
    ("collections", {"name": "docs"}),
    ("keys", {"name": "mine", "scopes": ["runs:read"]}),
    ("records/tasks", {"title": "Water the plants"}),
    ("skills", {"text": "---\nname: minutes\ndescription: Writes minutes.\n---\nBe brief.\n"}),
]
FORMATS_APART = {"$schema": "https://json-schema.org/draft/2020-12/schema"}  # as most clients: types, not formats


@pytest.mark.django_db
def test_answers_are_as_the_document_says(schema, alice, alice_api):
    for path, body in ROWS:
        made = alice_api.post(f"/api/v1/{path}/", body)
        assert made.status_code == 201, made.content
        if path == "functions":
            alice_api.post("/api/v1/functions/add/publish")
    Run.objects.create(principal=alice, agent=Agent.objects.get(name="one"), status="succeeded")
    seen = 0
    for path, verbs in schema["paths"].items():
        if "get" not in verbs or "{" in path or not path.startswith("/api/v1/"):
            continue
        answer = alice_api.get(path)
        body = verbs["get"]["responses"].get("200", {}).get("content", {}).get("application/json")
        if answer.status_code != 200 or not body or answer["Content-Type"] != "application/json":
            continue
        whole = {**FORMATS_APART, **body["schema"], "components": schema["components"]}
        faults = [
            f"{path} {list(one.path)}: {one.message}" for one in Draft202012Validator(whole).iter_errors(answer.json())
        ]
        assert faults == []
        seen += 1
    assert seen > 30


@pytest.mark.django_db
def test_usage_has_the_column_that_it_is_grouped_by(schema, alice, alice_api):
    Run.objects.create(principal=alice, status="succeeded")
    known = schema["components"]["schemas"]["UsageRow"]["properties"]
    for by in ("agent", "day", "status", "user"):
        [row] = alice_api.get(f"/api/v1/usage/?by={by}").json()["results"]
        assert by in row and row.keys() <= known.keys()
