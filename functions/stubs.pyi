"""Types of what a stored function sees besides Python. Save this file as `__builtins__.pyi` in the folder of your
functions: Pyright and Pylance then know these names, and complete `ctx.` where it is annotated with `Context`.

In an `async def`, await what call, http, kv_get, kv_set and save_file return.
"""

from collections.abc import Iterator, Mapping
from typing import Any

class CallFailed(Exception):
    """The host refused a call, or the tool that was called failed."""

class HttpResponse:
    """What ctx.http returns."""

    status: int
    headers: Mapping[str, str]
    text: str
    url: str
    @property
    def ok(self) -> bool:
        """Whether the status says success."""

    def json(self) -> Any:
        """The body read as JSON. Raises ValueError."""

class Context(Mapping[str, Any]):
    """`ctx`: the data of the run, and what a function can ask of the host."""

    run: str | None
    agent: str
    user: int
    session: str | None
    chain: str
    step: str
    metadata: Mapping[str, Any]
    def call(self, name: str, arguments: Mapping[str, Any] | None = None, /, **keywords: Any) -> Any:
        """Call a granted function or tool by name."""

    def http(
        self,
        url: str,
        method: str = "GET",
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        body: str | None = None,
        auth: str | None = None,
        timeout: float | None = None,
    ) -> HttpResponse:
        """Ask the host to fetch an address on this function's list. `auth` names a secret that the host adds."""

    def kv_get(self, key: str, default: Any = None) -> Any:
        """A value that an earlier function of this run left."""

    def kv_set(self, key: str, value: Any) -> None:
        """Leave a JSON value for later functions of this run."""

    def save_file(self, name: str, data: str | bytes, media_type: str = "") -> Any:
        """Store text or bytes as a file of this run: {"file": id, "name", "media_type", "size"}."""

    def log(self, message: object, level: str = "info", **fields: Any) -> None:
        """Write a line into the run's record."""

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far the work is."""

    def get(self, key: str, default: Any = None) -> Any:
        """A value of the run's data."""

    def __getitem__(self, key: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
