"""Models behind LangChain. Messages go in as dicts, an Answer comes out; without callbacks or
tracing.

`_generate` and `_stream` are the extension points that every LangChain chat model implements.
Calling them directly skips the callback manager, which costs 0.2 ms a call and has nothing to
report (docs/adr/0071). The tool calls of a streamed answer are put together by AnswerBuilder: when
LangChain adds up the pieces, it completes JSON that was cut off.
"""

import logging
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from agents.tools import ToolSpec
from plumbing import json_values, waits
from plumbing.resting import RestingThreads
from registry.exceptions import AttemptFailed, ModelCancelled, ModelFailed

from .answer_builder import AnswerBuilder, CallPiece
from .chat import Answer, Question
from .watch import watching
from .wire import refused

log = logging.getLogger(__name__)
JSON = Any
BLOCKING = RestingThreads(256, "models")  # a slow server must not take a function's thread


CALL = {"id": "call_0", "name": "hello", "arguments": {}}
REHEARSED: tuple[dict[str, JSON], ...] = (
    {"role": "system", "content": "Answer."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "Hello", "tool_call_id": "call_0"},
)


class LangChainModel:
    """`make(model_name)` returns the LangChain chat model, which is cached. What a request offers to the model (tools,
    a schema) is written anew each time: it belongs to one person's run, and costs 0.1 ms. `blocks`: its package has
    connections of its own, which hold a thread. `always_streams`: its package streams also what it returns as a whole,
    and takes a closed connection for the end.
    """

    def __init__(
        self, make: Any, *, takes_response_format: bool, blocks: bool = False, always_streams: bool = False
    ) -> None:
        self._make = lru_cache(maxsize=32)(make)
        self._takes_response_format = takes_response_format
        self._blocks = blocks
        self._always_streams = always_streams

    def warm(self, model_name: str, tools: Sequence[ToolSpec] = ()) -> None:
        messages = [as_langchain(message) for message in REHEARSED]
        self._rehearse(self._make(model_name), messages, tools)

    def _rehearse(self, model: Any, messages: list[Any], tools: Sequence[ToolSpec]) -> None:
        """Load what the first question needs, as far as that is possible without sending anything."""
        if tools:
            bind_tools(model, tools)

    def ask(self, question: Question) -> Answer:
        return waits.run_blocking_on(BLOCKING, self._ask, question) if self._blocks else self._ask(question)

    def _ask(self, question: Question) -> Answer:
        messages = [as_langchain(message) for message in self._instructed(question)]
        try:
            with watching(question.watch):
                model = self._make(question.model_name)
                return (
                    self._listen(model, messages, question)
                    if question.on_delta
                    else self._wait(model, messages, question)
                )
        except (AttemptFailed, ModelFailed, ModelCancelled):
            raise
        except Exception as error:  # each provider's package has its own exception classes; one place tells them apart
            raise understood(error) from error

    def _instructed(self, question: Question) -> Sequence[dict[str, JSON]]:
        if question.output_schema is None or self._takes_response_format:
            return question.messages
        return with_instruction(question.messages, question.output_schema)

    def _wait(self, model: Any, messages: list[Any], question: Question) -> Answer:
        result = model._generate(messages, **self._arguments(model, question))
        generation = result.generations[0]
        message = generation.message
        builder = AnswerBuilder()
        add_message(builder, message)
        for call in message.tool_calls:
            builder.add_call(CallPiece.of(None, call.get("id"), call["name"], call["args"]))
        for call in message.invalid_tool_calls:
            builder.add_call(CallPiece.of(None, call.get("id"), call.get("name"), call.get("args")))
        finish = find_finish(generation) or (result.llm_output or {}).get("stop_reason")
        if finish or not self._always_streams:
            builder.end(finish)
        return builder.build()

    def _listen(self, model: Any, messages: list[Any], question: Question) -> Answer:
        assert question.on_delta is not None
        builder = AnswerBuilder()
        for chunk in model._stream(messages, **self._arguments(model, question)):
            question.watch.check()
            text = add_message(builder, chunk.message)
            pieces = chunk.message.tool_call_chunks
            builder.add_pieces(CallPiece.of(one["index"], one["id"], one["name"], one["args"]) for one in pieces)
            if finish := find_finish(chunk):
                builder.end(finish)
            if text:
                question.on_delta(text)
        return builder.build()

    def _arguments(self, model: Any, question: Question) -> dict[str, JSON]:
        return bind_tools(model, question.tools) if question.tools else {}


