"""`muster acp`: what editors see of events, prompts and errors."""

import pytest
from acp import RequestError, resource_link_block, text_block
from acp.helpers import audio_block, embedded_blob_resource, embedded_text_resource, image_block, resource_block

from muster_client.cli.updates import Updates, convert_prompt, convert_server_error, replay_message, stop_reason
from muster_client.errors import APIConnectionError, AuthenticationError, ConflictError, NotFoundError
from muster_client.events import Event

CALLED = Event(
    "tool.called", {"id": "c1", "name": "add", "kind": "function", "arguments": {"a": 1}, "parent_call": None}
)


def updates(*events):
    """What the editor shows of these events, as JSON."""
    conversion = Updates()
    shown = [update for event in events for update in conversion.convert(event)]
    return [update.model_dump(by_alias=True, exclude_none=True, mode="json") for update in shown]


def test_text_and_calls_become_updates():
    found = updates(
        Event("message.delta", {"turn": 1, "offset": 0, "text": "Let me "}),
        Event("model.finished", {"turn": 1, "text": "Let me see."}),
        CALLED,
        Event("tool.called", {"id": "c2", "name": "inner", "parent_call": "c1"}),
        Event("tool.finished", {"id": "c2", "outcome": "ok", "result": 0}),
        Event("tool.progress", {"id": "c1", "message": "half"}),
        Event("tool.finished", {"id": "c1", "outcome": "ok", "result": {"sum": 3}, "text": None}),
        Event("run.finished", {"status": "succeeded", "reply": {"text": "Let me see."}}),
    )
    assert [one["sessionUpdate"] for one in found] == [
        "agent_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update", "tool_call_update",
    ]  # fmt: skip
    assert "".join(one["content"]["text"] for one in found[:2]) == "Let me see."
    assert (found[2]["toolCallId"], found[2]["title"], found[2]["rawInput"]) == ("c1", "add", {"a": 1})
    assert [one["status"] for one in found[2:]] == ["in_progress", "in_progress", "completed"]
    assert found[4]["content"][0]["content"]["text"] == '{"sum": 3}' and found[4]["rawOutput"] == {"sum": 3}


@pytest.mark.parametrize(
    ("type", "data", "words"),
    [
        ("tool.finished", {"outcome": "failed", "error": {"message": "no such file"}}, "no such file"),
        ("tool.denied", {"reason": "not now"}, "not now"),
    ],
)
def test_a_call_that_did_not_work_has_failed(type, data, words):
    last = updates(CALLED, Event(type, {"id": "c1", **data}))[-1]
    assert (last["status"], last["content"][0]["content"]["text"]) == ("failed", words)


def test_a_reply_that_no_model_wrote_is_shown():
    [only] = updates(Event("run.finished", {"status": "succeeded", "reply": {"text": "Stored."}}))
    assert only["content"]["text"] == "Stored."


def test_the_content_of_a_prompt():
    parts = convert_prompt([
        text_block("Look at"),
        resource_link_block("a.py", "file:///a.py"),
        resource_block(embedded_text_resource("file:///b.py", "x = 1")),
        image_block("aGk=", "image/png"),
        resource_block(embedded_blob_resource("file:///c.png", "aGk=", mime_type="image/png")),
    ])  # fmt: skip
    assert [part.get("text") for part in parts] == [
        "Look at",
        "[a.py](file:///a.py)",
        "file:///b.py:\nx = 1",
        None,
        None,
    ]
    assert [part["text"] for part in parts if part.get("untrusted")] == ["file:///b.py:\nx = 1"]
    assert parts[3] == parts[4] == {"type": "image", "data": "aGk=", "media_type": "image/png"}


@pytest.mark.parametrize(
    "block", [audio_block("aGk=", "audio/wav"), resource_block(embedded_blob_resource("x:", "aGk="))]
)
def test_content_that_a_message_cannot_have_is_refused(block):
    with pytest.raises(RequestError) as refused:
        convert_prompt([block])
    assert refused.value.code == -32602


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        ("succeeded", None, "end_turn"), ("partial", None, "end_turn"), ("partial", "step_limit", "max_turn_requests"),
        ("cancelled", "cancelled", "cancelled"),
    ],
)  # fmt: skip
def test_stop_reasons(status, code, reason):
    assert stop_reason({"status": status, "error": {"code": code} if code else None}) == reason


def test_a_run_that_failed_is_an_error():
    with pytest.raises(RequestError, match="no money") as failed:
        stop_reason({"status": "failed", "error": {"code": "budget_exhausted", "message": "no money"}})
    assert failed.value.data == {"code": "budget_exhausted", "status": "failed"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AuthenticationError(401, {}), -32000), (NotFoundError(404, {}), -32002), (ConflictError(409, {}), -32602),
        (APIConnectionError("no server"), -32603),
    ],
)  # fmt: skip
def test_errors_of_the_server(error, code):
    assert convert_server_error(error).code == code


def test_a_session_is_replayed():
    rows = [{"role": "user", "text": "Hi"}, {"role": "tool", "text": "3"}, {"role": "assistant", "text": "Hello"}]
    assert [one.session_update for row in rows for one in replay_message(row)] == [
        "user_message_chunk",
        "agent_message_chunk",
    ]
