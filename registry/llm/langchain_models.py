"""Models behind LangChain: providers with an API of their own and a package that is worth it (Anthropic).

The history is normalised as for every provider, LangChain writes the request, and AnswerBuilder reads what its package
hands on. `_generate` and `_stream` are the extension points that every LangChain chat model implements. Calling them
directly skips the callback manager, which costs 0.2 ms a call and has nothing to report (docs/adr/0071). When LangChain
adds up the pieces of a stream, it completes JSON that was cut off; so we do that ourselves.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from agents.tools import ToolSpec
from registry.exceptions import AttemptFailed, ModelCancelled, ModelFailed

from .answer_builder import AnswerBuilder, CallPiece
from .chat import ANY, Answer, Question
from .completions import declare_tool, write_completion_content
from .errors import build_http_failure
from .history import normalise
from .watch import watching
from .wire_model import HELLO, with_instruction

log = logging.getLogger(__name__)
JSON = Any
# Signed blocks of thinking, which Anthropic wants back as they were.
THOUGHTS = "thoughts"


class LangChainModel:
    """`make(model_name)` returns the LangChain chat model, which is cached. What a request offers to the model (tools,
    a schema) is written anew each time: it belongs to one person's run, and costs 0.1 ms. `account` names the
    provider, so that what it wants back is sent to no other.
    """

    def __init__(self, make: Callable[[str], Any], *, account: str = "", splits_thinking: bool = True) -> None:
        self._make = lru_cache(maxsize=32)(make)
        self._account = account
        self._splits_thinking = splits_thinking

    def warm(self, model_name: str, tools: Sequence[ToolSpec] = ()) -> None:
        """Load what the first question needs, as far as that is possible without sending anything."""
        model = self._make(model_name)
        for message in normalise(HELLO):
            as_langchain(message)
        if tools:
            bind_tools(model, tools)

    def ask(self, question: Question) -> Answer:
        by = f"{self._account}/{question.model_name}"
        instructed = question.messages
        if question.output_schema is not None:
            instructed = with_instruction(instructed, question.output_schema)
        normalised = normalise(instructed, account=by)
        messages = [as_langchain(message) for message in normalised]
        builder = AnswerBuilder(question.on_delta, question.on_thought, splits_thinking=self._splits_thinking)
        try:
            with watching(question.watch):
                model = self._make(question.model_name)
                if question.on_delta:
                    self._listen(model, messages, question, builder)
                else:
                    self._wait(model, messages, question, builder)
        except (AttemptFailed, ModelFailed, ModelCancelled):
            raise
        # Each provider's package has its own exception classes; one place tells them apart.
        except Exception as error:
            raise classify_langchain_error(error) from error
        answer = builder.build()
        kept = {}
        if answer.kept:
            kept = {"by": by, **answer.kept}
        return replace(answer, kept=kept)

    def _wait(self, model: Any, messages: list[Any], question: Question, builder: AnswerBuilder) -> None:
        arguments = self._arguments(model, question)
        result = model._generate(messages, **arguments)
        generation = result.generations[0]
        message = generation.message
        add_message(builder, message)
        # Calls whose arguments LangChain could not read stand apart; the builder reports what is wrong with them.
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            piece = CallPiece.of(None, call.get("id"), call.get("name"), call.get("args"))
            builder.add_call(piece)
        finish = find_finish(generation)
        if not finish:
            finish = (result.llm_output or {}).get("stop_reason")
        builder.end(finish)

    def _listen(self, model: Any, messages: list[Any], question: Question, builder: AnswerBuilder) -> None:
        arguments = self._arguments(model, question)
        for chunk in model._stream(messages, **arguments):
            question.watch.check()
            message = chunk.message
            add_message(builder, message)
            pieces = []
            for one in message.tool_call_chunks:
                pieces.append(CallPiece.of(one["index"], one["id"], one["name"], one["args"]))
            builder.add_pieces(pieces)
            finish = find_finish(chunk)
            if finish:
                builder.end(finish)

    def _arguments(self, model: Any, question: Question) -> dict[str, JSON]:
        arguments: dict[str, JSON] = {}
        if question.tools:
            choices = build_tool_choices(question)
            arguments = bind_tools(model, question.tools, **choices)
        if question.stop:
            arguments = {**arguments, "stop": list(question.stop)}
        return arguments


def build_tool_choices(question: Question) -> dict[str, JSON]:
    """How the model may use the tools, in LangChain's words."""
    choices: dict[str, JSON] = {}
    if question.must_call:
        choices["tool_choice"] = "any" if question.must_call == ANY else question.must_call
    if question.is_one_call:
        choices["parallel_tool_calls"] = False
    return choices


