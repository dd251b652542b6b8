"""The types in which every kind of model answers. Plain Python."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agents.tools import ToolSpec

from .watch import Watch

JSON = Any
# The model has to call a tool, whichever.
ANY = "required"


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    """A tool call as the model wrote it. `problem` says why it must not be made: its arguments cannot be read, or its
    answer was cut off.
    """

    id: str
    name: str
    arguments: dict[str, JSON]
    problem: str = ""
    is_cut_off: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A request to a model. `on_delta` receives text as it arrives, and without it nothing is streamed; `on_thought`
    receives what the model thinks. `must_call`: ANY, or the name of the tool that has to be called; empty if the model
    decides. `is_one_call`: at most one call in the answer. `stop`: texts at which the answer ends.
    """

    model_name: str
    messages: Sequence[dict[str, JSON]]
    tools: Sequence[ToolSpec]
    output_schema: dict[str, JSON] | None
    on_delta: Callable[[str], None] | None
    watch: Watch
    on_thought: Callable[[str], None] | None = None
    must_call: str = ""
    is_one_call: bool = False
    stop: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """`reasoning` is what the model thought, as far as its server shows it. `kept` is what the server wants back with
    this answer in the next request: {"by", "fields", "calls"} (history.py).
    """

    text: str
    calls: tuple[ModelToolCall, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    finish: str = ""
    extra: dict[str, JSON] = field(default_factory=dict)
    reasoning: str = ""
    kept: dict[str, JSON] = field(default_factory=dict)


class ChatModel(Protocol):
    """The models of one account. Raises AttemptFailed, ModelFailed or ModelCancelled."""

    def ask(self, question: Question) -> Answer: ...

    def warm(self, model_name: str, tools: Sequence[ToolSpec] = ()) -> None:
        """Load the packages that the first question with these tools needs. Nothing is sent."""


def get_content_text(content: Any) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or () if part.get("type") == "text")
