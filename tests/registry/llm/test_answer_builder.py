"""Which calls of an answer are made: how pieces become calls, what counts as the end, and what an answer that was cut
off may do. The same table is read as a stream and as a whole.
"""

import json

import pytest

from registry.exceptions import AttemptFailed
from registry.llm.answer_builder import MOST_CALLS, AnswerBuilder, CallPiece
from registry.llm.completions import read_completion
from registry.llm.wire import DONE, read_events

PAY = '{"to": "ann", "amount": 1000}'


def piece(arguments="", *, name="pay", **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def chunk(calls=(), finish=None, **delta):
    return {"choices": [{"index": 0, "delta": {**delta, "tool_calls": list(calls)}, "finish_reason": finish}]}


def stream(*chunks, done=True):
    """The bytes of a stream."""
    lines = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks]
    return b"".join([*lines, b"data: [DONE]\n\n"] if done else lines)


def read_parts(parts, hear=str, without_parameters=()):
    builder = AnswerBuilder(hear, without_parameters=without_parameters)
    for event in read_events(parts):
        if event is DONE:
            builder.end("")
            break
        read_completion(builder, event)
    return builder.build()


def read_stream(content, size=7, **more):
    return read_parts([content[start : start + size] for start in range(0, len(content), size)], **more)


def read_body(body):
    builder = AnswerBuilder()
    read_completion(builder, body)
    return builder.build()


def made(answer):
    """The calls that will be made."""
    return [(call.name, call.arguments) for call in answer.calls if not call.problem]


def test_a_call_arrives_in_pieces():
    answer = read_stream(stream(chunk([piece(PAY[:9], index=0, id="c")]), chunk([piece(PAY[9:], name=None, index=0)]),
                                chunk(finish="tool_calls")))  # fmt: skip
    assert made(answer) == [("pay", json.loads(PAY))]
    assert (answer.calls[0].id, answer.finish) == ("c", "tool_calls")


A, B = '{"text": "a"}', '{"text": "b"}'
ONE, TWO = [{"text": "a"}], [{"text": "a"}, {"text": "b"}]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([[piece(A, id="p")]], ONE),
        ([[piece(A, id="p"), piece(B, id="q")]], TWO),
        ([[piece(A, id="p")], [piece(B, id="q")]], TWO),
        ([[piece(A), piece(B)]], TWO),
        ([[piece(A)], [piece(B)]], TWO),
        ([[piece(A, id="say"), piece(B, id="say")]], TWO),
        ([[piece(A[:9], index=0, id="p")], [piece(A[9:], index=0, id="p")]], ONE),
        ([[piece(A[:9], index=0, id="p")], [piece(A[9:], index=0)]], ONE),
        ([[piece(A[:9], id="p")], [piece(A[9:], id="p")]], ONE),
        ([[piece(A[:9], id="p")], [piece(A[9:])]], ONE),
        ([[piece(A[:9], id="p")], [piece(A[9:], name=None)]], ONE),
        ([[piece(A[:9])], [piece(A[9:])]], ONE),
        ([[piece(A[:9], id="p", index=0)], [piece(A[9:], name=None, id="made-up", index=0)]], ONE),
        ([[piece(A, id="p", index=0)], [piece(B, id="q", index=0)]], TWO),
        ([[piece(A[:9], index=0, id="p"), piece(B[:9], index=1, id="q")],
          [piece(B[9:], name="", index=1), piece(A[9:], name="", index=0)]], TWO),
        ([[piece(A, index=None, id=None)], [piece("", name=None, id=None)]], ONE),
        ([[piece(A, id="p")], [piece("", id="p")]], ONE),
        ([[piece(A)], [piece("")]], ONE),
        ([[piece(A[:9], name="p", index=0, id="p")], [piece(A[9:], name="p", index=0)]], ONE),
        ([[piece({"text": "a"}, index=0, id="p")]], ONE),
        ([[piece(A, index="0", id=17)]], ONE),
    ],
)  # fmt: skip
def test_pieces_become_calls(deltas, expected):
    chunks = [chunk(pieces) for pieces in deltas]
    answer = read_stream(stream(*chunks, chunk(finish="tool_calls")))
    assert [arguments for _, arguments in made(answer)] == expected
    assert len(answer.calls) == len({call.id for call in answer.calls}) == len(expected)
    assert {call.name for call in answer.calls} <= {"pay", "p"}


