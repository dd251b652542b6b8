"""Anthropic's model of LangChain, with the tokens that a stream counts at its beginning.

LangChain's package counts only what the last event of a stream says. Proxies, and Anthropic's older servers, say there
how long the answer was, and tell the length of the prompt once, in `message_start`.
"""

from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.messages.ai import UsageMetadata

from .completions import count_tokens

KINDS_OF_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class CountingAnthropic(ChatAnthropic):
    def _make_message_chunk_from_anthropic_event(self, event: Any, **more: Any) -> Any:
        chunk, block = super()._make_message_chunk_from_anthropic_event(event, **more)
        if event.type == "message_start" and chunk is not None:
            chunk.usage_metadata = read_anthropic_usage(event.message.usage)
        return chunk, block


def read_anthropic_usage(usage: Any) -> UsageMetadata:
    """What a `message_start` counts; 0 where it counts nothing."""
    prompt = 0
    for name in KINDS_OF_INPUT:
        prompt += count_tokens(getattr(usage, name, None))
    answer = count_tokens(getattr(usage, "output_tokens", None))
    return UsageMetadata(input_tokens=prompt, output_tokens=answer, total_tokens=prompt + answer)
