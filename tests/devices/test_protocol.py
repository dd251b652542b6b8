import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices import protocol
from devices.protocol import FROM_DEVICE, FROM_SERVER
from devices.wire import BadFrame

FRAMES = [
    (
        protocol.DeviceHello(
            protocol=1,
            device_id="d",
            name="laptop",
            journal_id="j",
            tools=(protocol.ToolName("list_tasks", "ab"),),
            offers=(protocol.Offer("echo", "Says it", {"type": "object"}, "cd"),),
            unfinished=(protocol.Unfinished("x", "running"),),
        ),
        FROM_DEVICE,
    ),
    (protocol.ToolAck("x"), FROM_DEVICE),
    (protocol.ToolResult("x", True, {"a": [1, None, "é"]}), FROM_DEVICE),
    (protocol.ToolResult("x", True, None), FROM_DEVICE),
    (protocol.ToolResult("x", False, None, {"code": "no", "message": "why"}), FROM_DEVICE),
    (protocol.ToolProgress("x", "half", 0.5), FROM_DEVICE),
    (protocol.Ping(), FROM_DEVICE),
    (protocol.RunRequest(agent="librarian", input={"a": 1}, agent_id="7", request_id="r"), FROM_DEVICE),
    (protocol.HelloAck(15.0, "secret", ("x",)), FROM_SERVER),
    (protocol.ToolCall("x", "list_tasks", {"limit": 1}, {"run": "r"}, "2026-01-01T00:00:00Z", 30.0, 2), FROM_SERVER),
    (protocol.ToolCancel("x", "stop"), FROM_SERVER),
    (protocol.RunComplete({"run": "r"}, "failed", {"created": 1}, "no"), FROM_SERVER),
    (protocol.RunAccepted("r", "q"), FROM_SERVER),
    (protocol.Pong(), FROM_SERVER),
    (protocol.Error("code", "message"), FROM_SERVER),
]

BAD = [
    ("", "not_json"),
    ("{", "not_json"),
    ("[]", "not_an_object"),
    ('"text"', "not_an_object"),
    ("{}", "unknown_type"),
    ('{"type": 7}', "unknown_type"),
    ('{"type": "tool_call", "id": "x", "name": "n", "args": {}}', "unknown_type"),
    ('{"type": "tool_ack"}', "invalid_frame"),
    ('{"type": "tool_ack", "id": 7}', "invalid_frame"),
    ('{"type": "tool_ack", "id": null}', "invalid_frame"),
    ('{"type": "tool_result", "id": "x"}', "invalid_frame"),
    ('{"type": "tool_result", "id": "x", "ok": "yes"}', "invalid_frame"),
    ('{"type": "tool_result", "id": "x", "ok": false}', "invalid_frame"),
    ('{"type": "tool_result", "id": "x", "ok": false, "error": {"message": "no code"}}', "invalid_frame"),
    ('{"type": "tool_progress", "id": "x", "fraction": "half"}', "invalid_frame"),
    ('{"type": "tool_progress", "id": "x", "fraction": 1' + "0" * 400 + "}", "invalid_frame"),
    ('{"type": "device_hello"}', "invalid_frame"),
    ('{"type": "device_hello", "protocol": "1"}', "invalid_frame"),
    ('{"type": "device_hello", "protocol": 1, "tools": {}}', "invalid_frame"),
    ('{"type": "device_hello", "protocol": 1, "tools": [7]}', "invalid_frame"),
    ('{"type": "device_hello", "protocol": 1, "offers": [{"name": "a"}]}', "invalid_frame"),
    ('{"type": "device_hello", "protocol": 1, "unfinished": [{"id": "x", "state": "lost"}]}', "invalid_frame"),
    ('{"type": "tool_result", "id": "x", "ok": true, "result": NaN}', "not_json"),
    ('{"type": "tool_result", "id": "x", "ok": true, "result": 1e999}', "not_json"),
    ('{"type": "tool_result", "id": "x", "ok": true, "result": "\\u0000"}', "not_json"),
    ('{"type": "tool_result", "id": "x", "ok": true, "result": "\\ud800"}', "not_json"),
    ("[" * 200_000, "not_json"),
    ('{"type": "tool_result", "id": "x", "ok": true, "result": ' + "[" * 200 + "]" * 200 + "}", "not_json"),
    ('{"type": "tool_result", "id": "x", "ok": true, "result": "' + "a" * 1_048_576 + '"}', "too_large"),
    ('{"type": "tool_result", "id": "x", "ok": true, "result": "' + "é" * 600_000 + '"}', "too_large"),
    (None, "not_json"),
    (b"\x00", "not_json"),
]