def test_a_name_in_pieces_is_joined():
    first, second = piece("", name="pa", index=0, id="c"), piece(PAY, name="y", index=0)
    assert made(read_stream(stream(chunk([first]), chunk([second]), chunk(finish="stop")))) == [
        ("pay", json.loads(PAY))
    ]


def read_whole(finish, *calls):
    message = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    return read_body({"choices": [{"index": 0, "message": message, "finish_reason": finish}]})


def read_streamed(finish, *calls):
    numbered = [{"index": place, **call} for place, call in enumerate(calls)]
    return read_stream(stream(chunk(numbered), chunk(finish=finish)))


BOTH = pytest.mark.parametrize("read", [read_whole, read_streamed])
CUT = [
    "length",
    "content_filter",
    "max_tokens",
    "MAX_TOKENS",
    "FinishReason.SAFETY",
    "model_length",
    "refusal",
    "error",
]


@BOTH
@pytest.mark.parametrize("finish", CUT)
@pytest.mark.parametrize("arguments", [PAY, PAY[:25], "{}", "", None, {"to": "ann"}])
def test_no_call_of_an_answer_that_was_cut_off_is_made(read, finish, arguments):
    answer = read(finish, piece(PAY, id="first"), piece(arguments, id="second"))
    assert made(answer) == [] and len(answer.calls) == 2
    assert all(call.is_cut_off and "cut off" in call.problem for call in answer.calls)


@pytest.mark.parametrize(
    ("read", "finish"), [(read_whole, "stop"), (read_whole, "tool_calls"), (read_streamed, "tool_calls")]
)
@pytest.mark.parametrize("arguments", ["", None, "null", " ", "{}", {}])
def test_no_arguments_are_an_empty_object(read, finish, arguments):
    assert made(read(finish, piece(arguments, id="c"))) == [("pay", {})]


@pytest.mark.parametrize("arguments", ["", None, " "])
def test_a_stream_that_stops_behind_the_name_of_a_call_calls_only_what_takes_no_arguments(arguments):
    """LiteLLM's proxy says `stop` of a stream that just ended."""
    content = stream(chunk([piece(arguments, index=0, id="c")]), chunk(finish="stop"))
    answer = read_stream(content)
    assert made(answer) == [] and "may have been cut off" in answer.calls[0].problem
    assert made(read_stream(content, without_parameters=["pay"])) == [("pay", {})]


def test_a_refusal_among_the_fields_of_a_proxy_is_the_reply():
    fields = {"refusal": "I cannot help with that."}
    message = {"role": "assistant", "content": None, "provider_specific_fields": fields}
    answer = read_body({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    assert (answer.text, answer.finish) == ("I cannot help with that.", "refusal")


@BOTH
@pytest.mark.parametrize("finish", [None, "", "quite_new"])
def test_without_a_known_end_a_call_needs_its_arguments(read, finish):
    answer = read(finish, piece(PAY, id="first"), piece("", id="second"))
    assert made(answer) == [("pay", json.loads(PAY))]
    assert "may have been cut off" in answer.calls[1].problem


BROKEN = [PAY[:25], '{"to": "rm /home/us', "{", '{"a": 1,}', "{'a': 1}", '{"a": NaN}', '{"a": 1} {"a": 2}', '"foo"', "3",
          "true", "[]", '[{"to": "ann"}]', json.dumps(PAY), 3, True, ["x"]]  # fmt: skip


@BOTH
@pytest.mark.parametrize("arguments", BROKEN)
def test_arguments_are_read_strictly(read, arguments):
    answer = read("tool_calls", piece(arguments, id="c"))
    assert made(answer) == [] and answer.calls[0].name == "pay"
    assert "not valid JSON" in answer.calls[0].problem or "must be a JSON object" in answer.calls[0].problem


def test_a_call_without_the_key_arguments_has_none():
    call = {"id": "c", "type": "function", "function": {"name": "pay"}}
    assert made(read_whole("tool_calls", call)) == made(read_streamed("tool_calls", call)) == [("pay", {})]


CALLED = chunk([piece(PAY, index=0, id="c")])


@pytest.mark.parametrize(
    "content",
    [
        stream(CALLED, chunk(finish="tool_calls"), done=False),  # a finish reason, then the connection is closed
        stream(CALLED, done=True),  # `[DONE]` without a finish reason
        stream(chunk([piece(PAY, index=0, id="c")], finish="tool_calls"), done=False),
        stream(CALLED, chunk(finish="tool_calls")).rstrip(b"\n"),
        stream(CALLED, chunk(finish="tool_calls"))[: -len(b"DONE]\n\n")],
        stream(CALLED, chunk(finish="tool_calls")).replace(b"\n", b"\r\n"),
    ],
)
def test_the_server_says_that_the_answer_has_ended(content):
    assert made(read_stream(content)) == [("pay", json.loads(PAY))]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        stream(CALLED, done=False),
        stream(chunk(content="Hello"), done=False),
        stream(CALLED, {"choices": [], "usage": {"prompt_tokens": 1}}, done=False),
        stream(chunk(finish="tool_calls"), chunk([piece("", index=0, id="c")]), done=False),  # it went on
        stream(done=True),
    ],
)
def test_a_closed_connection_is_not_an_end(content):
    with pytest.raises(AttemptFailed) as failure:
        read_stream(content)
    assert failure.value.code == "cut_stream" and failure.value.is_retryable


