"""Lists the shared folders and reads files in them. Never writes."""

import codecs
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Annotated, Any

from .. import documents, stopping
from ..exceptions import ToolRefused
from ..text import sendable
from ..workspace import DIRECTORY, Opened, Workspace, kind_of

JSON = Any
MAX_ENTRIES = 1000
MAX_SCANNED = 50_000
MAX_DEPTH = 32
DEFAULT_LENGTH = 65_536
MAX_LENGTH = 262_144
HEAD = 8192


def list_directory(
    workspace: Workspace,
    path: str = ".",
    recursive: bool = False,
    extensions: list[str] | None = None,
    modified_since: Annotated[str, "date-time"] | None = None,
    limit: int = 200,
) -> dict[str, JSON]:
    """List the files and folders in a folder, with type, size and time of last change. Paths are relative to the
    shared folder; “.” is its top.

    Args:
        path: the folder, such as "." or "reports/2026"
        recursive: also list what is in folders below it
        extensions: only files with one of these endings, such as [".md", ".txt"]; folders are always listed
        modified_since: only files changed after this time (RFC 3339)
        limit: how many entries to list, at most 1000
    """
    since = time_of(modified_since) if modified_since else None
    endings = tuple("." + ending.lower().lstrip(".") for ending in extensions or ())
    if workspace.is_top(path):
        roots: list[dict[str, JSON]] = [{"path": name, "type": "folder"} for name in sorted(workspace.roots)]
        return {"path": ".", "entries": roots, "truncated": False, "skipped": 0}
    with workspace.open(path) as opened:
        if not opened.is_directory:
            raise ToolRefused("not_a_folder", f"“{path}” is a file: read it with read_file_content")
        prefix = "/".join(part for part in path.split("/") if part not in ("", "."))
        listing = Listing(endings, since, max(1, min(limit, MAX_ENTRIES)))
        listing.read(os.dup(opened.fd), prefix, depth=MAX_DEPTH if recursive else 0)
    listing.entries.sort(key=lambda entry: entry["path"])
    return {
        "path": path,
        "entries": listing.entries,
        "truncated": listing.is_full,
        "skipped": listing.skipped,
    }


@dataclass
class Listing:
    """Collects entries of a folder, and of the folders below it, up to the limit."""

    endings: tuple[str, ...]
    since: float | None
    limit: int

    def __post_init__(self) -> None:
        self.entries: list[dict[str, JSON]] = []
        self.skipped = 0  # unreadable folders, files that disappeared, and names that are not text
        self.scanned = 0
        self.is_full = False

    def read(self, fd: int, prefix: str, depth: int) -> None:
        """Takes ownership of the descriptor."""
        below = []
        try:
            for entry in self.scan(fd):
                if (info := info_of(entry)) is None:
                    self.skipped += 1
                    continue
                path = f"{prefix}/{entry.name}".lstrip("/")
                if stat.S_ISDIR(info.st_mode):
                    below.append((entry.name, path))
                if self.wants(entry.name, info):
                    self.entries.append(described(path, info))
            for name, path in below if depth else ():
                self.descend(fd, name, path, depth - 1)
        finally:
            os.close(fd)

    def scan(self, fd: int) -> Iterator[os.DirEntry[str]]:
        with os.scandir(fd) as entries:
            for entry in entries:
                stopping.check()
                self.scanned += 1
                if len(self.entries) >= self.limit or self.scanned > MAX_SCANNED:
                    self.is_full = True
                    return
                if entry.name.isascii() or is_text(entry.name):
                    yield entry
                else:
                    self.skipped += 1

    def wants(self, name: str, info: os.stat_result) -> bool:
        if stat.S_ISDIR(info.st_mode):
            return True
        if self.endings and not name.lower().endswith(self.endings):
            return False
        return self.since is None or info.st_mtime > self.since

    def descend(self, fd: int, name: str, path: str, depth: int) -> None:
        if self.is_full:
            return
        try:
            below = os.open(name, DIRECTORY, dir_fd=fd)
        except OSError:  # unreadable, deleted, or replaced by a link since it was listed
            self.skipped += 1
            return
        self.read(below, path, depth)


def info_of(entry: os.DirEntry[str]) -> os.stat_result | None:
    """None if it was deleted since it was listed, or the folder only allows listing names."""
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None


def get_file_metadata(workspace: Workspace, path: str) -> dict[str, JSON]:
    """Type, size and times of one file or folder.

    Args:
        path: relative to the shared folder
    """
    with workspace.open(path) as opened:
        return described(path, opened.info) | {"created_at": rfc3339(opened.info.st_ctime)}


