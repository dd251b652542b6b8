"""Lists are narrowed by what they know, and by nothing else."""

import pytest
from drf_spectacular.generators import SchemaGenerator

from agents.models import Agent
from runs.models import Run, Session

V1 = "/api/v1"


def faults(answer):
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "unknown_parameter")
    return {detail["field"]: detail["message"] for detail in answer.json()["error"]["details"]}


@pytest.fixture
def two(alice, offline):
    return [Agent.objects.create(owner=alice, name=name, provider=offline) for name in ("one", "two")]


def test_an_unknown_filter_is_refused_with_the_one_that_was_meant_or_with_all(alice_api, two):
    assert faults(alice_api.get(f"{V1}/agents/?enable=false&limit=1")) == {
        "enable": "There is no parameter with this name; did you mean “enabled”?"
    }
    names = "The names are cursor, enabled, fields, limit, name, ordering, provider, search."
    assert faults(alice_api.get(f"{V1}/agents/?page=2")) == {"page": f"There is no parameter with this name. {names}"}
    assert [row["name"] for row in alice_api.get(f"{V1}/agents/?name=two").json()["results"]] == ["two"]


def test_lists_within_a_row_do_not_take_the_filters_of_the_list_outside(alice_api, two):
    assert alice_api.get(f"{V1}/agents/one/versions/?enabled=x").status_code == 422
    assert alice_api.get(f"{V1}/agents/one/versions/?limit=5").json()["results"] == []


def test_many_misspelt_names_have_a_short_answer(alice_api, two):
    query = "&".join(f"enabled{chr(97 + number)}=1" for number in range(26))
    answer = alice_api.get(f"{V1}/agents/?{query}&{'x' * 3000}=1")
    assert len(faults(answer)) == 20 and len(answer.content) < 20_000


NO_PAGES = {"/api/v1/memory/search", "/api/v1/memory/export"}  # the best few, and everything at once


def test_no_two_shapes_share_a_name_in_the_document(capsys):
    SchemaGenerator().get_schema(request=None, public=True)
    assert [line for line in capsys.readouterr().err.splitlines() if "identical names" in line] == []


def test_every_list_has_the_same_envelope_in_the_document():
    document = SchemaGenerator().get_schema(request=None, public=True)
    bare, odd = [], []
    for path, verbs in document["paths"].items():
        schema = verbs.get("get", {}).get("responses", {}).get("200", {}).get("content", {}).get("application/json", {})
        schema = schema.get("schema", {})
        schema = document["components"]["schemas"].get(schema.get("$ref", "").split("/")[-1], schema)
        if schema.get("type") == "array":
            bare.append(path)
        if path in NO_PAGES:
            continue
        if "results" in schema.get("properties", {}) and set(schema["required"]) != {"results", "next"}:
            odd.append(path)
    assert (bare, odd) == ([], [])


def test_one_end_of_a_range_is_enough(alice_api, alice, two):
    run = Run.objects.create(principal=alice, agent=two[0])
    for query, found in (
        ("gte=2000-01-01T00:00:00Z", 1),
        ("gte=2999-01-01T00:00:00Z", 0),
        ("lt=2999-01-01T00:00:00Z", 1),
    ):
        answer = alice_api.get(f"{V1}/runs/?created_at__{query}")
        assert answer.status_code == 200 and len(answer.json()["results"]) == found, (query, run)
    assert len(alice_api.get(f"{V1}/runs/?created_at__gte=2000-01-01T00:00:00Z&status=queued").json()["results"]) == 1


def test_a_list_is_ordered_and_its_pages_continue_in_that_order(alice_api, alice, offline):
    for name, description in (("b", "second"), ("a", "first"), ("c", "third")):
        Agent.objects.create(owner=alice, name=name, provider=offline, description=description)
    seen, url = [], f"{V1}/agents/?ordering=-name&limit=1"
    while url:
        page = alice_api.get(url).json()
        seen += [row["name"] for row in page["results"]]
        url = page["next"]
    assert seen == ["c", "b", "a"]
    created = alice_api.get(f"{V1}/agents/?ordering=created_at").json()["results"]
    assert [row["name"] for row in created] == ["b", "a", "c"]


