"""Replies of live agents, through the OpenAI provider against a real server on loopback."""

import threading
from datetime import timedelta
from time import monotonic

import pytest
from django.utils import timezone

from registry.exceptions import CannotBuild, ModelCancelled, ModelFailed
from registry.factory import live_agent
from tests.fakes import Turn, calls, cut, fails, says
from tests.live_agents import user

pytestmark = pytest.mark.django_db


@pytest.fixture
def live(make_agent, make_tool, stub_provider):
    return live_agent(make_agent(tools=[make_tool()], provider=stub_provider, fallback_models=["spare"]))


def test_it_answers_with_text_and_tokens(live, stub):
    stub.script(says("Good day."))
    reply = live.reply(user("Hello"), tool_names=())
    assert (reply.text, reply.input_tokens, reply.output_tokens) == ("Good day.", 11, 7)
    assert (reply.model_name, reply.attempts, reply.first_token_ms) == ("stub", 1, None)
    assert stub.requests[0]["messages"] == [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Hello"},
    ]
    assert "tools" not in stub.requests[0] and not stub.requests[0].get("stream")


def test_it_sends_the_key_and_shows_it_nowhere(live, stub):
    reply = live.reply(user("Hello"))
    assert stub.headers[0]["authorization"] == "Bearer sk-stub"
    assert "sk-stub" not in f"{reply.request}{reply.response}{live!r}"


def test_it_asks_for_several_tools_at_once(live, stub):
    stub.script(calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})))
    reply = live.reply(user("Add"))
    assert [call.arguments for call in reply.tool_calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert len({call.id for call in reply.tool_calls}) == 2


def test_it_carries_calls_and_results_back_to_the_model(live, stub):
    call = {"id": "call_1", "name": "add", "arguments": {"a": 1, "b": 2}}
    history = [
        *user("Add 1 and 2"),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "3", "tool_call_id": "call_1"},
    ]
    assert live.reply(history).text == "The result is 3."
    assert stub.requests[0]["messages"][2]["tool_calls"][0]["function"]["name"] == "add"


def test_it_streams_only_when_somebody_listens(live, stub):
    stub.script(says("one two three"))
    heard = []
    reply = live.reply(user("Count"), on_delta=heard.append)
    assert heard == ["one ", "two ", "three"] and reply.text == "one two three"
    assert reply.first_token_ms is not None and reply.input_tokens == 11


def test_it_streams_tool_calls(live, stub):
    stub.script(calls(("add", {"a": 1, "b": 2})))
    reply = live.reply(user("Add"), on_delta=lambda text: None)
    assert reply.tool_calls[0].arguments == {"a": 1, "b": 2}


def test_it_names_the_problem_of_arguments_that_are_not_json(live, stub):
    stub.script(calls(("add", '{"a": 1,')))
    call = live.reply(user("Add")).tool_calls[0]
    assert call.name == "add" and call.arguments == {} and "not valid JSON" in call.problem


def test_it_asks_again_after_429_and_500(live, stub):
    stub.script(fails(429, Retry_After="0.01"), fails(500), says("At last."))
    reply = live.reply(user("Hello"))
    assert (reply.text, reply.attempts) == ("At last.", 3)


def test_it_turns_to_the_fallback_model(live, stub):
    stub.script(fails(500), fails(500), fails(500), says("From the spare."))
    reply = live.reply(user("Hello"))
    assert (reply.model_name, reply.attempts, stub.requests[-1]["model"]) == ("spare", 4, "spare")


def test_it_does_not_wait_for_a_retry_after_that_is_too_long(live, stub):
    stub.script(fails(429, Retry_After="3600"), says("From the spare."))
    assert live.reply(user("Hello")).model_name == "spare"


def test_it_gives_up_with_the_last_reason(live, stub):
    stub.script(*[fails(503)] * 6)
    with pytest.raises(ModelFailed) as failure:
        live.reply(user("Hello"))
    assert (failure.value.code, failure.value.attempts) == ("model_unavailable", 6)


