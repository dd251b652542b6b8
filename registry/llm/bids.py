"""The most a model call may use, known before it is made. Plain Python."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.tools import ToolSpec
from plumbing import json_values

# Output tokens held for a call whose agent sets no max_tokens.
LONGEST_ANSWER = 8192
# An image takes fewer, whatever its size in bytes.
IMAGE_TOKENS = 3000
# Role markers and the like around each message.
MESSAGE_TOKENS = 16
# What providers add to the prompt where tools are offered.
TOOL_PROMPT_TOKENS = 600
# English text has more than four bytes a token, code and JSON about three.
LIKELY_BYTES = 3


@dataclass(frozen=True, slots=True)
class Bid:
    """One model call. `most_input` is an upper bound, `likely_input` an estimate on the high side.

    `most_output` may be lowered where it is not `is_fixed` by the agent. `cost(input, output)` gives hundred-millionths
    of a US dollar.
    """

    most_input: int
    likely_input: int
    most_output: int
    is_fixed: bool
    cost: Callable[[int, int], int]


def bid(
    messages: Sequence[dict[str, Any]],
    tools: Sequence[ToolSpec],
    output_schema: Any,
    *,
    max_tokens: int | None,
    cost: Callable[[int, int], int],
) -> Bid:
    """A token of a byte-level tokenizer has at least one byte, so the request's bytes bound its tokens."""
    size = len(json_values.dump_json([messages, output_schema]))
    for tool in tools:
        size += 2 * (len(tool.description) + len(json_values.dump_json(tool.input_schema)))
    images = 0
    for message in messages:
        images += IMAGE_TOKENS * count_images(message.get("content"))
    extra = MESSAGE_TOKENS * len(messages)
    if tools:
        extra += TOOL_PROMPT_TOKENS
    return Bid(
        most_input=size + images + extra,
        likely_input=size // LIKELY_BYTES + images,
        most_output=max_tokens or LONGEST_ANSWER,
        is_fixed=max_tokens is not None,
        cost=cost,
    )


def count_images(content: Any) -> int:
    if isinstance(content, str) or not content:
        return 0
    return sum(part.get("type") == "image" for part in content)