def read_file_content(
    workspace: Workspace, path: str, offset: int = 0, length: int = DEFAULT_LENGTH, encoding: str = ""
) -> dict[str, JSON]:
    """Read the text of a file; PDF and Word files come as their text. A long file is read in parts: go on at
    next_offset until it is null.

    Args:
        path: relative to the shared folder
        offset: where to start, in bytes; in characters for PDF and Word
        length: how much to read, at most 262144
        encoding: such as "utf-8" or "latin-1"; empty to find out
    """
    if offset < 0 or length < 1:
        raise ToolRefused("invalid_arguments", "offset starts at 0 and length at 1")
    length = min(length, MAX_LENGTH)
    with workspace.open(path) as opened:
        if opened.is_directory:
            raise ToolRefused("not_a_file", f"“{path}” is a folder: list it with list_directory")
        kind = extractor_for(path, opened)
        part = (
            part_of_document(opened, kind, offset, length) if kind else part_of_text(opened, offset, length, encoding)
        )
    return {"path": path, "size": opened.info.st_size, "modified_at": rfc3339(opened.info.st_mtime), **part}


EXTRACTORS = {".pdf": documents.pdf_text, ".docx": documents.docx_text}


def extractor_for(path: str, opened: Opened) -> Any:
    ending = PurePath(path).suffix.lower()
    if ending in EXTRACTORS and opened.info.st_size > documents.MAX_DOCUMENT_BYTES:
        raise ToolRefused("too_large", f"documents of more than {documents.MAX_DOCUMENT_BYTES} bytes are not opened")
    return EXTRACTORS.get(ending)


def part_of_document(opened: Opened, extract: Any, offset: int, length: int) -> dict[str, JSON]:
    with os.fdopen(os.dup(opened.fd), "rb") as file:
        text = extract(file)
    end = offset + length
    return part(text[offset:end], offset, end if end < len(text) else None, "extracted text")


def part_of_text(opened: Opened, offset: int, length: int, encoding: str) -> dict[str, JSON]:
    head = os.pread(opened.fd, HEAD, 0)
    reason = None if encoding else documents.binary_reason(head)
    if reason:
        raise ToolRefused("binary", f"this is {reason}, not text, and cannot be read")
    encoding = encoding or encoding_of(opened, head)
    data = os.pread(opened.fd, length, offset)
    is_last = offset + len(data) >= opened.info.st_size or not data
    text, used = decode(data, encoding, is_first=offset == 0, is_last=is_last)
    return part(text, offset, None if is_last else offset + used, encoding)


def part(text: str, offset: int, next_offset: int | None, encoding: str) -> dict[str, JSON]:
    return {"text": sendable(text), "offset": offset, "next_offset": next_offset, "encoding": encoding}


def encoding_of(opened: Opened, head: bytes) -> str:
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if head.startswith(mark):
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, opened.info.st_size <= len(head))
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def decode(data: bytes, encoding: str, *, is_first: bool, is_last: bool) -> tuple[str, int]:
    """The text, and its size in bytes: an incomplete character at the end is left for the next
    part.
    """
    try:
        if not codecs.lookup(encoding)._is_text_encoding:  # zlib and similar codecs would decompress without limit
            raise LookupError(encoding)
        decoder = codecs.getincrementaldecoder(encoding)("replace")
    except (LookupError, TypeError, ValueError):
        raise ToolRefused("invalid_arguments", f"there is no encoding “{encoding[:40]}”")
    if not is_first and encoding == "utf-8":
        data, skipped = without_tail(data)
    else:
        skipped = 0
    text = decoder.decode(data, is_last)
    kept = len(decoder.getstate()[0]) if not is_last else 0
    text = text.lstrip("\ufeff") if is_first else text
    return text, skipped + len(data) - kept


def without_tail(data: bytes) -> tuple[bytes, int]:
    """Without the rest of a character that began before this part."""
    skipped = 0
    while skipped < min(3, len(data)) and data[skipped] & 0xC0 == 0x80:
        skipped += 1
    return data[skipped:], skipped


def described(path: str, info: os.stat_result) -> dict[str, JSON]:
    kind = "folder" if stat.S_ISDIR(info.st_mode) else "file" if stat.S_ISREG(info.st_mode) else kind_of(info.st_mode)
    return {
        "path": path,
        "type": kind.removeprefix("a "),
        "size": info.st_size,
        "modified_at": rfc3339(info.st_mtime),
    }


def rfc3339(seconds: float) -> str | None:
    """None for a time outside the calendar, which file systems allow."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def time_of(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ToolRefused("invalid_arguments", f"“{text[:40]}” is not a time such as 2026-01-31T09:00:00Z")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
