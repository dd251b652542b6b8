"""Why an answer of the model ended reaches both of OpenAI's APIs."""

import pytest

from gateway.openai.chat import Completion
from gateway.openai.items import Items
from runs.events.frames import Frame


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
    ],
)
def test_the_finish_reason_is_told(finish, status, reason, incomplete):
    completion, items = Completion(), Items("1")
    for frame in frames(finish, status):
        completion.take(frame)
        list(items.take(frame))
    assert completion.finish_reason == reason
    assert items.status(status) == ("incomplete" if incomplete else "completed")
    assert incomplete is None or items.incomplete_reason() == incomplete
