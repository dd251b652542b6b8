"""Files: uploads and downloads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..requests import Request, segment
from .collections import AsyncDeletable

if TYPE_CHECKING:
    from .. import types


class AsyncFiles(AsyncDeletable["types.File"]):
    async def create(self, row: types.FileRequest) -> types.File:
        """Store a text, or bytes in base64. `upload` is for large files."""
        request = Request("POST", f"{self._path}/", json=row)
        file: types.File = await self._transport.json(request)
        return file

    async def upload(
        self, content: Path | BinaryIO | bytes, *, name: str = "", media_type: str = "", untrusted: bool = True
    ) -> types.File:
        """Store a file, read from this path or this open file. `name` is by default that of the file. `untrusted`:
        whether it may contain text written by others.
        """
        if isinstance(content, Path):
            with content.open("rb") as opened:
                return await self._send(opened, name or content.name, media_type, untrusted)
        # An open file names its path, or a number; bytes have no name.
        path = str(getattr(content, "name", "file"))
        return await self._send(content, name or Path(path).name, media_type, untrusted)

    async def content(self, key: str) -> bytes:
        """The content of a file."""
        request = Request("GET", f"{self._path}/{segment(key)}/content")
        response = await self._transport.send(request)
        return response.content

    async def _send(self, content: Any, name: str, media_type: str, untrusted: bool) -> types.File:
        form = {"name": name, "untrusted": "true" if untrusted else "false"}
        if media_type:
            form["media_type"] = media_type
        request = Request("POST", f"{self._path}/", form=form, files={"file": (name, content)})
        file: types.File = await self._transport.json(request)
        return file