@pytest.mark.parametrize(("frame", "known"), FRAMES, ids=lambda value: getattr(value, "type", ""))
def test_a_frame_comes_out_as_it_went_in(frame, known):
    assert protocol.parse_frame(protocol.encode(frame), known) == frame


@pytest.mark.parametrize(("text", "code"), BAD, ids=lambda value: str(value)[:60])
def test_a_bad_frame_is_refused_with_a_code(text, code):
    with pytest.raises(BadFrame) as refusal:
        protocol.parse_frame(text, FROM_DEVICE)
    assert refusal.value.code == code


def test_fields_from_a_newer_version_are_ignored():
    assert protocol.parse_frame('{"type": "tool_ack", "id": "x", "colour": "red"}', FROM_DEVICE) == protocol.ToolAck(
        "x"
    )


@pytest.mark.parametrize("text", [r"\u0000", r"\ud800", "\U0001f600", r"a \\u0000 b", "{[" * 300])
def test_a_text_about_escapes_is_a_text_like_any_other(text):
    """Source code and JSON are full of them: their readers waited for an answer until its deadline."""
    frame = protocol.ToolResult("x", True, {text: [text]})
    assert protocol.parse_frame(protocol.encode(frame), FROM_DEVICE) == frame
    assert (
        protocol.parse_frame(
            json.dumps({"type": "tool_result", "id": "x", "ok": True, "result": {text: [text]}}), FROM_DEVICE
        )
        == frame
    )


def test_a_frame_that_would_be_refused_is_not_sent():
    bottomless: list = []
    for _ in range(100_000):
        bottomless = [bottomless]
    with pytest.raises(BadFrame, match="bytes"):
        protocol.encode(protocol.ToolResult("x", True, "a" * 1_100_000))
    with pytest.raises(BadFrame):
        protocol.encode(protocol.ToolResult("x", True, float("nan")))
    for text in ("\0", "\ud800"):
        with pytest.raises(BadFrame):
            protocol.encode(protocol.ToolResult("x", True, [{text: 1}]))
    with pytest.raises(BadFrame, match="deeper"):
        protocol.encode(protocol.ToolResult("x", True, json.loads("[" * 200 + "]" * 200)))
    with pytest.raises(BadFrame, match="recursion"):
        protocol.encode(protocol.ToolResult("x", True, bottomless))


def test_the_hash_of_a_definition_does_not_depend_on_the_order_of_keys():
    one = protocol.tool_hash("echo", "Says it", {"type": "object", "properties": {}})
    other = protocol.tool_hash("echo", "Says it", {"properties": {}, "type": "object"})
    assert one == other != protocol.tool_hash("echo", "Says it!", {"type": "object", "properties": {}})


@settings(deadline=None)  # what is asked is whether it answers; a busy machine takes its time
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_no_json_makes_the_parser_fall_over(value):
    for shape in (value, {"type": "device_hello", "protocol": value}, {"type": "tool_result", "id": "x", "ok": value}):
        try:
            protocol.parse_frame(json.dumps(shape), FROM_DEVICE)
        except BadFrame as error:
            assert error.code


def test_cut_and_flipped_frames_are_refused_or_read():
    random.seed(7)
    text = protocol.encode(FRAMES[0][0])
    for _ in range(2000):
        cut = list(text)
        for _ in range(random.randrange(1, 4)):
            cut[random.randrange(len(cut))] = chr(random.randrange(1, 0x250))
        try:
            protocol.parse_frame("".join(cut)[: random.randrange(1, len(cut))], FROM_DEVICE)
        except BadFrame:
            pass