@pytest.mark.parametrize("ordering", ["", "-", "password", "owner__password", "--name", "name,created_at", "pk"])
def test_only_named_columns_order_a_list(alice_api, two, ordering):
    answer = alice_api.get(f"{V1}/agents/?ordering={ordering}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_ordering")


def test_a_cursor_of_another_order_does_no_harm(alice_api, two):
    page = alice_api.get(f"{V1}/agents/?ordering=name&limit=1").json()["next"]
    assert alice_api.get(page.replace("ordering=name", "ordering=created_at")).status_code == 422


def test_a_search_finds_rows_with_every_word(alice_api, bob, alice, offline):
    Agent.objects.create(owner=alice, name="one", provider=offline, description="Sorts Invoices by date")
    Agent.objects.create(owner=alice, name="two", provider=offline, description="Sorts mail")
    Agent.objects.create(owner=bob, name="three", provider=offline, description="Sorts invoices of Bob")

    def found(words):
        return [row["name"] for row in alice_api.get(f"{V1}/agents/", {"search": words}).json()["results"]]

    assert found("sorts") == ["one", "two"]
    assert found("invoices ONE") == ["one"]
    assert found("invoices two") == []
    assert found("x" * 5000) == [] and alice_api.get(f"{V1}/agents/?search={'a+' * 3000}").status_code == 200


def test_runs_and_sessions_are_searched_and_ordered_too(alice_api, alice, bob, two):
    session = Session.objects.create(owner=alice, title="Travel to Rome", agent=two[0])
    dear = Run.objects.create(principal=alice, agent=two[0], session=session, cost=2)
    cheap = Run.objects.create(principal=alice, agent=two[1], cost=1)
    Run.objects.create(principal=bob, agent=two[0], cost=9)

    def ids(path):
        return [row["id"] for row in alice_api.get(f"{V1}/{path}").json()["results"]]

    assert ids("runs/?search=rome") == [str(dear.pk)]
    assert ids("runs/?ordering=cost") == [str(cheap.pk), str(dear.pk)]
    assert ids("runs/?ordering=-cost&limit=1") == [str(dear.pk)]
    assert ids("sessions/?search=rome+one") == [str(session.pk)]
    assert ids("sessions/?search=rome+two") == []


@pytest.mark.parametrize("value", ["yes", "", "null", "fasle"])
def test_a_flag_is_true_or_false(alice_api, two, value):
    answer = alice_api.get(f"{V1}/agents/?enabled={value}")
    assert answer.status_code == 422 and answer.json()["error"]["details"][0]["field"] == "enabled"
    assert len(alice_api.get(f"{V1}/agents/?enabled=true").json()["results"]) == 2
    assert alice_api.get(f"{V1}/agents/?enabled=False").json()["results"] == []


@pytest.mark.parametrize("path", ["runs/?session=", "runs/?root=", "sessions/?parent=", "approvals/?run="])
def test_an_id_that_is_not_there_finds_nothing_and_an_empty_one_is_refused(alice_api, path):
    nobody = "018f0000-0000-7000-8000-000000000000"
    assert alice_api.get(f"{V1}/{path}{nobody}").json()["results"] == []
    assert alice_api.get(f"{V1}/{path}").status_code == 422
    assert alice_api.get(f"{V1}/{path}x").status_code == 422


def test_another_persons_session_and_one_that_is_not_there_look_alike(alice_api, bob):
    theirs = Session.objects.create(owner=bob)
    assert alice_api.get(f"{V1}/runs/?session={theirs.pk}").json() == {"results": [], "next": None}


@pytest.mark.parametrize("days", ["0", "367", "00011111", "-1", "1.5", ""])
def test_usage_goes_back_a_year_at_most(alice_api, days):
    assert alice_api.get(f"{V1}/usage/?days={days}").status_code == 422


def test_what_is_patched_shows_that_nothing_is_published(alice_api, two):
    code = "def main() -> int:\n    return 1\n"
    alice_api.post(f"{V1}/functions/", {"name": "f", "source": code})
    alice_api.post(f"{V1}/chains/", {"name": "c", "steps": []})
    for path in ("agents/one", "functions/f", "chains/c"):
        answer = alice_api.patch(f"{V1}/{path}", {"description": "new"}, content_type="application/json")
        assert answer.json()["published_version"] is None, path


