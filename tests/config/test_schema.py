"""The OpenAPI document says what the API does."""

import pytest
from drf_spectacular.generators import SchemaGenerator

from agents.models import Agent, Provider


@pytest.fixture(scope="module")
def schema():
    return SchemaGenerator().get_schema(request=None, public=True)


def parts_of(node):
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from parts_of(child)


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
