"""LiveAgent: a spec together with its model and tools, ready to answer. Holds no state of any run."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from time import perf_counter
from typing import Any

from agents.models import AgentSpec, Provider
from agents.models.provider import units
from agents.spec import ModelParams
from agents.tools import ToolSpec, never
from registry.llm.attempts import ask_model
from registry.llm.bids import Bid, bid
from registry.llm.chat import Answer, ChatModel, ModelToolCall, Question
from registry.llm.llms import chat_model
from registry.llm.stops import StopFilter, cut_before_stops
from registry.llm.watch import Watch

JSON = Any

__all__ = ["LiveAgent", "ModelReply", "ModelToolCall"]


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One answer of a model. `request` and `response` hold what was sent and received, without
    keys. `finish` says why it ended, in the server's word; `reasoning` and `kept` are those of Answer.
    """

    text: str
    tool_calls: tuple[ModelToolCall, ...]
    input_tokens: int
    output_tokens: int
    model_name: str
    attempts: int
    first_token_ms: float | None
    wall_ms: float
    request: dict[str, JSON]
    response: dict[str, JSON]
    finish: str = ""
    reasoning: str = ""
    kept: dict[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LiveAgent:
    """`tools` holds all granted tools by name. Whether a call may run is decided per call,
    elsewhere.
    """

    spec: AgentSpec
    hash: str
    tools: dict[str, ToolSpec]
    provider: Provider = field(repr=False)
    model: ChatModel = field(repr=False)

    @property
    def provider_name(self) -> str:
        return self.provider.name

    def reply(
        self,
        messages: list[dict[str, JSON]],
        *,
        tool_names: Collection[str] | None = None,
        extra_tools: Collection[ToolSpec] = (),
        output_schema: dict[str, JSON] | None = None,
        on_delta: Callable[[str], None] | None = None,
        on_thought: Callable[[str], None] | None = None,
        is_cancelled: Callable[[], bool] = never,
        deadline: datetime | None = None,
        max_tokens: int | None = None,
        must_call: str = "",
        is_one_call: bool = False,
        stop: Sequence[str] = (),
    ) -> ModelReply:
        """Ask the model once, with retries and fallbacks. The system prompt comes first unless
        there is one already.

        `max_tokens` is the longest answer that a budget has room for.

        `tool_names`: None offers all granted tools, () offers none. `extra_tools` are offered in
        addition. The answer is streamed only when `on_delta` is given; `on_thought` gets what the model
        thinks. `must_call`, `is_one_call` and `stop` are those of Question.

        Raises ModelFailed(code, message, attempts), or ModelCancelled within a second after
        `is_cancelled()` becomes true.
        """
        started = perf_counter()
        stopwatch = Stopwatch(started, on_delta)
        tools = (*self._offered(tool_names), *extra_tools)
        stop_filter = None
        if stop:
            stop_filter = StopFilter(stopwatch.hear, stop)
        listener = None
        if on_delta:
            # What stands behind a stop never reaches the listener.
            listener = (stop_filter or stopwatch).hear
        question = Question(
            model_name=self.spec.model_name,
            messages=self._prompted(messages),
            tools=tools,
            output_schema=output_schema,
            on_delta=listener,
            watch=Watch(is_cancelled, deadline),
            on_thought=on_thought,
            must_call=must_call,
            is_one_call=is_one_call,
            stop=stop,
        )
        model = self._model(max_tokens)
        answer, model_name, attempts = ask_model(model, question, self.spec.fallback_models)
        if stop_filter:
            stop_filter.end()
            answer = replace(answer, text=cut_before_stops(answer.text, stop))
        if is_one_call:
            answer = replace(answer, calls=answer.calls[:1])
        wall_ms = (perf_counter() - started) * 1000
        return ModelReply(
            text=answer.text,
            tool_calls=answer.calls,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            model_name=model_name,
            attempts=attempts,
            first_token_ms=stopwatch.first_ms,
            wall_ms=wall_ms,
            request=self._request(question),
            response=build_response(answer),
            finish=answer.finish,
            reasoning=answer.reasoning,
            kept=answer.kept,
        )

    def changed(self, spec: AgentSpec) -> "LiveAgent":
        """This agent with another spec, for one run. Its tools stay. Raises CannotBuild."""
        model = self.model_with(spec.model_params)
        return replace(self, spec=spec, model=model)

    def model_with(self, params: ModelParams) -> ChatModel:
        if params == self.spec.model_params:
            return self.model
        return chat_model(self.provider, params)

    def cost(self, model_name: str, input_tokens: int, output_tokens: int) -> Decimal:
        """US dollars."""
        return self.provider.cost(model_name, input_tokens, output_tokens)

    @property
    def window(self) -> int | None:
        """Tokens that its model reads; None if that is not known."""
        model = self.provider.known_model(self.spec.model_name)
        if model is None:
            return None
        return model.window

    def bid(
        self,
        messages: list[dict[str, JSON]],
        *,
        tool_names: Collection[str] | None = None,
        extra_tools: Collection[ToolSpec] = (),
        output_schema: dict[str, JSON] | None = None,
    ) -> Bid:
        """The most that `reply` may use when it is asked this, whichever of the models answers."""
        prompted = self._prompted(messages)
        tools = (*self._offered(tool_names), *extra_tools)
        max_tokens = self.spec.model_params.max_tokens
        return bid(prompted, tools, output_schema, max_tokens=max_tokens, cost=self._highest_cost)

    def _highest_cost(self, input_tokens: int, output_tokens: int) -> int:
        # Any of them may answer, so the dearest one counts.
        names = (self.spec.model_name, *self.spec.fallback_models)
        costs = [self.cost(name, input_tokens, output_tokens) for name in names]
        return max(map(units, costs))

    def _model(self, max_tokens: int | None) -> ChatModel:
        if max_tokens is None:
            return self.model
        params = self.spec.model_params.model_copy(update={"max_tokens": max_tokens})
        return self.model_with(params)

    def _prompted(self, messages: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
        prompt = self.spec.system_prompt
        if not prompt:
            return messages
        if messages and messages[0]["role"] == "system":
            return messages
        return [{"role": "system", "content": prompt}, *messages]

    def _offered(self, names: Collection[str] | None) -> tuple[ToolSpec, ...]:
        tools = self.tools
        if names is None:
            return tuple(tools.values())
        return tuple(tools[name] for name in names if name in tools)

    def _request(self, question: Question) -> dict[str, JSON]:
        params = self.spec.model_params.model_dump(exclude_none=True)
        tool_names = [tool.name for tool in question.tools]
        return {
            "model": question.model_name,
            "params": params,
            "messages": question.messages,
            "tools": tool_names,
            "output_schema": question.output_schema,
        }


class Stopwatch:
    """Records when the first piece of text arrived."""

    __slots__ = ("_listener", "_started", "first_ms")

    def __init__(self, started: float, listener: Callable[[str], None] | None) -> None:
        self._started = started
        self._listener = listener
        self.first_ms: float | None = None

    def hear(self, text: str) -> None:
        if self.first_ms is None:
            self.first_ms = (perf_counter() - self._started) * 1000
        if self._listener:
            self._listener(text)


def build_response(answer: Answer) -> dict[str, JSON]:
    calls = []
    for call in answer.calls:
        calls.append({"id": call.id, "name": call.name, "arguments": call.arguments})
    response = {"text": answer.text, "tool_calls": calls, "finish": answer.finish}
    # What the server says beside its answer, such as the id that it gave the answer.
    response.update(answer.extra)
    return response
