import pytest

from agents.models import Membership, Tool

pytestmark = pytest.mark.django_db
PATH = "/api/v1/tools/search"


@pytest.fixture
def tools(make_tool):
    make_tool("invoices_create", description="Create an invoice for a customer.")
    make_tool("weather_forecast", description="The weather of a city.", kind="http")


def names(answer):
    assert answer.status_code == 200, answer.json()
    return [row["tool"]["name"] for row in answer.json()["results"]]


def test_tools_that_fit_an_instruction_are_recommended(alice_api, tools):
    answer = alice_api.post(PATH, {"text": "You write invoices for our customers and send reminders."})
    assert names(answer) == ["invoices_create"]
    row = answer.json()["results"][0]
    assert answer.json()["method"] == "words" and row["score"] > 0 and len(row["words"]) == 2
    assert row["tool"]["owner"] == "alice" and row["tool"]["input_schema"]


def test_the_result_can_be_limited_by_number_and_kind(alice_api, tools):
    text = "the invoice of a customer and the weather of a city"
    assert len(names(alice_api.post(PATH, {"text": text}))) == 2
    assert len(names(alice_api.post(PATH, {"text": text, "limit": 1}))) == 1
    assert names(alice_api.post(PATH, {"text": text, "kinds": ["http"]})) == ["weather_forecast"]


@pytest.mark.parametrize(
    "body",
    [
        {}, {"text": ""}, {"text": "x" * 20_001}, {"text": 7}, {"text": "x", "limit": 0}, {"text": "x", "limit": 51},
        {"text": "x", "kinds": ["none"]}, {"text": "x", "query": "x"},
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(alice_api, tools, body):
    assert alice_api.post(PATH, body).status_code == 422


def test_a_stranger_finds_nothing_and_a_team_mate_what_is_shared(bob_api, charlie_api, team, tools):
    body = {"text": "invoice weather"}
    assert names(bob_api.post(PATH, body)) == names(charlie_api.post(PATH, body)) == []
    Tool.objects.filter(name="weather_forecast").update(team=team)
    assert names(bob_api.post(PATH, body)) == ["weather_forecast"] and names(charlie_api.post(PATH, body)) == []
    Membership.objects.filter(user__username="bob").update(role=Membership.Role.VIEWER)
    assert names(bob_api.post(PATH, body)) == []


def test_tools_that_are_switched_off_are_not_found(alice_api, tools):
    Tool.objects.filter(name="weather_forecast").update(enabled=False)
    assert names(alice_api.post(PATH, {"text": "weather"})) == []


def test_a_changed_definition_is_found_by_its_new_words(alice_api, tools):
    alice_api.post(PATH, {"text": "weather"})
    tool = Tool.objects.get(name="weather_forecast")
    tool.description = "Paints pictures."
    tool.freeze_hash()
    tool.save()
    assert names(alice_api.post(PATH, {"text": "pictures"})) == ["weather_forecast"]


def test_it_takes_the_scope_to_read_tools(api, alice, tools):
    assert api(alice, "agents:read").post(PATH, {"text": "weather"}).status_code == 403
    assert api(alice, "tools:read").post(PATH, {"text": "weather"}).status_code == 200


def test_queries_do_not_grow_with_the_catalogue(alice_api, make_tool, django_assert_max_num_queries):
    for n in range(60):
        make_tool(f"crm_{n}", description="Weather.")
    alice_api.post(PATH, {"text": "weather"})
    with django_assert_max_num_queries(6):
        assert len(names(alice_api.post(PATH, {"text": "weather", "limit": 50}))) == 50
