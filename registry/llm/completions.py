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


def body_of(payload: dict[str, JSON]) -> dict[str, JSON]:
    """The request body: `extra_body` is merged in as the SDK does; `stream` is sent only when
    requested.
    """
    extra = payload.pop("extra_body", None) or {}
    if not payload.get("stream"):
        payload.pop("stream", None)
    return {**payload, **extra}
