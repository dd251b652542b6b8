"""Runs with each server of the zoo: with a watcher and without, the same events in the same order."""

import pytest
from django.urls import reverse

from agents.models import Provider
from gateway.reading import Reading
from runs.events.frames import Frame
from runs.events.record import Deltas, serialize_event
from runs.models import ModelCall, Run, RunEvent, Session

from .acts import calls, fails, says
from .keepers import SERVERS

pytestmark = pytest.mark.django_db
ONE, TWO = {"a": 1, "b": 2}, {"a": 3, "b": 4}
# Three messages of one session: a call, a failed run, and one that goes on behind it. Calls side by side are made on
# threads, which cannot see what a test has not committed; test_zoo.py has them.
ACTS = [
    calls(("add", ONE), reasoning="I have to add."),
    says("It is 42."),
    fails("refused"),
    calls(("add", ONE)),
    calls(("add", TWO), finish="length"),
    says("Here I am.", reasoning="They are back."),
]
TEXTS = ["Add", "Hello?", "Anybody?"]


def told(event):
    """What an event says, without ids and times."""
    data = event.data
    match event.type:
        case "model.finished":
            made = [(call["name"], call["arguments"]) for call in data["tool_calls"]]
            return event.type, data["turn"], data["text"], made, data["finish"], data["input_tokens"]
        case "tool.called":
            return event.type, data["name"], data["arguments"], data["refused"]
        case "tool.finished":
            return event.type, data["name"], data["outcome"], data["result"], (data["error"] or {}).get("code")
        case "model.failed":
            return event.type, data["turn"], data["code"]
        case "run.finished":
            return event.type, data["status"], (data["reply"] or {}).get("text"), (data["error"] or {}).get("code")
    return (event.type,)


@pytest.mark.parametrize("server", SERVERS)
def test_a_run_is_the_same_with_a_watcher_and_without(worker, alice, make_agent, make_tool, functions, keep, server):
    pool, _ = keep(server)
    about = {"kind": pool.server.kind, "base_url": pool.server.base, "api": getattr(pool.server, "api", "chat")}
    provider = Provider.objects.create(owner=alice, name="zoo", api_key="key", **about)
    agent = make_agent(provider=provider, tools=[make_tool()], model_name=pool.server.model)
    stories = []
    for is_watched in (False, True):
        pool.acts = list(ACTS)
        session = Session.objects.create(owner=alice, agent=agent)
        for text in TEXTS:
            worker.send_message(alice, text, agent, session=session, is_watched=is_watched)
        runs = Run.objects.filter(session=session).order_by("id")
        assert [run.status for run in runs] == ["succeeded", "failed", "succeeded"], [run.error for run in runs]
        stories.append([told(event) for run in runs for event in RunEvent.objects.filter(run=run).order_by("seq")])
        assert pool.acts == []
    assert stories[0] == stories[1]
    assert ("run.finished", "failed", None, "model_refused") in stories[0]
    assert len(functions.asked) == 4, "a call, and one behind the failed run; none of the answer that was cut off"


def test_a_provider_may_leave_thoughts_in_the_text(worker, alice, make_agent, keep):
    pool, _ = keep("ollama /v1")
    base = pool.server.base
    provider = Provider.objects.create(owner=alice, name="zoo", kind=pool.server.kind, base_url=base, thinking="text")
    pool.script(says("Four.", reasoning="Two and two."))
    run = worker.send_message(alice, "2 + 2?", make_agent(provider=provider))
    assert run.session.messages.last().text == "<think>\nTwo and two.\n</think>\n\nFour."


def test_what_the_model_thought_is_stored_and_no_part_of_the_reply(worker, alice, make_agent, keep, client):
    pool, _ = keep("ollama /v1")
    provider = Provider.objects.create(owner=alice, name="zoo", kind=pool.server.kind, base_url=pool.server.base)
    pool.script(says("Four.", reasoning="Two and two."))
    run = worker.send_message(alice, "2 + 2?", make_agent(provider=provider))
    assert run.session.messages.last().text == "Four."
    assert ModelCall.objects.get(run=run).response["reasoning"] == "Two and two."
    assert "Two and two" not in str([event.data for event in RunEvent.objects.filter(run=run)])
    client.force_login(alice)
    page = client.get(reverse("page:run", args=[run.pk])).content.decode()
    assert "Two and two." in page.partition("Thoughts</summary>")[2]


def test_thoughts_that_were_heard_as_a_reply_are_taken_back_and_not_heard_again(
    worker, alice, make_agent, keep, monkeypatch
):
    """The template of the model opens the block of thoughts: what they are is known when the closing tag comes."""
    pool, _ = keep("vllm without a parser")
    provider = Provider.objects.create(owner=alice, name="zoo", kind=pool.server.kind, base_url=pool.server.base)
    agent = make_agent(provider=provider, model_name=pool.server.model)
    heard = []
    monkeypatch.setattr(Deltas, "flush", lambda deltas: heard.append(deltas.text))
    ends = []
    for is_watched in (True, True, False):
        heard.clear()
        pool.script(says("Four.", reasoning="Two and two."))
        run = worker.send_message(alice, "2 + 2?", agent, is_watched=is_watched)
        assert run.session.messages.last().text == "Four."
        ends.append([told(event) for event in RunEvent.objects.filter(run=run).order_by("seq")])
        if len(ends) == 1:
            reading = Reading()
            steps = [*reading.write(1, 0, heard[-1])]
            assert "Two and two." in steps[-1].data["text"]
            finished = RunEvent.objects.get(run=run, type="model.finished")
            kinds = [(step.kind, step.data["text"]) for step in reading.take(Frame.of(serialize_event(finished)))]
            assert kinds == [("replaced", "Four."), ("close", "Four.")]
        if len(ends) == 2:
            assert heard[-1] == "Four." and "Two" not in "".join(heard)
    assert ends[0] == ends[1] == ends[2]


@pytest.mark.parametrize("server", ["ollama /v1", "deepseek", "anthropic", "openai responses", "ollama"])
def test_who_watches_hears_what_the_model_thinks(worker, alice, make_agent, keep, monkeypatch, server):
    pool, _ = keep(server)
    about = {"kind": pool.server.kind, "base_url": pool.server.base, "api": getattr(pool.server, "api", "chat")}
    provider = Provider.objects.create(owner=alice, name="zoo", api_key="key", **about)
    published = []
    monkeypatch.setattr("runs.events.record.broadcast.publish_message", lambda channel, event: published.append(event))
    pool.script(fails("busy"), says("Four.", reasoning="Two and two."))
    agent = make_agent(provider=provider, model_name=pool.server.model)
    run = worker.send_message(alice, "2 + 2?", agent, is_watched=True)
    assert run.session.messages.last().text == "Four."
    thoughts = [event["data"] for event in published if event["type"] == "reasoning.delta"]
    assert "".join(piece["text"] for piece in thoughts).strip() == "Two and two."
    assert [piece["offset"] for piece in thoughts][0] == 0 and {piece["turn"] for piece in thoughts} == {1}
    assert all("Two" not in event["data"]["text"] for event in published if event["type"] == "message.delta")
