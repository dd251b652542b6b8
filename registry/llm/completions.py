"""The client object that ChatOpenAI calls: the interface of the OpenAI SDK on our own HTTP
connection.

LangChain's `client` field accepts any object with `create` and `with_raw_response.create`; answers
may be plain dicts.
"""

from collections.abc import Iterator
from typing import Any

from .wire import JSON, Endpoint


class Completions:
    """`create(stream=True)` yields chunks as dicts; `with_raw_response.create` returns a completion
    as a dict.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.with_raw_response = RawCompletions(endpoint)

    def create(self, **payload: JSON) -> "ChunkStream":
        return ChunkStream(self._endpoint.events(body_of(payload)))


class RawCompletions:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def create(self, **payload: JSON) -> "Parsed":
        return Parsed(self._endpoint.post(body_of(payload)))


class Parsed:
    headers: dict[str, str] = {}

    def __init__(self, body: dict[str, JSON]) -> None:
        self._body = body

    def parse(self) -> dict[str, JSON]:
        return self._body


class ChunkStream:
    """Closes its connection when it is left early, so that a cancelled run stops the model's work."""

    def __init__(self, chunks: Iterator[JSON]) -> None:
        self._chunks = chunks

    def __enter__(self) -> Iterator[JSON]:
        return self._chunks

    def __exit__(self, *_: Any) -> None:
        self._chunks.close()  # type: ignore[attr-defined]


class Rehearsal:
    """Answers like a server that says hello and asks for a call, without one."""

    def __init__(self) -> None:
        self.with_raw_response = RawRehearsal()

    def create(self, **_: JSON) -> ChunkStream:
        return ChunkStream(chunk for chunk in ({**HELLO, "choices": [{"index": 0, "delta": SAID}]},))


class RawRehearsal:
    def create(self, **_: JSON) -> Parsed:
        return Parsed({**HELLO, "choices": [{"index": 0, "message": SAID, "finish_reason": "tool_calls"}]})


CALL = {"index": 0, "id": "call_0", "type": "function", "function": {"name": "hello", "arguments": "{}"}}
SAID = {"role": "assistant", "content": "Hello", "tool_calls": [CALL]}
HELLO = {"id": "0", "model": "", "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}


def body_of(payload: dict[str, JSON]) -> dict[str, JSON]:
    """The request body: `extra_body` is merged in as the SDK does; `stream` is sent only when
    requested.
    """
    extra = payload.pop("extra_body", None) or {}
    if not payload.get("stream"):
        payload.pop("stream", None)
    return {**payload, **extra}
