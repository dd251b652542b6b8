"""Lists are narrowed by what they know, and by nothing else."""

import pytest
from drf_spectacular.generators import SchemaGenerator

from agents.models import Agent
from agents.pagination import PAGING, Cursor, known_parameters

V1 = "/api/v1"


def faults(answer):
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "unknown_parameter")
    return {detail["field"]: detail["message"] for detail in answer.json()["error"]["details"]}


@pytest.fixture
def two(alice, offline):
    return [Agent.objects.create(owner=alice, name=name, provider=offline) for name in ("one", "two")]


def test_a_misspelt_filter_is_told_with_the_one_that_was_meant(alice_api, two):
    assert faults(alice_api.get(f"{V1}/agents/?enable=false&limit=1")) == {
        "enable": "There is no such parameter here; did you mean “enabled”?"
    }
    assert "limit" in faults(alice_api.get(f"{V1}/agents/?page=2"))["page"]
    assert [row["name"] for row in alice_api.get(f"{V1}/agents/?name=two").json()["results"]] == ["two"]


def test_lists_within_a_row_do_not_take_the_filters_of_the_list_outside(alice_api, two):
    assert "enabled" in faults(alice_api.get(f"{V1}/agents/one/versions/?enabled=true"))
    assert alice_api.get(f"{V1}/agents/one/versions/?limit=5").json()["results"] == []


def test_many_long_unknown_names_have_a_short_answer(alice_api, two):
    query = "&".join(f"{number}{'x' * 200}=1" for number in range(40))
    answer = alice_api.get(f"{V1}/agents/?{query}")
    assert len(faults(answer)) == 20 and len(answer.content) < 20_000


def lists():
    generator = SchemaGenerator()
    schema = generator.get_schema(request=None, public=True)
    for path, _, method, view in generator._get_paths_and_endpoints():
        action = getattr(view, "action", None)
        if method == "GET" and action and getattr(view, "pagination_class", None) is Cursor and action != "retrieve":
            declared = {
                part["name"] for part in schema["paths"][path]["get"].get("parameters", []) if part["in"] == "query"
            }
            if declared >= PAGING:
                yield path, declared - PAGING, known_parameters(view, view.queryset)


def test_each_list_reads_the_parameters_that_openapi_tells_of():
    found = list(lists())
    assert len(found) > 30
    assert {path: declared for path, declared, _ in found} == {path: known for path, _, known in found}
