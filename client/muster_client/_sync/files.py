# Generated from _async/files.py by client/generate.py: change that file, then run `make reference`.
"""Files: uploads and downloads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ..requests import Request, segment
from .collections import Deletable

if TYPE_CHECKING:
    from .. import types


class Files(Deletable["types.File"]):
    def create(self, row: types.FileRequest) -> types.File:
        """Store a text, or bytes in base64. `upload` is for large files."""
        return cast("types.File", self._transport.json(Request("POST", f"{self._path}/", json=row)))

    def upload(
        self, content: Path | BinaryIO | bytes, *, name: str = "", media_type: str = "", untrusted: bool = True
    ) -> types.File:
        """Store a file, read from this path or this open file. `name` is by default that of the file. `untrusted`:
        whether it may contain text written by others.
        """
        if isinstance(content, Path):
            with content.open("rb") as opened:
                return self._send(opened, name or content.name, media_type, untrusted)
        return self._send(content, name or Path(str(getattr(content, "name", "file"))).name, media_type, untrusted)

    def content(self, key: str) -> bytes:
        """The content of a file."""
        response = self._transport.send(Request("GET", f"{self._path}/{segment(key)}/content"))
        return response.content

    def _send(self, content: Any, name: str, media_type: str, untrusted: bool) -> types.File:
        form = {"name": name, "untrusted": "true" if untrusted else "false"}
        if media_type:
            form["media_type"] = media_type
        request = Request("POST", f"{self._path}/", form=form, files={"file": (name, content)})
        return cast("types.File", self._transport.json(request))
