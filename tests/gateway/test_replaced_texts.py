"""A message that turns out to be another than was heard: each protocol ends with the right text."""

import json
from types import SimpleNamespace

from gateway.a2a.updates import Updates
from gateway.embed.replies import build_embed_event
from gateway.langgraph.streams import Translator
from gateway.openai.items import Items
from gateway.reading import Reading
from runs.events.frames import Frame, delta

HEARD, TEXT = "Two and two.\n</think>\n\nFour.", "Four."
RUN = SimpleNamespace(pk="0", session=None, session_id=None, metadata={})


def frames(heard=HEARD, text=TEXT):
    finished = {"turn": 1, "text": text, "tool_calls": [], "finish": "stop"}
    return [delta("0", 1, 0, heard), Frame("0", "model.finished", json.dumps(finished), seq=2, at="")]


def test_a2a_sends_the_artifact_anew():
    updates = Updates(RUN)
    sent = [one["artifactUpdate"] for frame in frames() for one in updates.take(frame)]
    assert [(one["artifact"]["parts"][0]["text"], one.get("append", False)) for one in sent] == [
        (HEARD, False), (TEXT, False),
    ]  # fmt: skip


def test_langgraph_sends_the_message_anew_under_its_id():
    translator = Translator(RUN, [], {"messages", "values"})
    sent = [event for frame in frames() for event in translator.take(frame)]
    assert sent[-1] == ("values", {"messages": translator.messages})
    assert [message["content"] for message in translator.messages] == [TEXT]
    whole = [data[0]["id"] for name, data in sent if name in ("messages/partial", "messages/complete")]
    assert len(set(whole)) == 1


def test_openai_s_responses_end_with_the_right_text():
    items = Items("1")
    sent = [json.loads(json.dumps(event)) for frame in frames() for event in items.take(frame)]
    assert [event["text"] for event in sent if event["type"] == "response.output_text.done"] == [TEXT]
    assert sent[-1]["item"]["content"][0]["text"] == TEXT


def test_a_visitor_s_chat_writes_the_text_anew():
    reading = Reading()
    sent = [build_embed_event(step) for frame in frames() for step in reading.take(frame)]
    assert {"type": "replaced", "text": TEXT} in sent


def test_a_message_that_goes_on_is_not_replaced():
    reading = Reading()
    steps = [step for frame in frames("Fo", TEXT) for step in reading.take(frame)]
    assert [step.kind for step in steps] == ["begin", "text", "text", "close"]
