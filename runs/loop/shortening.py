"""A conversation that is longer than its model can read: what is left out, so that the run goes on.

First less of the session's earlier messages is shown, by the agent's own rule (`session_context`): the oldest are
summarised or left out. Then long results of this run are cut. The rows stay as they are.
"""

from typing import Any

from agents.models import AgentSpec
from runs.models.session import MOST_AT_ONCE

JSON = Any
MOST_TOKENS = 2_000_000  # of a conversation that is sent whole
CHARS_PER_TOKEN = 5  # a token has rarely more
MOST = 4  # times that one run is shortened
SHARE = 4  # of the tokens for earlier messages, one in so many remains
RESULT_LIMITS = (8_000, 1_000)  # characters of a result, the first time and later


def all_context(spec: AgentSpec) -> AgentSpec:
    """The spec for a conversation whose caller sends all of it each time: nothing that fits the model is left out."""
    if spec.session_context == "none":
        return spec
    most = {"context_messages": MOST_AT_ONCE, "context_tokens": MOST_TOKENS}
    return spec.model_copy(update={"session_context": "last_n", **most})


def less_context(spec: AgentSpec, times: int) -> AgentSpec:
    """The spec with room for fewer earlier messages: a quarter of it, then a sixteenth, then none."""
    if times >= 3:
        return spec.model_copy(update={"session_context": "none"})
    return spec.model_copy(update={"context_tokens": max(spec.context_tokens // SHARE**times, 1)})


def cut_results(messages: list[dict[str, JSON]], times: int) -> list[dict[str, JSON]]:
    limit = RESULT_LIMITS[min(times, len(RESULT_LIMITS)) - 1]
    return [cut_result(message, limit) for message in messages]


def cut_result(message: dict[str, JSON], limit: int) -> dict[str, JSON]:
    text = message["content"]
    if message["role"] != "tool" or not isinstance(text, str) or len(text) <= limit:
        return message
    return {**message, "content": f"{text[:limit]}\n[cut: {len(text) - limit} more characters]"}


def is_too_long(messages: list[dict[str, JSON]], window: int | None) -> bool:
    """Whether this is certainly more than a model with this window can read. Only its server knows exactly how much is
    too much.
    """
    if window is None:
        return False
    characters = sum(count_characters(message) for message in messages)
    return characters > window * CHARS_PER_TOKEN


def count_characters(message: dict[str, JSON]) -> int:
    """The characters of its text and its calls. Images are not counted: their tokens do not depend on their bytes."""
    content = message.get("content") or ""
    if isinstance(content, str):
        count = len(content)
    else:
        count = sum(len(part.get("text") or "") for part in content)
    if calls := message.get("tool_calls"):
        count += len(str(calls))
    return count


def measure_messages(messages: list[dict[str, JSON]]) -> int:
    return sum(len(str(message)) for message in messages)
