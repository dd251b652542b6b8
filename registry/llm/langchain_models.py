"""Models behind LangChain. Messages go in as dicts, an Answer comes out; without callbacks or
tracing.

`_generate` and `_stream` are the extension points that every LangChain chat model implements.
Calling them directly skips the callback manager, which costs 0.2 ms a call and has nothing to
report (docs/adr/0071).
"""

import logging
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from agents.http.parsers import fault_in
from agents.tools import ToolSpec
from plumbing import json_values, waits
from plumbing.resting import RestingThreads
from registry.exceptions import AttemptFailed, ModelCancelled, ModelFailed

from .chat import Answer, ModelToolCall, Question
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
    """`make(model_name)` returns the LangChain chat model, which is cached, as is each binding to a
    set of tools. `blocks`: its package has connections of its own, which hold a thread. `rehearsal`:
    a client that answers without a server.
    """

    def __init__(self, make: Any, *, takes_response_format: bool, blocks: bool = False, rehearsal: Any = None) -> None:
        self._make = lru_cache(maxsize=32)(make)
        self._takes_response_format = takes_response_format
        self._blocks = blocks
        self._rehearsal = rehearsal

    def warm(self, model_name: str, tools: Sequence[ToolSpec] = ()) -> None:
        model = self._make(model_name)
        more = bound(model, tuple(tools)) if tools else {}
        messages = [as_langchain(message) for message in REHEARSED]
        if self._rehearsal is not None:
            rehearsing = model.model_copy(update={"client": self._rehearsal})
            answer_from(rehearsing._generate(messages, **more).generations[0].message, "")
            list(rehearsing._stream(messages, **more))

    def ask(self, question: Question) -> Answer:
        return waits.on(BLOCKING, self._ask, question) if self._blocks else self._ask(question)

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
        return answer_from(generation.message, (generation.generation_info or {}).get("finish_reason", ""))

    def _listen(self, model: Any, messages: list[Any], question: Question) -> Answer:
        assert question.on_delta is not None
        whole = None
        for chunk in model._stream(messages, **self._arguments(model, question)):
            question.watch.check()
            whole = chunk if whole is None else whole + chunk
            if text := str(chunk.message.text):
                question.on_delta(text)
        if whole is None:
            raise AttemptFailed("cut_stream", "The model's answer was empty.", is_retryable=True)
        finish = (whole.generation_info or {}).get("finish_reason", "")
        if not finish and not whole.message.response_metadata.get("stop_reason"):
            raise AttemptFailed("cut_stream", "The model's answer was cut off.", is_retryable=True)
        return answer_from(whole.message, finish)

    def _arguments(self, model: Any, question: Question) -> dict[str, JSON]:
        more: dict[str, JSON] = {}
        if question.tools:
            more = dict(bound(model, tuple(question.tools)))
        if question.output_schema is not None and self._takes_response_format:
            more["extra_body"] = {"response_format": response_format(question.output_schema)}
        return more


_bound: dict[tuple[int, tuple[str, ...]], tuple[Any, dict[str, JSON]]] = {}


def bound(model: Any, tools: tuple[ToolSpec, ...]) -> dict[str, JSON]:
    """What `bind_tools` adds to a request, cached by the definitions of the tools."""
    key = (id(model), tuple(tool.definition_hash or tool.name for tool in tools))
    kept = _bound.get(key)
    if kept is None or kept[0] is not model:
        if len(_bound) > 4096:
            _bound.clear()
        kept = _bound[key] = (model, model.bind_tools([declaration(tool) for tool in tools]).kwargs)
    return kept[1]


def declaration(tool: ToolSpec) -> dict[str, JSON]:
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


def answer_from(message: Any, finish: str) -> Answer:
    usage = message.usage_metadata or {}
    return Answer(
        text=message.content if isinstance(message.content, str) else str(message.text),
        calls=tuple(calls_in(message)),
        input_tokens=usage.get("input_tokens", 0),
        output_tokens=usage.get("output_tokens", 0),
        finish=finish or message.response_metadata.get("stop_reason") or "",
        extra={"id": message.id} if message.id else {},
    )


def calls_in(message: Any) -> Iterable[ModelToolCall]:
    for number, call in enumerate(message.tool_calls):
        arguments = call["args"]
        problem = fault_in(arguments) if isinstance(arguments, dict) else "The arguments must be a JSON object."
        yield ModelToolCall(call.get("id") or f"call_{number}", call["name"], arguments if not problem else {}, problem)
    for number, broken in enumerate(message.invalid_tool_calls, start=len(message.tool_calls)):
        problem = f"The arguments are not valid JSON: {str(broken.get('args'))[:200]}"
        yield ModelToolCall(broken.get("id") or f"call_{number}", broken.get("name") or "", {}, problem)


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
