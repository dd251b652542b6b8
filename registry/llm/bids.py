"""The most a model call may use, known before it is made. Plain Python."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.tools import ToolSpec
from plumbing import json_values

LONGEST_ANSWER = 8192  # output tokens held for a call whose agent sets no max_tokens
IMAGE_TOKENS = 3000  # an image takes fewer, whatever its size in bytes
MESSAGE_TOKENS = 16  # role markers and the like around each message
TOOL_PROMPT_TOKENS = 600  # what providers add to the prompt where tools are offered
LIKELY_BYTES = 3  # English text has more than four bytes a token, code and JSON about three


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
    size += 2 * sum(len(tool.description) + len(json_values.dump_json(tool.input_schema)) for tool in tools)
    images = IMAGE_TOKENS * sum(count_images(message.get("content")) for message in messages)
    extra = MESSAGE_TOKENS * len(messages) + (TOOL_PROMPT_TOKENS if tools else 0)
    return Bid(
        most_input=size + images + extra,
        likely_input=size // LIKELY_BYTES + images,
        most_output=max_tokens or LONGEST_ANSWER,
        is_fixed=max_tokens is not None,
        cost=cost,
    )


def count_images(content: Any) -> int:
    return 0 if isinstance(content, str) else sum(part.get("type") == "image" for part in content or ())