def bind_tools(model: Any, tools: Sequence[ToolSpec]) -> dict[str, JSON]:
    """What these tools add to a request, in the words of the model's provider."""
    arguments: dict[str, JSON] = model.bind_tools([declare_tool(tool) for tool in tools]).kwargs
    return arguments


def add_message(builder: AnswerBuilder, message: Any) -> str:
    """Add the text and the tokens of a message, or of a chunk of one, to the answer; returns the text."""
    text = message.content if isinstance(message.content, str) else str(message.text)
    builder.add_text(text)
    usage = message.usage_metadata or {}
    builder.input_tokens += usage.get("input_tokens") or 0
    builder.output_tokens += usage.get("output_tokens") or 0
    if message.id:
        builder.extra["id"] = message.id
    return text


def find_finish(generation: Any) -> str:
    """Why the answer ended, in the provider's word; empty while it goes on."""
    places = (generation.generation_info or {}, generation.message.response_metadata or {})
    for place in places:
        for name in ("finish_reason", "stop_reason", "done_reason"):
            if place.get(name):
                return str(place[name])
        if place.get("done") is True:  # Ollama's older servers give no reason
            return "done"
    return ""


def declare_tool(tool: ToolSpec) -> dict[str, JSON]:
    parameters = tool.input_schema or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def response_format(schema: dict[str, JSON]) -> dict[str, JSON]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": False}}


def with_instruction(messages: Sequence[dict[str, JSON]], schema: dict[str, JSON]) -> list[dict[str, JSON]]:
    """For providers without a response format: the schema as a last system instruction."""
    shape = json_values.write(schema).decode()
    text = f"Answer only with JSON that matches this JSON Schema, without a code fence:\n{shape}"
    if messages and messages[0]["role"] == "system":
        first = {**messages[0], "content": f"{messages[0]['content']}\n\n{text}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def as_langchain(message: dict[str, JSON]) -> Any:
    """One of our message dicts as a LangChain message."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage  # slow import: 0.8 s

    role, content = message["role"], as_content(message.get("content") or "")
    if role == "user":
        return HumanMessage(content)
    if role == "system":
        return SystemMessage(content)
    if role == "tool":
        return ToolMessage(content, tool_call_id=message.get("tool_call_id") or "")
    calls = [
        {"id": call["id"], "name": call["name"], "args": call["arguments"], "type": "tool_call"}
        for call in message.get("tool_calls") or ()
    ]
    return AIMessage(content, tool_calls=calls)


def as_content(content: Any) -> Any:
    if isinstance(content, str):
        return content
    if all(part.get("type") == "text" for part in content):
        return "\n".join(part["text"] for part in content)
    return [as_part(part) for part in content]


def as_part(part: dict[str, JSON]) -> dict[str, JSON]:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    if part["type"] == "image" and (part.get("data") or part.get("url")):
        media = part.get("media_type", "image/png")
        url = part.get("url") or f"data:{media};base64,{part['data']}"
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "text", "text": f"[{part['type']} {part.get('name') or part.get('id') or ''}]".replace(" ]", "]")}


def understood(error: Exception) -> AttemptFailed:
    """An exception of a provider's package as an AttemptFailed, by its HTTP status or its cause."""
    for cause in causes(error):
        if isinstance(cause, AttemptFailed):
            return cause
        if isinstance(cause, ModelCancelled | ModelFailed):
            raise cause
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if isinstance(status, int) and status >= 300:
        response = getattr(error, "response", None)
        headers = getattr(response, "headers", None) or {}
        log.info("The model server refused a request", exc_info=error)
        return refused(status, getattr(response, "content", b""), headers.get("retry-after", ""))
    log.warning("The package of a model provider raised an error", exc_info=error)
    if any(word in type(error).__name__ for word in ("Connection", "Timeout", "Protocol", "Network", "ReadError")):
        return AttemptFailed("model_unreachable", "The model server cannot be reached.", is_retryable=True)
    return AttemptFailed("model_error", "The model's answer could not be read; the server's log has the reason.")


def causes(error: BaseException | None) -> Iterable[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
