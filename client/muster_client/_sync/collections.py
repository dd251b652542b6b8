# Generated from _async/collections.py by client/generate.py: change that file, then run `make reference`.
"""Rows by name or id: what most kinds of rows can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..requests import Request, drop_unset, segment
from .pages import Pages, keep_row
from .transport import Transport

if TYPE_CHECKING:
    from .. import types

Row = TypeVar("Row")
New = TypeVar("New")
Changes = TypeVar("Changes")


class Readable(Generic[Row]):
    """A list, and one row of it. Rows are dictionaries with the fields of the API's documents."""

    def __init__(self, transport: Transport, path: str) -> None:
        self._transport = transport
        self._path = path

    def list(self, **filters: Any) -> Pages[Row]:
        """`limit` is the size of a page. An unknown filter is refused (InvalidError)."""
        return Pages(self._transport, f"{self._path}/", filters, keep_row)

    def get(self, key: str | int) -> Row:
        row: Row = self._call("GET", key)
        return row

    def _call(self, method: str, key: str | int, *more: str, json: Any = None, **params: Any) -> Any:
        """A request to a row, or to what stands below it."""
        path = "/".join([self._path, segment(key), *more])
        return self._transport.json(Request(method, path, params=params, json=json))


class Deletable(Readable[Row]):
    """Rows that can be deleted, and are made in another way."""

    def delete(self, key: str | int) -> None:
        self._call("DELETE", key)


class Collection(Deletable[Row], Generic[Row, New, Changes]):
    """Rows that can be created and changed."""

    def create(self, row: New) -> Row:
        request = Request("POST", f"{self._path}/", json=row)
        created: Row = self._transport.json(request)
        return created

    def update(self, key: str | int, changes: Changes) -> Row:
        """Change these fields and keep the others."""
        row: Row = self._call("PATCH", key, json=changes)
        return row


class Replaceable(Collection[Row, New, Changes], Generic[Row, New, Changes]):
    """Rows of which all fields can be given at once."""

    def replace(self, key: str | int, row: New) -> Row:
        """Give the row these fields; those that are left out get their defaults."""
        replaced: Row = self._call("PUT", key, json=row)
        return replaced


class Versioned(Replaceable[Row, New, Changes], Generic[Row, New, Changes]):
    """Working rows whose content becomes an immutable, numbered version when it is published."""

    def publish(self, name: str, *, note: str = "") -> types.Published:
        """Make the working row live. Equal content gives the same version again."""
        body = drop_unset(note=note or None)
        version: types.Published = self._call("POST", name, "publish", json=body)
        return version

    def rollback(self, name: str, version: int) -> types.Published:
        """Make an earlier version live again."""
        body = {"version": version}
        published: types.Published = self._call("POST", name, "rollback", json=body)
        return published

    def versions(self, name: str) -> Pages[types.Version]:
        """Newest first."""
        path = f"{self._path}/{segment(name)}/versions/"
        return Pages(self._transport, path, {}, keep_row)

    def diff(self, name: str, old: int, new: int) -> types.Diff:
        """What changed between two versions."""
        params = {"from": old, "to": new}
        difference: types.Diff = self._call("GET", name, "diff", **params)
        return difference
