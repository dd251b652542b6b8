"""Whatever a conversation contains, what is sent pleases the strictest servers and loses no word of the person."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.llm.completions import write_message
from registry.llm.history import normalise, valid_name
from tests.zoo.compatible import Mistral, find_alternation, find_disorder

IDS = st.sampled_from(["call_0", "call_1", "", "functions.add:0", "x" * 200, "<|id|>", "toolu_1", "a b"])
NAMES = st.sampled_from(["add", "functions.add", "", "add<|channel|>commentary", "größe", "1add", "x" * 90, "a.b c"])
TEXTS = st.sampled_from(["", " ", "Hello", "Good day\n", "…"])
CALLS = st.builds(lambda id, name: {"id": id, "name": name, "arguments": {"a": 1}}, IDS, NAMES)
MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda text: {"role": "system", "content": text}, TEXTS),
        st.builds(lambda text: {"role": "user", "content": text}, TEXTS),
        st.builds(lambda text: {"role": "user", "content": [{"type": "text", "text": text}]}, TEXTS),
        st.builds(lambda text: {"role": "assistant", "content": text}, TEXTS),
        st.builds(
            lambda text, calls, earlier: {
                "role": "assistant", "content": text, "tool_calls": calls, "is_earlier": earlier,
            },
            TEXTS, st.lists(CALLS, min_size=1, max_size=3), st.booleans(),
        ),
        st.builds(lambda id, text: {"role": "tool", "tool_call_id": id, "content": text}, IDS, TEXTS),
    ),
    max_size=12,
)  # fmt: skip


@given(messages=MESSAGES, has_system=st.booleans(), has_short_ids=st.booleans())
def test_any_conversation_becomes_one_that_strict_servers_accept(messages, has_system, has_short_ids):
    sent = normalise(
        [*messages, {"role": "user", "content": "And now?"}],
        bridges=True,
        has_system=has_system,
        has_short_ids=has_short_ids,
    )
    written = [write_message(message, frozenset()) for message in sent]
    assert find_disorder(written) == ""
    assert find_alternation([one for one in written if one["role"] != "system"]) == ""
    if has_short_ids:
        assert Mistral().find_fault({"messages": written}) == ""
    said = json.dumps(sent)
    for message in messages:
        if message["role"] == "user" and isinstance(message["content"], str) and message["content"].strip():
            assert message["content"].strip() in said or json.dumps(message["content"])[1:-1] in said


@given(messages=MESSAGES)
def test_the_same_conversation_is_sent_the_same_way(messages):
    assert normalise(messages) == normalise(messages)


def test_what_a_server_wants_back_goes_to_it_alone():
    kept = {"by": "1/m", "fields": {"reasoning_content": "hm"}, "calls": [{"fields": {"extra_content": {"x": 1}}}]}
    call = {"id": "call_1", "name": "add", "arguments": {}}
    turn = {"role": "assistant", "content": "", "tool_calls": [call], "kept": kept}
    messages = [{"role": "user", "content": "Add"}, turn, {"role": "tool", "tool_call_id": "call_1", "content": "3"}]
    own = write_message(normalise(messages, account="1/m")[1], frozenset())
    assert own["reasoning_content"] == "hm" and own["tool_calls"][0]["extra_content"] == {"x": 1}
    other = write_message(normalise(messages, account="1/other")[1], frozenset())
    assert "reasoning_content" not in other and "extra_content" not in other["tool_calls"][0]


def test_an_id_that_no_row_can_hold_goes_back_whole():
    long_id = f"call_1__thought__{'x' * 900}"
    call = {"id": long_id[:128], "name": "add", "arguments": {}}
    turn = {"role": "assistant", "content": "", "tool_calls": [call], "kept": {"by": "1/m", "calls": [{"id": long_id}]}}
    result = {"role": "tool", "tool_call_id": long_id[:128], "content": "3"}
    _, sent, answered = normalise([{"role": "user", "content": "Add"}, turn, result], account="1/m")
    assert sent["tool_calls"][0]["id"] == answered["tool_call_id"] == long_id and answered["content"] == "3"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("add", "add"), ("functions.add", "add"), ("", "unknown_tool"), ("add<|channel|>json", "add"), ("1add", "_1add"),
     ("a.b c", "a_b_c"), ("größe", "gr_e"), ("x" * 90, "x" * 64)],
)  # fmt: skip
def test_a_name_becomes_one_that_servers_accept(name, expected):
    assert valid_name(name) == expected
