"""Why an answer of the model ended reaches the run and every protocol: `stop` is never said where it was cut off."""

import asyncio
import json

import pytest

from agents.models import Provider
from gateway import agui
from gateway.a2a.tasks import reply_message, task_json
from gateway.a2a.updates import Updates
from gateway.langgraph.state import load_thread_messages
from gateway.langgraph.streams import Translator
from gateway.mcp import results
from gateway.mcp.catalogue import build_run_target
from gateway.openai.chat import Completion
from gateway.openai.items import Items
from gateway.turns import Turn, iterate_stored_frames
from muster_client.cli.updates import stop_reason
from runs.events.frames import Frame
from runs.models import Run, RunEvent
from tests.zoo.acts import Act, says


def frames(finish, status="succeeded"):
    model = {"turn": 1, "text": "Half an", "tool_calls": [], "finish": finish}
    ended = {"status": status, "reply": {"text": "Half an"}, "error": None, "usage": None}
    told = [("model.finished", model), ("run.finished", ended)]
    return [Frame.of({"run": "1", "type": type, "data": data, "seq": seq}) for seq, (type, data) in enumerate(told, 1)]


@pytest.mark.parametrize(
    ("finish", "status", "reason", "incomplete"),
    [
        ("stop", "succeeded", "stop", None),
        ("", "succeeded", "stop", None),
        ("length", "succeeded", "length", "max_output_tokens"),
        ("max_tokens", "succeeded", "length", "max_output_tokens"),
        ("content_filter", "succeeded", "content_filter", "content_filter"),
        ("safety", "succeeded", "content_filter", "content_filter"),
        ("refusal", "succeeded", "content_filter", "content_filter"),
        ("stop", "partial", "length", "max_tool_calls"),
        ("error", "succeeded", "length", "max_output_tokens"),
        ("insufficient_system_resource", "succeeded", "length", "max_output_tokens"),
    ],
)
def test_openai_s_apis_tell_it(finish, status, reason, incomplete):
    completion, items = Completion(), Items("1")
    for frame in frames(finish, status):
        completion.take(frame)
        list(items.take(frame))
    assert completion.finish_reason == reason
    assert items.status(status) == ("incomplete" if incomplete else "completed")
    assert incomplete is None or items.incomplete_reason() == incomplete


@pytest.fixture
def ended(worker, alice, make_agent, keep):
    """Makes a run whose model's answer ended in this way."""

    def end(act):
        pool, _ = keep("openai")
        provider = Provider.objects.create(
            owner=alice, name="zoo", kind=pool.server.kind, base_url=pool.server.base, api_key="key"
        )
        pool.script(act)
        return worker.send_message(alice, "Write a lot", make_agent(provider=provider, model_name=pool.server.model))

    return end


CASES = [
    (says("All of it."), "stop", "end_turn"),
    (says("Half an", finish="length"), "length", "max_tokens"),
    (says("Half an", finish="content_filter"), "content_filter", "refusal"),
    (Act(refusal="I cannot help with that."), "content_filter", "refusal"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("act", "finish", "of_acp"), CASES, ids=["whole", "length", "filter", "refusal"])
def test_every_protocol_tells_it(ended, alice_api, act, finish, of_acp):
    run = ended(act)
    cut = {} if finish == "stop" else {"finish": finish}
    end = RunEvent.objects.get(run=run, type="run.finished").data
    assert end["reply"]["finish"] == finish
    assert alice_api.get(f"/api/v1/runs/{run.pk}").json()["reply"]["finish"] == finish
    assert stop_reason(end) == of_acp

    # A2A: the artifact of the reply, polled and streamed, and the message of agents that answer with one
    run = Run.objects.get(pk=run.pk)
    task = task_json(run)
    assert task["artifacts"][0].get("metadata", {}) == cut
    run.agent.a2a_reply = "message"
    assert reply_message(run, task).get("metadata", {}) == cut
    updates = Updates(run)
    told = [update for frame in iterate_stored_frames(Turn(run)) for update in updates.take(frame)]
    artifacts = [update["artifactUpdate"] for update in told if "artifactUpdate" in update]
    assert artifacts[-1]["lastChunk"] and artifacts[-1]["artifact"].get("metadata", {}) == cut

    # MCP: the result's _meta
    assert results.build_run_result(build_run_target(run), run, end)["_meta"].get("muster/finish") == cut.get("finish")

    # LangGraph: the model's message, of the thread and streamed
    assert load_thread_messages(run.session)[-1]["response_metadata"] == {"finish_reason": finish}
    translator = Translator(run, [], {"values"})
    told = [data for frame in iterate_stored_frames(Turn(run)) for _, data in translator.take(frame)]
    assert told[-1]["messages"][-1]["response_metadata"] == {"finish_reason": finish}


@pytest.mark.parametrize(("finish", "told"), [("stop", []), ("length", ["length"]), ("refusal", ["content_filter"])])
def test_ag_ui_tells_it_in_an_event_before_the_end(monkeypatch, finish, told):
    async def follow(turn, pause):
        for frame in frames(finish):
            yield frame

    async def listen():
        turn = type("", (), {"id": "1"})
        return [json.loads(one.removeprefix(b"data: ")) async for one in agui.following(turn, "t", "r")]

    monkeypatch.setattr(agui.turns, "stream_turn_frames", follow)
    ended = {"output": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    monkeypatch.setattr(agui.Translator, "ending", lambda *_: {"type": "RUN_FINISHED", **ended})
    events = asyncio.run(listen())
    assert [event["value"]["finish"] for event in events if event["type"] == "CUSTOM"] == told
    assert events[-1]["type"] == "RUN_FINISHED"
