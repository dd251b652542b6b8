# Generated from _async/pages.py by client/generate.py: change that file, then run `make reference`.
"""Lists that are read page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from ..requests import Request, next_params
from .transport import Transport

Row = TypeVar("Row")


class Pages(Generic[Row]):
    """Iterate over it to read every row; pages are requested as they are needed."""

    def __init__(self, transport: Transport, path: str, params: Mapping[str, Any], build: Callable[[Any], Row]) -> None:
        self._transport = transport
        self._path = path
        self._params = params
        self._build = build

    def __iter__(self) -> Iterator[Row]:
        params: Mapping[str, Any] | None = self._params
        while params is not None:
            request = Request("GET", self._path, params={**self._params, **params})
            body = self._transport.json(request)
            for row in body["results"]:
                yield self._build(row)
            params = next_params(body.get("next"))

    def take(self, count: int) -> list[Row]:
        """The first rows, at most `count` of them."""
        rows: list[Row] = []
        if count > 0:
            self._params = {"limit": min(count, 500), **self._params}
            for row in self:
                rows.append(row)
                if len(rows) >= count:
                    break
        return rows


def keep_row(row: Any) -> Any:
    """What builds a row that stays a dictionary."""
    return row
