"""A model behind an HTTP endpoint: the history is normalised, a dialect writes the request, and the accumulator reads
the answer.

A dialect (completions.py, google.py, ollama.py) knows the words of one API and nothing else. What a server refuses in
a request that another one demands is left out in a second request, and is remembered for the model.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agents.tools import ToolSpec
from plumbing import json_values
from registry.exceptions import AttemptFailed

from .answer_builder import AnswerBuilder
from .chat import ANY, Answer, Question
from .history import normalise
from .watch import watching
from .wire import DONE, JSON, Endpoint

Listener = Callable[[str], Any]
HELLO: tuple[dict[str, JSON], ...] = (
    {"role": "system", "content": "Answer."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "call_0", "name": "hello", "arguments": {}}]},
    {"role": "tool", "content": "Hello", "tool_call_id": "call_0"},
)


@dataclass(frozen=True, slots=True)
class Request:
    """What a dialect writes down. `refused` names what this model's server does not accept (REFUSALS)."""

    model_name: str
    messages: Sequence[dict[str, JSON]]
    tools: Sequence[ToolSpec]
    output_schema: dict[str, JSON] | None
    is_streamed: bool
    refused: frozenset[str] = frozenset()
    must_call: str = ""
    is_one_call: bool = False
    stop: Sequence[str] = ()

    @property
    def forced(self) -> str:
        """The call that the server is asked to force, if it can."""
        if not self.tools or "tool_choice" in self.refused:
            return ""
        return self.must_call

    @property
    def has_no_parallel_calls(self) -> bool:
        # Without tools some servers refuse the option itself.
        if not self.is_one_call or not self.tools:
            return False
        return "parallel_tool_calls" not in self.refused


class Dialect(Protocol):
    # Whether a message of the model has to stand between results and the person's next message.
    bridges: bool
    # Whether its servers can be told that a tool must be called.
    forces_calls: bool

    def endpoint(self, request: Request) -> Endpoint: ...

    def write(self, request: Request) -> dict[str, JSON]: ...

    def read(self, builder: AnswerBuilder, event: dict[str, JSON]) -> None:
        """Add a whole answer, or an event of a stream, to the builder. Raises AttemptFailed."""

    def greetings(self) -> list[dict[str, JSON]]:
        """A short answer, for the rehearsal of a worker that has just started."""


def says(*words: str) -> re.Pattern[str]:
    either = "|".join(words)
    return re.compile(either, re.IGNORECASE)


# What some servers refuse in a request that others need: a name, and how a server says that it is this.
REFUSALS: dict[str, re.Pattern[str]] = {
    # DeepSeek and Kimi, where another model or an earlier run made the calls
    "absent_reasoning": says("reasoning_content.*(missing|must be passed|required)", "missing.*reasoning_content"),
    # Gemini, likewise
    "absent_signature": says("missing a `?thought_signature", "missing.*thought_?signature"),
    "kept": says("reasoning_content", "reasoning_details", "thinking_blocks", "extra_content", "thought_signature"),
    "short_ids": says(
        "tool[ _]call[ _]?id.*(length of 9|a-z, A-Z, 0-9)", r"tool_calls?\W.*\bid\b.*(too long|maximum length)"
    ),
    "stream_options": says("stream_options", "include_usage"),
    "max_tokens": says("max_completion_tokens", "max_tokens.*(not supported|unsupported|unrecognized|extra)"),
    "system": says(
        r"system (role|message|prompt|instruction)s?\W.*not (supported|enabled|allowed)",
        "developer instruction is not",
    ),
    "parallel_tool_calls": says("parallel_?tool_?calls"),
    "tool_choice": says("tool_?choice"),
    "stop": says(r"\bstop\b.*(not supported|unsupported|unrecognized|not permitted)", "unsupported.*'stop'"),
    "response_format": says("response_?format", "json_schema", "structured output", "guided", "grammar"),
    # The last one: other errors have the word “include” too.
    "encrypted_reasoning": says("encrypted content is not supported", r"reasoning\.encrypted_content", r"\binclude\b"),
}
IS_REFUSAL = frozenset([400, 404, 415, 422, 500, 501])


