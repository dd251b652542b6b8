"""No value of a tool or a model ends a run: it is stored, shown, streamed and sent back to the model."""

import json

import pytest

from agents.models import Tool
from tests.fakes import calls, says
from tests.functions.library import publish

pytestmark = pytest.mark.django_db
RESULTS = {
    "a big integer": ("2 ** 70", 2**70),
    "a negative big integer": ("-(2 ** 70)", -(2**70)),
    "NUL": (r"'a\x00b'", "a\ufffdb"),
    "half a character": (r"chr(0xd83d)", "\ufffd"),
    "a key with NUL": (r"{'a\x00': 1}", {"a\ufffd": 1}),
}


@pytest.mark.parametrize("name", RESULTS)
def test_what_a_function_returns_reaches_model_row_event_and_page(
    name, worker, alice, alice_api, client, make_agent, stub_provider, stub
):
    source, expected = RESULTS[name]
    publish(alice, f"def odd() -> object:\n    'Something odd.'\n    return {source}", "odd")
    agent = make_agent(tools=[Tool.objects.get(name="odd")], provider=stub_provider)
    stub.script(calls(("odd", {})), says("Done."))

    run = worker.send_message(alice, "Go", agent)

    call = run.tool_calls.get()
    if call.outcome == "failed":  # the sandbox may refuse a value by its own rule, in words
        assert call.error["code"] != "tool_broken", call.error
    else:
        assert call.result == expected
        [event] = run.events.filter(type="tool.finished")
        assert event.data["result"] == expected
    assert run.status == "succeeded", run.error
    listed = alice_api.get(f"/api/v1/runs/{run.pk}/tool-calls/").json()["results"]
    assert listed[0]["result"] == call.result
    client.force_login(alice)
    assert client.get(f"/runs/{run.pk}/").status_code == 200


@pytest.mark.parametrize("value", [99999999999999999999999, "a\x00b", "\ud83d"], ids=["integer", "NUL", "half"])
def test_what_a_model_sends_as_an_argument_does_not_end_the_run(value, worker, alice, make_agent, stub_provider, stub):
    publish(alice, "def same(x: object) -> object:\n    'The same.'\n    return x", "same")
    agent = make_agent(tools=[Tool.objects.get(name="same")], provider=stub_provider)
    stub.script(calls(("same", {"x": value})), says("Done."))

    run = worker.send_message(alice, "Go", agent)

    assert run.status == "succeeded", run.error


def test_what_a_model_says_can_be_stored(worker, alice, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider)
    stub.script(says("a\x00b"))

    run = worker.send_message(alice, "Go", agent)

    assert run.status == "succeeded", run.error
    assert json.dumps(run.messages.last().content, ensure_ascii=False).count("\ufffd") == 1
