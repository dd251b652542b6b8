"""Chat completions of OpenAI and of compatible servers, whole or streamed.

LangChain writes the request, our own connection sends it, and AnswerBuilder reads the answer.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from agents.tools import ToolSpec
from registry.exceptions import AttemptFailed

from .answer_builder import AnswerBuilder, CallPiece
from .chat import Answer, Question
from .langchain_models import LangChainModel, declare_tool, response_format
from .wire import DONE, JSON, Endpoint


class CompletionsModel(LangChainModel):
    """The models behind one endpoint for chat completions."""

    def __init__(self, make: Callable[[str], Any], endpoint: Endpoint) -> None:
        super().__init__(make, takes_response_format=True)
        self._endpoint = endpoint

    def _rehearse(self, model: Any, messages: list[Any], tools: Sequence[ToolSpec]) -> None:
        write_request(model, messages, {"tools": [declare_tool(tool) for tool in tools]})
        read_completion(WHOLE_GREETING)
        read_chunks(iter(STREAMED_GREETING), hear=str)

    def _wait(self, model: Any, messages: list[Any], question: Question) -> Answer:
        return read_completion(self._endpoint.post(write_request(model, messages, self._options(question))))

    def _listen(self, model: Any, messages: list[Any], question: Question) -> Answer:
        assert question.on_delta is not None
        options = {**self._options(question), "stream": True, "stream_options": {"include_usage": True}}
        # Left early, the connection is closed, so that a cancelled run stops the model's work.
        with closing(self._endpoint.events(write_request(model, messages, options))) as chunks:
            return read_chunks(chunks, question.on_delta, question.watch.check)

    def _options(self, question: Question) -> dict[str, JSON]:
        options: dict[str, JSON] = {}
        if question.tools:
            options["tools"] = [declare_tool(tool) for tool in question.tools]
        if question.output_schema is not None:
            options["response_format"] = response_format(question.output_schema)
        return options


def write_request(model: Any, messages: list[Any], options: dict[str, JSON]) -> dict[str, JSON]:
    """The body of the request: the parameters and messages in the words of LangChain's model, and these options."""
    body: dict[str, JSON] = model._get_request_payload(messages)
    body.pop("stream", None)
    return {**body, **options}


def read_completion(body: dict[str, JSON]) -> Answer:
    """The answer that arrived as one JSON object. Raises AttemptFailed."""
    choice = find_choice(body)
    message = (choice or {}).get("message")
    if not choice or not isinstance(message, dict):
        raise AttemptFailed("bad_answer", "The model server's answer has no message.", is_retryable=True)
    builder = AnswerBuilder()
    builder.add_text(read_text(message.get("content")))
    for piece in read_pieces(message):
        builder.add_call(piece)
    builder.end(choice.get("finish_reason"))
    read_usage(builder, body)
    return builder.build()


def read_chunks(chunks: Iterator[JSON], hear: Callable[[str], Any], check: Callable[[], None] | None = None) -> Answer:
    """The answer that arrives in chunks; `hear` gets its text. Raises AttemptFailed."""
    builder = AnswerBuilder()
    try:
        for chunk in chunks:
            if check:
                check()
            if chunk is DONE:
                builder.end("")
                break
            if text := add_chunk(builder, chunk):
                hear(text)
    except AttemptFailed as error:
        # Some servers close the connection without a word once they have sent the finish reason.
        if error.code != "cut_stream" or not builder.has_ended:
            raise
    return builder.build()


def add_chunk(builder: AnswerBuilder, chunk: dict[str, JSON]) -> str:
    """Add one chunk of a stream to the answer; returns its text."""
    read_usage(builder, chunk)
    choice = find_choice(chunk)
    if choice is None:
        return ""
    delta = choice.get("delta")
    text = ""
    if isinstance(delta, dict):
        text = read_text(delta.get("content"))
        builder.add_text(text)
        builder.add_pieces(read_pieces(delta))
    if choice.get("finish_reason"):
        builder.end(choice["finish_reason"])
    return text


def find_choice(body: dict[str, JSON]) -> dict[str, JSON] | None:
    """The first choice; we never ask for more than one."""
    choices = body.get("choices")
    if not isinstance(choices, list):
        return None
    return next((choice for choice in choices if isinstance(choice, dict) and not choice.get("index")), None)


def read_text(content: JSON) -> str:
    """The text of a message, which is a string, null or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str))


def read_pieces(message: dict[str, JSON]) -> list[CallPiece]:
    """The tool calls of a message, or the pieces of calls in a delta."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return []
    return [read_piece(call) for call in calls if isinstance(call, dict)]


def read_piece(call: dict[str, JSON]) -> CallPiece:
    function = call.get("function")
    if not isinstance(function, dict):
        function = {}
    return CallPiece.of(call.get("index"), call.get("id"), function.get("name"), function.get("arguments"))


def read_usage(builder: AnswerBuilder, body: dict[str, JSON]) -> None:
    """The tokens used so far: servers that send them more than once send totals."""
    usage = body.get("usage")
    if isinstance(usage, dict):
        builder.input_tokens = count_tokens(usage.get("prompt_tokens"))
        builder.output_tokens = count_tokens(usage.get("completion_tokens"))


def count_tokens(number: JSON) -> int:
    return number if isinstance(number, int) and number > 0 else 0


# An answer that says hello and asks for a call, for the rehearsal of a worker that has just started.
GREETING_CALL = {"index": 0, "id": "call_0", "type": "function", "function": {"name": "hello", "arguments": "{}"}}
GREETING = {"role": "assistant", "content": "Hello", "tool_calls": [GREETING_CALL]}
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
WHOLE_GREETING: dict[str, JSON] = {
    "choices": [{"index": 0, "message": GREETING, "finish_reason": "tool_calls"}],
    "usage": USAGE,
}
STREAMED_GREETING: list[JSON] = [
    {"choices": [{"index": 0, "delta": GREETING, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": USAGE},
]
