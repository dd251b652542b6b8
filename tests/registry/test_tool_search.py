from dataclasses import dataclass, field, replace

import pytest

from agents.models import Provider
from registry import tool_search
from registry.tool_search import build_entry, build_tool_key, search_tools


@dataclass(frozen=True)
class Tool:
    id: int
    name: str
    description: str = ""
    input_schema: dict = field(default_factory=dict)
    definition_hash: str = "h"


TOOLS = [
    Tool(1, "mail_send", "Send a message to a recipient by mail."),
    Tool(2, "calendar_create_event", "Create an event in the calendar."),
    Tool(3, "calendar_list_events", "List the events of a day."),
    Tool(4, "weather_forecast", "The weather of the coming days in a city."),
    Tool(5, "crm_export", "Export records.", {"properties": {"customer": {"description": "Whose invoices."}}}),
]


@pytest.fixture(autouse=True)
def unread():
    tool_search._entries.clear()


def best(text, tools=TOOLS, limit=3, user=None):
    by_key = {build_tool_key(tool): tool.name for tool in tools}
    return [by_key[match.key] for match in search_tools(user, list(map(build_entry, tools)), text, limit).matches]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("What will the weather be in Oslo?", "weather_forecast"),
        ("create an event for tomorrow", "calendar_create_event"),
        ("sending mails", "mail_send"),
        ("the customer's invoices", "crm_export"),
    ],
)
def test_the_tool_whose_words_fit_comes_first(text, name):
    assert best(text)[0] == name


def test_nothing_fits_words_that_no_tool_has():
    assert best("paint a picture") == [] and best("") == [] and best("the of and") == [] and best("x", tools=[]) == []


def test_a_word_of_the_name_weighs_more_than_one_of_the_description():
    tools = [Tool(1, "report", "About sales."), Tool(2, "sales", "About a report.")]
    assert best("sales", tools) == ["sales", "report"]


def test_a_frequent_word_weighs_less_than_a_rare_one():
    tools = [Tool(n, f"list_{n}", "List things.") for n in range(50)] + [Tool(99, "invoices", "Show.")]
    assert best("list invoices", tools)[0] == "invoices"


def test_a_long_description_does_not_win_by_its_length():
    words = " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(300))
    tools = [Tool(1, "one", f"{words} translate"), Tool(2, "two", "translate texts")]
    assert best("translate", tools) == ["two", "one"]


def test_equal_matches_have_a_stable_order():
    tools = [Tool(n, f"tool{n}", "Translate.") for n in (3, 1, 2)]
    assert best("translate", tools) == best("translate", list(reversed(tools))) == ["tool1", "tool2", "tool3"]


def test_a_changed_definition_is_read_anew():
    build_entry(TOOLS[0])
    changed = replace(TOOLS[0], description="Paint.", definition_hash="other")
    assert best("paint", [changed]) == ["mail_send"]


@pytest.mark.parametrize("schema", [None, [], {"properties": []}, {"properties": {"a": None, "b": {"description": 7}}}])
def test_any_schema_can_be_read(schema):
    assert build_entry(Tool(1, "a_b", "", schema)).about == "a b: "


@pytest.mark.django_db
def test_with_an_embedding_model_both_rankings_count(alice, stub, settings):
    Provider.objects.create(owner=None, name="near", kind="openai-compatible", base_url=stub.url, api_key="k")
    settings.ROUTER_EMBEDDINGS = "near:embed"
    entries = list(map(build_entry, TOOLS))
    found = search_tools(alice, entries, "weather in the city", 5)
    assert found.method == "words and meaning" and found.matches[0].key == build_tool_key(TOOLS[3])
    search_tools(alice, entries, "other words", 5)
    assert [len(body["input"]) for body in stub.embedded] == [6, 1]  # the tools' vectors are kept


@pytest.mark.django_db
def test_without_an_answer_of_the_embedding_model_words_decide(alice, settings):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    Provider.objects.create(
        owner=None, name="near", kind="openai-compatible", base_url="http://127.0.0.1:9", api_key="k"
    )
    settings.ROUTER_EMBEDDINGS = "near:embed"
    found = search_tools(alice, list(map(build_entry, TOOLS)), "weather", 5)
    assert (found.method, found.matches[0].key) == ("words", build_tool_key(TOOLS[3]))