def test_a_stream_that_is_cut_at_any_byte_executes_nothing_by_halves():
    """Two calls, one of them without arguments. Both are made or none."""
    pieces = [
        chunk(role="assistant", content="I pay."),
        chunk([piece(PAY[:11], index=0, id="a")]),
        chunk([piece(PAY[11:], name=None, index=0)]),
        chunk([piece("", name="rest", index=1, id="b")]),
        chunk(finish="tool_calls"),
    ]
    content = stream(*pieces, {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
    whole = [("pay", json.loads(PAY)), ("rest", {})]
    outcomes = []
    for place in range(len(content)):
        try:
            outcomes.append(made(read_stream(content[:place], size=64)))
        except AttemptFailed as failure:
            assert failure.is_retryable
            outcomes.append(None)
    assert [outcome for outcome in outcomes if outcome not in (None, whole)] == []
    ended = outcomes.index(whole)
    assert set(map(str, outcomes[:ended])) == {"None"} and content[:ended].rstrip().endswith(b'"tool_calls"}]}')


def test_the_text_the_tokens_and_the_pieces_are_read():
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    heard = []
    chunks = [
        {**chunk(content="Good "), "usage": {**usage, "completion_tokens": 1}},
        chunk(content=[{"type": "text", "text": "day."}]),
        {"choices": None},
        {"choices": [{"index": 0, "delta": None, "finish_reason": None}]},
        {**chunk(content=None, finish="stop"), "usage": usage},
    ]
    answer = read_parts([stream(*chunks)], hear=heard.append)
    assert heard == ["Good ", "day."] and answer.text == "Good day."
    assert (answer.input_tokens, answer.output_tokens, answer.finish) == (10, 2, "stop")


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{"index": 0}]}, {"choices": [{"message": "x"}]}])
def test_a_whole_answer_without_a_message_is_asked_for_again(body):
    with pytest.raises(AttemptFailed) as failure:
        read_body(body)
    assert failure.value.code in ("bad_answer", "cut_stream") and failure.value.is_retryable


@pytest.mark.parametrize("number", [MOST_CALLS, MOST_CALLS + 1, 20_000])
def test_many_calls_are_put_together_in_one_pass(number):
    builder = AnswerBuilder()
    for place in range(number):
        builder.add_pieces([CallPiece(index=place, id=str(place), name="pay", arguments="{}")])
    builder.end("stop")
    if number <= MOST_CALLS:
        assert len(builder.build().calls) == number
        return
    with pytest.raises(AttemptFailed) as failure:
        builder.build()
    assert failure.value.code == "too_many_calls" and not failure.value.is_retryable


EMPTY_PIECES = [chunk([{"index": 0, "function": {}}]), chunk([{"index": 0}]), chunk([{}])]


@pytest.mark.parametrize("finish", ["tool_calls", "MALFORMED_FUNCTION_CALL", "unexpected_tool_call"])
@pytest.mark.parametrize("pieces", [[], EMPTY_PIECES], ids=["nothing", "empty pieces"])
def test_calls_that_the_server_could_not_read_are_asked_for_again(pieces, finish):
    """vLLM (with `tool_choice: required`, and its parser for Kimi), and Gemini."""
    with pytest.raises(AttemptFailed) as failure:
        read_stream(stream(*pieces, chunk(finish=finish)))
    assert (failure.value.code, failure.value.is_retryable) == ("bad_answer", True)


def test_empty_pieces_of_calls_beside_a_text_are_no_calls():
    answer = read_stream(stream(*EMPTY_PIECES, chunk(content="Hello."), chunk(finish="stop")))
    assert (answer.text, answer.calls) == ("Hello.", ())
