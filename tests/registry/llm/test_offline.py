"""The offline provider: deterministic, honest, and good enough to try the whole path."""

import json

import pytest

from registry.exceptions import CannotBuild
from registry.factory import live_agent
from registry.llm import llms, offline_script
from tests.live_agents import user

pytestmark = pytest.mark.django_db

CONVERT = {
    "type": "object",
    "properties": {"value": {"type": "number"}, "from_unit": {"type": "string"}, "to_unit": {"type": "string"}},
    "required": ["value", "from_unit", "to_unit"],
}
TOOLS = {
    "add": {},
    "days-between": {
        "description": "Count the days between two dates",
        "input_schema": {
            "type": "object",
            "properties": {"start": {"type": "string", "format": "date"}, "end": {"type": "string", "format": "date"}},
            "required": ["start", "end"],
        },
    },
    "calculate": {
        "description": "Evaluate an arithmetic expression",
        "input_schema": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    },
    "word-count": {
        "description": "Count the words of a text",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
    "convert-units": {"description": "Convert a value from one unit to another", "input_schema": CONVERT},
    "vat": {
        "description": "Gross amount of a net price",
        "input_schema": {
            "type": "object",
            "properties": {"net": {"type": "number"}, "rate": {"type": "number", "default": 19}},
            "required": ["net"],
        },
    },
    "average": {
        "description": "The mean of some numbers",
        "input_schema": {
            "type": "object",
            "properties": {"numbers": {"type": "array", "items": {"type": "number"}}},
            "required": ["numbers"],
        },
    },
}


@pytest.fixture
def live(make_agent, make_tool):
    return live_agent(make_agent(tools=[make_tool(name, **fields) for name, fields in TOOLS.items()]))


@pytest.mark.parametrize(
    ("message", "name", "arguments"),
    [
        ("Please add 19 and 23", "add", {"a": 19, "b": 23}),
        ("add b=5, a=2", "add", {"a": 2, "b": 5}),
        ('add {"a": 1.5, "b": 2}', "add", {"a": 1.5, "b": 2}),
        (
            "How many days are between 2026-01-01 and 2026-03-01?",
            "days-between",
            {"start": "2026-01-01", "end": "2026-03-01"},
        ),
        ("What is 12 * (3 + 4)?", "calculate", {"expression": "12 * (3 + 4)"}),
        ("Count the words of this text: to be or not to be", "word-count", {"text": "to be or not to be"}),
        ("Convert 5 km to miles", "convert-units", {"value": 5, "from_unit": "km", "to_unit": "miles"}),
        ("vat for a net of 100", "vat", {"net": 100}),
        ("vat for net 100, rate 7", "vat", {"net": 100, "rate": 7}),
        ("vat at a rate of 7 for 100", "vat", {"net": 100, "rate": 7}),
        ("What is the average of 4, 5 and 9?", "average", {"numbers": [4, 5, 9]}),
    ],
)
def test_it_finds_the_tool_by_words_and_fills_its_schema(live, message, name, arguments):
    (call,) = live.reply(user(message)).tool_calls
    assert (call.name, call.arguments) == (name, arguments)


def test_it_calls_every_tool_the_message_names(live):
    reply = live.reply(user("Use add and average on 1 and 2"))
    assert {call.name for call in reply.tool_calls} == {"add", "average"}


def test_it_quotes_results_and_says_what_it_is(live):
    call = {"id": "c1", "name": "add", "arguments": {"a": 19, "b": 23}}
    history = [
        *user("Add 19 and 23"),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]
    reply = live.reply(history)
    assert reply.tool_calls == () and "42" in reply.text and "no language model" in reply.text


def test_it_says_when_a_tool_failed(live):
    call = {"id": "c1", "name": "add", "arguments": {}}
    error = {"error": {"code": "tool_failed", "message": "the sum is too large"}}
    history = [
        *user("Add"),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": json.dumps(error)},
    ]
    assert "add failed: the sum is too large" in live.reply(history).text


def test_it_says_when_nothing_fits(live):
    reply = live.reply(user("Sing me a song about rivers"))
    assert reply.tool_calls == () and "No tool matches" in reply.text and "no language model" in reply.text


def test_it_does_not_call_without_what_the_schema_requires(live):
    assert live.reply(user("Add something")).tool_calls == ()


def test_it_answers_the_same_twice(live):
    first, second = (live.reply(user("Please add 1 and 2")) for _ in range(2))
    assert first.tool_calls == second.tool_calls


def test_it_obeys_an_output_schema(live):
    schema = {
        "type": "object",
        "properties": {
            "total": {"type": "number"},
            "mood": {"enum": ["good", "bad"]},
            "notes": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["total", "mood", "notes"],
    }
    reply = live.reply(user("The mood is bad, the total: 7"), tool_names=(), output_schema=schema)
    found = json.loads(reply.text)
    assert found["total"] == 7 and found["mood"] == "bad" and isinstance(found["notes"], list)


def test_it_streams_to_a_listener(live):
    heard = []
    reply = live.reply(user("Hello there"), tool_names=(), on_delta=heard.append)
    assert "".join(heard) == reply.text


def test_a_script_says_what_it_was_told_and_calls_only_what_is_offered(tmp_path):
    script = tmp_path / "script.yaml"
    script.write_text(
        "- {when: [milk, shop], answered: 0, call: [{tool: buy, arguments: {what: milk}}]}\n"
        "- {when: milk, say: There is none.}\n"
    )
    asked = [{"role": "user", "content": "Is there milk in the shop?"}]
    line = offline_script.find_script_line(str(script), asked, 0, {"buy"})
    assert line.call == ({"tool": "buy", "arguments": {"what": "milk"}},)
    assert offline_script.find_script_line(str(script), asked, 0, {"sell"}).say == "There is none."
    assert offline_script.find_script_line(str(script), asked, 1, {"buy"}).say == "There is none."
    assert offline_script.find_script_line(str(script), [{"role": "user", "content": "Bread?"}], 0, {"buy"}) is None


@pytest.mark.parametrize("text", ["just words", "- say: nothing to wait for", "- [", ""])
def test_what_is_no_script_is_said_when_the_agent_is_built(make_agent, settings, tmp_path, text):
    (tmp_path / "script.yaml").write_text(text)
    settings.OFFLINE_SCRIPT = str(tmp_path / "script.yaml")
    agent = make_agent("clerk")
    agent.provider.kind = "offline"
    with pytest.raises(CannotBuild, match="script"):
        llms.make_offline(agent.provider, None)
