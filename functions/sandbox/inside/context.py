"""`ctx`: the requests that a function can make to the host. Data is read-only; everything else is a
call over the job socket.

Names for the sandbox's own use have two leading and trailing underscores, which source may not
read.
"""

from __future__ import annotations

import json as _json
from binascii import b2a_base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .channel import CALLS, NOTICE, Channel
from .quota import CallFailed, Quota

# Bytes of a file that are sent at once.
_PIECE = 128 << 10


class HttpResponse:
    """The response of ctx.http."""

    __slots__ = ("status", "headers", "text", "url")

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.status: int = answer.get("status", 0)
        self.headers = MappingProxyType(dict(answer.get("headers") or {}))
        self.text: str = answer.get("text") or ""
        self.url: str = answer.get("url") or ""

    @property
    def ok(self) -> bool:
        """Whether the status is a success."""
        return 200 <= self.status < 400

    def json(self) -> Any:
        """The body parsed as JSON. Raises ValueError."""
        return _json.loads(self.text)


class Requester:
    """Sends one request and waits for its answer; the event loop without descriptors replaces this
    function.
    """

    def __init__(self, channel: Channel, quota: Quota) -> None:
        self.__channel__ = channel
        self.__quota__ = quota
        self.__count__ = 0

    def __ask__(self, operation: str, payload: dict[str, Any], shape: Any) -> Any:
        """Convert the answer. Raises CallFailed."""
        self.__count__ += 1
        self.__channel__.send(CALLS, b"[" + self.__quota__.request(self.__count__, operation, payload) + b"]")
        _, succeeded, value = self.__channel__.answers()[0]
        if not succeeded:
            raise CallFailed(str(value))
        return shape(value)

    def __tell__(self, operation: str, payload: dict[str, Any]) -> None:
        """Send a message that has no answer."""
        notice = self.__quota__.notice(operation, payload)
        if notice is not None:
            self.__channel__.send(NOTICE, notice)


class Context:
    """The context of a function. In an `async def`, call, http, kv_get, kv_set and save_file must
    be awaited; in a plain `def` they return directly.
    """

    __slots__ = ("__data__", "__requester__")

    def __init__(self, data: Mapping[str, Any], requester: Any) -> None:
        object.__setattr__(self, "__data__", _frozen(data))
        object.__setattr__(self, "__requester__", requester)

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, /, **keywords: Any) -> Any:
        """Call a granted function or tool by name."""
        payload = {"name": name, "arguments": {**(arguments or {}), **keywords}}
        return self.__requester__.__ask__("call", payload, _as_it_is)

    def http(
        self, url: str, method: str = "GET", *, headers: Any = None, params: Any = None, json: Any = None,
        body: str | None = None, auth: str | None = None, timeout: float | None = None,
    ) -> Any:  # fmt: skip
        """Fetch an address on this function's list of hosts. `auth` names a secret that the host
        adds.
        """
        request = {"url": url, "method": method, "headers": headers, "params": params, "json": json, "body": body,
                   "auth": auth, "timeout": timeout}  # fmt: skip
        return self.__requester__.__ask__("http", request, HttpResponse)

    def kv_get(self, key: str, default: Any = None) -> Any:
        """A value stored by an earlier function of this run."""
        return self.__requester__.__ask__("kv_get", {"key": key}, lambda value: default if value is None else value)

    def kv_set(self, key: str, value: Any) -> Any:
        """Store a JSON value for later functions of this run."""
        return self.__requester__.__ask__("kv_set", {"key": key, "value": value}, _as_it_is)

    def save_file(self, name: str, data: str | bytes, media_type: str = "") -> Any:
        """Store text or bytes as a file of this run. Returns {"file": id, "name", "media_type", "size"}."""
        if isinstance(data, str):
            data = data.encode()
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError("the data of a file must be str or bytes")
        last = _send_ahead(self.__requester__, bytes(data))
        payload = {"name": str(name), "media_type": str(media_type), "data": last}
        return self.__requester__.__ask__("save_file", payload, _as_it_is)

    def log(self, message: object, level: str = "info", **fields: Any) -> None:
        """Add a line to the run's log."""
        self.__requester__.__tell__("log", {"message": str(message), "level": level, "fields": fields})

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report progress."""
        self.__requester__.__tell__("progress", {"done": done, "total": total, "message": str(message)})

    def get(self, key: str, default: Any = None) -> Any:
        """A value of the context's data."""
        return self.__data__.get(key, default)

    def __getitem__(self, key: str) -> Any:
        return self.__data__[key]

    def __contains__(self, key: object) -> bool:
        return key in self.__data__

    def __iter__(self) -> Any:
        return iter(self.__data__)

    def __len__(self) -> int:
        return len(self.__data__)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__data__[name]
        except KeyError:
            raise AttributeError(f"the context has no {name}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("the context is read-only")


def _send_ahead(requester: Any, content: bytes) -> str:
    """Send all but the last piece of a file before the request to store it, and return the last one."""
    while len(content) > _PIECE:
        number, piece = requester.__count__ + 1, _base64(content[:_PIECE])
        requester.__channel__.send(NOTICE, requester.__quota__.part(number, piece))
        content = content[_PIECE:]
    return _base64(content)


def _base64(piece: bytes) -> str:
    return b2a_base64(piece, newline=False).decode()


def _as_it_is(value: Any) -> Any:
    return value


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({key: _frozen(item) for key, item in value.items()})
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value