class WireModel:
    """`account` names the provider, so that what it wants back is sent to no other."""

    def __init__(self, dialect: Dialect, *, account: str = "", splits_thinking: bool = True) -> None:
        self._dialect = dialect
        self._account = account
        self._splits_thinking = splits_thinking
        # By the name of the model.
        self._refused: dict[str, frozenset[str]] = {}
        # Models whose template opens the block of thoughts.
        self._opened: set[str] = set()

    def warm(self, model_name: str, tools: Sequence[ToolSpec] = ()) -> None:
        """Run once through what the first question needs, without sending anything."""
        dialect = self._dialect
        messages = normalise(HELLO, bridges=dialect.bridges)
        request = Request(model_name, messages, tools, None, is_streamed=True)
        dialect.write(request)
        builder = self._builder(model_name, str)
        for event in dialect.greetings():
            dialect.read(builder, event)
        builder.build()

    def ask(self, question: Question) -> Answer:
        refused = self._refused.get(question.model_name, frozenset())
        with watching(question.watch):
            while True:
                try:
                    return self._exchange(question, refused)
                except AttemptFailed as error:
                    name = find_refusal(error, refused)
                    if name is None:
                        raise
                    refused |= {name}
                    self._refused[question.model_name] = refused

    def _exchange(self, question: Question, refused: frozenset[str]) -> Answer:
        by = f"{self._account}/{question.model_name}"
        output_schema = question.output_schema
        if "response_format" in refused:
            output_schema = None
        request = Request(
            model_name=question.model_name,
            messages=self._write_messages(question, refused, by),
            tools=question.tools,
            output_schema=output_schema,
            is_streamed=question.on_delta is not None,
            refused=refused,
            must_call=question.must_call,
            is_one_call=question.is_one_call,
            stop=question.stop,
        )
        builder = self._builder(question.model_name, question.on_delta, question.on_thought, question.tools)
        endpoint = self._dialect.endpoint(request)
        body = self._dialect.write(request)
        # Left early, the connection is closed, so that a cancelled run stops the model's work.
        with closing(endpoint.events(body)) as events:
            self._read(builder, events, question.watch.check)
        answer = builder.build()
        if builder.was_open:
            self._opened.add(question.model_name)
        kept = {}
        if answer.kept:
            kept = {"by": by, **answer.kept}
        return replace(answer, kept=kept)

    def _write_messages(self, question: Question, refused: frozenset[str], by: str) -> Sequence[dict[str, JSON]]:
        messages = question.messages
        if question.output_schema is not None and "response_format" in refused:
            messages = with_instruction(messages, question.output_schema)
        is_not_forced = "tool_choice" in refused or not self._dialect.forces_calls
        if question.must_call and question.tools and is_not_forced:
            messages = add_call_order(messages, question.must_call)
        account = by
        if "kept" in refused:
            # Nobody's fields are sent.
            account = ""
        return normalise(
            messages,
            account=account,
            bridges=self._dialect.bridges,
            has_short_ids="short_ids" in refused,
            has_system="system" not in refused,
        )

    def _builder(
        self, model_name: str, hear: Listener | None, think: Listener | None = None, tools: Sequence[ToolSpec] = ()
    ) -> AnswerBuilder:
        without_parameters = []
        for tool in tools:
            schema = tool.input_schema or {}
            if not schema.get("properties"):
                without_parameters.append(tool.name)
        return AnswerBuilder(
            hear,
            think,
            splits_thinking=self._splits_thinking,
            is_open=model_name in self._opened,
            without_parameters=without_parameters,
        )

    def _read(self, builder: AnswerBuilder, events: Any, check: Callable[[], None]) -> None:
        try:
            for event in events:
                check()
                if event is DONE:
                    builder.end("")
                    return
                self._dialect.read(builder, event)
        except AttemptFailed as error:
            # Some servers close the connection without a word once they have sent the finish reason.
            if error.code != "cut_stream" or not builder.has_ended:
                raise


def find_refusal(error: AttemptFailed, refused: frozenset[str]) -> str | None:
    """What the next request has to leave out, or None if that would not help."""
    if error.status not in IS_REFUSAL or error.code not in ("model_refused", "model_unavailable"):
        return None
    for name, pattern in REFUSALS.items():
        if name not in refused and pattern.search(error.message):
            return name
    return None


def with_instruction(messages: Sequence[dict[str, JSON]], schema: dict[str, JSON]) -> list[dict[str, JSON]]:
    """For servers without a response format: the schema as a last system instruction."""
    shape = json_values.dump_json(schema).decode()
    text = f"Answer only with JSON that matches this JSON Schema, without a code fence:\n{shape}"
    return [*messages, {"role": "system", "content": text}]


def add_call_order(messages: Sequence[dict[str, JSON]], must_call: str) -> list[dict[str, JSON]]:
    """For servers that cannot force a call: the order as a last system instruction."""
    tool = f"the tool {must_call}"
    if must_call == ANY:
        tool = "one of the tools"
    text = f"Answer with a call of {tool}, not with text."
    return [*messages, {"role": "system", "content": text}]


def declare_parameters(tool: ToolSpec) -> dict[str, JSON]:
    """A tool's schema; some servers refuse one without `properties`."""
    schema = tool.input_schema or {}
    if schema.get("type", "object") != "object":
        return schema
    return {"type": "object", "properties": {}, **schema}