def test_it_does_not_knock_twice_with_a_refused_key(live, stub):
    stub.script(fails(401), says("never"))
    with pytest.raises(ModelFailed) as failure:
        live.reply(user("Hello"))
    assert (failure.value.code, failure.value.attempts) == ("model_key_refused", 1)


def test_it_says_a_cut_stream_only_once(live, stub):
    stub.script(cut("one two three four", after=3), says("one two three four"))
    heard = []
    reply = live.reply(user("Count"), on_delta=heard.append)
    assert "".join(heard) == reply.text == "one two three four"
    assert reply.attempts == 2


def test_it_asks_again_after_an_answer_that_is_no_json(live, stub):
    garbage = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n<html"
    stub.script(Turn(raw=garbage), says("Fine."))
    assert live.reply(user("Hello")).text == "Fine."


def test_it_asks_again_after_a_connection_that_was_closed(live, stub):
    stub.script(Turn(raw=b""), says("Fine."))
    assert live.reply(user("Hello")).text == "Fine."


@pytest.mark.parametrize("listener", [None, lambda text: None])
def test_a_cancelled_run_stops_a_silent_model_within_a_second(live, stub, listener):
    stub.script(Turn(text="never", silent_s=300))
    cancelled = threading.Event()
    threading.Timer(0.2, cancelled.set).start()
    began = monotonic()
    with pytest.raises(ModelCancelled):
        live.reply(user("Hello"), on_delta=listener, is_cancelled=cancelled.is_set)
    assert monotonic() - began < 60  # a second on an idle machine; the server would take minutes


def test_a_cancelled_run_stops_a_talking_model_within_a_second(live, stub):
    stub.script(Turn(text="word " * 5000, pause_s=0.05))
    cancelled = threading.Event()
    threading.Timer(0.2, cancelled.set).start()
    began = monotonic()
    with pytest.raises(ModelCancelled):
        live.reply(user("Hello"), on_delta=lambda text: None, is_cancelled=cancelled.is_set)
    assert monotonic() - began < 60  # a second on an idle machine; the server would take minutes


def test_the_deadline_ends_a_silent_model(live, stub):
    stub.script(Turn(text="never", silent_s=300))
    with pytest.raises(ModelFailed) as failure:
        live.reply(user("Hello"), deadline=timezone.now() + timedelta(seconds=0.3))
    assert failure.value.code == "deadline"


def test_a_server_that_is_away_is_told_apart(live, stub, stub_provider):
    stub.__exit__()
    with pytest.raises(ModelFailed) as failure:
        live.reply(user("Hello"))
    assert failure.value.code == "model_unreachable"


def test_it_sends_the_output_schema_as_a_response_format(live, stub):
    stub.script(says('{"city": "Rome"}'))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    live.reply(user("Where?"), tool_names=(), output_schema=schema)
    assert stub.requests[0]["response_format"]["json_schema"]["schema"] == schema


def test_it_sends_images_as_the_provider_takes_them(live, stub):
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image", "media_type": "image/png", "data": "aGk="}]
    live.reply([{"role": "user", "content": parts}], tool_names=())
    assert stub.requests[0]["messages"][-1]["content"][1]["image_url"]["url"] == "data:image/png;base64,aGk="


def test_it_counts_what_a_reply_costs(make_agent, stub_provider):
    stub_provider.prices = {"stub": {"input": 2, "output": 10}}
    stub_provider.save()
    live = live_agent(make_agent(provider=stub_provider))
    assert str(live.cost("stub", 1_000_000, 500_000)) == "7"


def test_a_private_address_is_refused_when_it_is_built(make_agent, stub_provider, settings):
    settings.PRIVATE_HOSTS_ALLOWED = []
    with pytest.raises(CannotBuild) as refusal:
        live_agent(make_agent(provider=stub_provider))
    assert refusal.value.code == "private_address"


def test_a_private_address_is_refused_when_it_is_reached(live, settings):
    settings.PRIVATE_HOSTS_ALLOWED = []
    with pytest.raises(ModelFailed) as refusal:
        live.reply(user("Hello"))
    assert refusal.value.code == "private_address"
