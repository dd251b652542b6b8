"""Anthropic's models, through their own package over our connections, against a real server on loopback."""

import json
import threading
from time import monotonic

import pytest

from agents.models import Provider
from registry.exceptions import ModelCancelled, ModelFailed
from registry.factory import live_agent
from tests.fakes import calls, cut, fails, says
from tests.live_agents import user

pytestmark = pytest.mark.django_db


@pytest.fixture
def live(alice, stub, make_agent, make_tool):
    base_url = stub.url.removesuffix("/v1")
    provider = Provider.objects.create(owner=alice, name="ant", kind="anthropic", base_url=base_url, api_key="sk-ant")
    return live_agent(make_agent(provider=provider, tools=[make_tool()], model_name="claude-haiku-4-5"))


def test_it_answers_and_calls_tools(live, stub):
    stub.script(says("Good day."), calls(("add", {"a": 1, "b": 2})))
    reply = live.reply(user("Hello"))
    assert (reply.text, reply.input_tokens, reply.output_tokens) == ("Good day.", 11, 7)
    assert stub.headers[0]["authorization"].endswith("sk-ant")
    assert stub.requests[0]["tools"][0]["name"] == "add"
    (call,) = live.reply(user("Add 1 and 2")).tool_calls
    assert (call.name, call.arguments) == ("add", {"a": 1, "b": 2})


def test_calls_and_results_go_back(live, stub):
    stub.script(says("3"))
    call = {"id": "toolu_1", "name": "add", "arguments": {"a": 1, "b": 2}}
    history = [
        *user("Add 1 and 2"),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "3", "tool_call_id": "toolu_1"},
    ]
    assert live.reply(history).text == "3"
    assert stub.requests[0]["messages"][-1]["content"][0]["tool_use_id"] == "toolu_1"


def test_it_streams(live, stub):
    stub.script(says("one two three"))
    heard = []
    reply = live.reply(user("Count"), tool_names=(), on_delta=heard.append)
    assert "".join(heard) == reply.text == "one two three"


def test_it_asks_again_after_429_and_a_cut_stream(live, stub):
    stub.script(fails(429, Retry_After="0.01"), says("Fine."), cut("one two three", after=3), says("one two three"))
    assert live.reply(user("Hello")).attempts == 2
    heard = []
    assert live.reply(user("Count"), on_delta=heard.append).attempts == 2 and "".join(heard) == "one two three"


def test_a_refused_key_is_told_apart(live, stub):
    stub.script(fails(401))
    with pytest.raises(ModelFailed) as failure:
        live.reply(user("Hello"))
    assert failure.value.code == "model_key_refused"


def test_a_cancelled_run_stops_a_silent_model_within_a_second(live, stub):
    stub.script(says("never", silent_s=300))
    cancelled = threading.Event()
    began = monotonic()
    threading.Timer(0.3, cancelled.set).start()
    with pytest.raises(ModelCancelled):
        live.reply(user("Hello"), is_cancelled=cancelled.is_set)
    assert monotonic() - began < 60  # the package's first import is in it


def test_an_output_schema_becomes_an_instruction(live, stub):
    stub.script(says('{"sum": 3}'))
    schema = {"type": "object", "properties": {"sum": {"type": "number"}}}
    live.reply(user("Add"), tool_names=(), output_schema=schema)
    assert json.dumps(schema, separators=(",", ":")) in json.dumps(stub.requests[0]["system"]).replace('\\"', '"')
