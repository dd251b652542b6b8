"""A request as a value, before it is sent."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

# By the HTTP specification, and as Muster's API keeps it: PATCH sets fields to values, it never adds to one.
SAFE_TO_REPEAT = frozenset({"GET", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True)
class Request:
    """`path` is relative to `/api/v1/`; `json` is the body, None for none. With `files`, the body is a form
    (multipart/form-data) of these and of the texts in `form`.
    """

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    form: Mapping[str, str] | None = None
    files: Mapping[str, Any] | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether sending it twice has the effect of sending it once."""
        return self.method in SAFE_TO_REPEAT or "Idempotency-Key" in self.headers


def new_key() -> str:
    """An idempotency key: made once for each logical call, and sent with each attempt."""
    return str(uuid.uuid4())


def segment(value: object) -> str:
    """A name or an id as one segment of a path."""
    text = quote(str(value), safe="")
    if text in ("", ".", ".."):
        raise ValueError(f"{value!r} cannot stand in a path.")
    return text


def drop_unset(**values: Any) -> dict[str, Any]:
    """Without the values that were left out (None)."""
    return {name: value for name, value in values.items() if value is not None}


def next_params(address: str | None) -> dict[str, str] | None:
    """The parameters of the following page. The rest of the address is not used: the key goes to no
    other server than the one it belongs to.
    """
    if not address:
        return None
    return dict(parse_qsl(urlsplit(address).query))