def bind_tools(model: Any, tools: Sequence[ToolSpec], **choices: JSON) -> dict[str, JSON]:
    """What these tools add to a request, in the words of the model's provider."""
    declared = [declare_tool(tool) for tool in tools]
    arguments: dict[str, JSON] = model.bind_tools(declared, **choices).kwargs
    return arguments


def add_message(builder: AnswerBuilder, message: Any) -> None:
    """Add the text and the tokens of a message, or of a chunk of one, to the answer."""
    if isinstance(message.content, str):
        builder.add_text(message.content)
    else:
        for block in message.content:
            add_block(builder, block)
    # Counts are totals: of the prompt at the beginning of a stream, of the answer at its end.
    usage = message.usage_metadata or {}
    builder.input_tokens = max(builder.input_tokens, usage.get("input_tokens") or 0)
    builder.output_tokens = max(builder.output_tokens, usage.get("output_tokens") or 0)
    if message.id:
        builder.extra["id"] = message.id


def add_block(builder: AnswerBuilder, block: JSON) -> None:
    if isinstance(block, str):
        builder.add_text(block)
    elif block.get("type") == "text":
        builder.add_text(block.get("text") or "")
    elif block.get("type") in ("thinking", "redacted_thinking"):
        builder.add_reasoning(block.get("thinking") or "")
        builder.add_field(THOUGHTS, [block])


def find_finish(generation: Any) -> str:
    """Why the answer ended, in the provider's word; empty while it goes on."""
    places = (generation.generation_info or {}, generation.message.response_metadata or {})
    for place in places:
        for name in ("finish_reason", "stop_reason", "done_reason"):
            if place.get(name):
                return str(place[name])
        # Ollama's older servers give no reason.
        if place.get("done") is True:
            return "done"
    return ""


def as_langchain(message: dict[str, JSON]) -> Any:
    """One message of a normalised history as a LangChain message."""
    # A slow import: 0.8 s.
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    role = message["role"]
    content = write_completion_content(message["content"])
    if role == "user":
        return HumanMessage(content)
    if role == "system":
        return SystemMessage(content)
    if role == "tool":
        return ToolMessage(content, tool_call_id=message["tool_call_id"])
    calls = []
    for call in message.get("tool_calls") or ():
        calls.append({"id": call["id"], "name": call["name"], "args": call["arguments"], "type": "tool_call"})
    thoughts = message["fields"].get(THOUGHTS)
    if thoughts:
        blocks = []
        for thought in thoughts:
            block = dict(thought)
            # The place in the stream from which it was read; the server refuses it.
            block.pop("index", None)
            blocks.append(block)
        if content:
            blocks.append({"type": "text", "text": content})
        content = blocks
    return AIMessage(content, tool_calls=calls)


def classify_langchain_error(error: Exception) -> AttemptFailed:
    """An exception of a provider's package as an AttemptFailed, by its HTTP status or its cause."""
    for cause in causes(error):
        if isinstance(cause, AttemptFailed):
            return cause
        if isinstance(cause, ModelCancelled | ModelFailed):
            raise cause
        if isinstance(cause, json.JSONDecodeError):
            return AttemptFailed("bad_answer", "The model server's answer is not JSON.", is_retryable=True)
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if isinstance(status, int) and status >= 300:
        log.info("The model server refused a request", exc_info=error)
        response = getattr(error, "response", None)
        body = getattr(response, "content", b"")
        headers = getattr(response, "headers", None) or {}
        return build_http_failure(status, body, headers.get("retry-after", ""))
    log.warning("The package of a model provider raised an error", exc_info=error)
    # The packages share no class for this, but words in the names of their classes.
    name = type(error).__name__
    if any(word in name for word in ("Connection", "Timeout", "Protocol", "Network", "ReadError")):
        return AttemptFailed("model_unreachable", "The model server cannot be reached.", is_retryable=True)
    return AttemptFailed("model_error", "The model's answer could not be read; the server's log has the reason.")


def causes(error: BaseException | None) -> Iterable[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