def test_a_grant_within_a_patch_is_whole(alice_api, two):
    alice_api.post(f"{V1}/chains/", {"name": "c", "steps": []})
    for path in ("agents/one", "chains/c"):
        answer = alice_api.patch(f"{V1}/{path}", {"grants": [{"mode": "ask"}]}, content_type="application/json")
        assert answer.status_code == 422 and "required" in str(answer.json()["error"]["details"]), path


def test_a_session_without_an_agent_says_so_when_it_is_patched(alice_api, alice):
    session = Session.objects.create(owner=alice)
    answer = alice_api.patch(f"{V1}/sessions/{session.pk}", {"title": "x"}, content_type="application/json")
    assert answer.json()["agent"] is None


def test_grants_are_a_list_in_the_document_too():
    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    for kind in ("agents", "chains"):
        told = paths[f"{V1}/{kind}/{{name}}/grants/"]["get"]
        schema = told["responses"]["200"]["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/PaginatedGrantList"}, kind


def test_every_id_is_told_as_a_text():
    schemas = SchemaGenerator().get_schema(request=None, public=True)["components"]["schemas"]
    ids = {name: part["properties"]["id"] for name, part in schemas.items() if "id" in part.get("properties", {})}
    assert len(ids) > 15
    assert [name for name, told in ids.items() if told["type"] != "string"] == []


@pytest.mark.parametrize("number", ["x", "", "-1", 0, True, 1.5, "9" * 30, None])
def test_an_id_that_is_none_is_refused(alice_api, number):
    answer = alice_api.post(f"{V1}/connections/gmail/device/poll", {"id": number})
    assert answer.status_code == 422 and answer.json()["error"]["details"][0]["field"] == "id"


WRONG = [
    ("runs/?status=done", "status", "“done” is not one of queued, running, waiting, "),
    ("runs/?status__in=failed,done", "status__in", "“failed,done” is not one of queued, running, waiting, "),
    ("runs/?created_at__gte=yesterday", "created_at__gte", "Send a time such as 2026-06-01T08:00:00Z."),
    ("runs/?session=x", "session", "Enter a valid UUID."),
    ("runs/?status=", "status", "Send a value, or leave the parameter out."),
    ("runs/?created_at__gte=", "created_at__gte", "Send a value, or leave the parameter out."),
    ("runs/?agent=", "agent", "Send a value, or leave the parameter out."),
    ("runs/?min_cost=", "min_cost", "Send a value, or leave the parameter out."),
    ("agents/?name=", "name", "Send a value, or leave the parameter out."),
    ("memory/?kind=", "kind", "Send a value, or leave the parameter out."),
    (f"tools/?kind={'x' * 500}", "kind", f"“{'x' * 60}” is not one of "),
]


@pytest.mark.parametrize(("query", "field", "message"), WRONG)
def test_a_wrong_or_empty_value_of_a_filter_is_refused_with_what_is_right(query, field, message, alice_api):
    answer = alice_api.get(f"{V1}/{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_filter")
    assert answer.json()["error"]["message"] == "A filter of this list is not valid."
    [detail] = answer.json()["error"]["details"]
    assert detail["field"] == field and detail["message"].startswith(message), detail


def test_several_states_and_no_words_are_fine(alice_api, alice, two):
    for status in ("failed", "cancelled", "succeeded"):
        Run.objects.create(principal=alice, agent=two[0], status=status)
    assert len(alice_api.get(f"{V1}/runs/?status__in=failed,cancelled").json()["results"]) == 2
    assert len(alice_api.get(f"{V1}/runs/?search=&text=").json()["results"]) == 3


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00%2B14:00"])
def test_a_time_that_cannot_be_compared_is_a_wrong_filter(time, alice_api):
    answer = alice_api.get(f"{V1}/runs/?created_at__gte={time}")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "invalid_filter")
    assert error["details"][0]["field"] == "created_at__gte" and "1970" in error["details"][0]["message"]
