"""Lists the shared folders and reads files in them. Never writes."""

import heapq
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Annotated, Any

from .. import documents, stopping
from ..encodings import choose_encoding, read_part
from ..exceptions import ToolRefused
from ..text import sendable
from ..workspace import DIRECTORY, Opened, Workspace, name_file_kind

JSON = Any
MAX_ENTRIES = 1000
# Seconds for the names of a folder, and of the folders below it.
LISTING_S = 5.0
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
    since = None
    if modified_since:
        since = parse_time(modified_since)
    endings = tuple("." + ending.lower().lstrip(".") for ending in extensions or ())
    if workspace.is_top(path):
        roots: list[dict[str, JSON]] = [{"path": name, "type": "folder"} for name in sorted(workspace.roots)]
        return {"path": ".", "entries": roots, "truncated": False, "skipped": 0}
    depth = 0
    if recursive:
        depth = MAX_DEPTH
    with workspace.open(path) as opened:
        if not opened.is_directory:
            raise ToolRefused("not_a_folder", f"“{path}” is a file: read it with read_file_content")
        until = time.monotonic() + LISTING_S
        listing = Listing(endings, since, max(1, min(limit, MAX_ENTRIES)), until)
        listing.read(os.dup(opened.fd), clean_prefix(path), depth=depth)
    entries = sorted(listing.entries, key=lambda entry: entry["path"])
    return {"path": path, "entries": entries, "truncated": listing.is_full, "skipped": listing.skipped}


def clean_prefix(path: str) -> str:
    """What stands before the names in a folder: `./reports//2026/` is `reports/2026`."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))


@dataclass
class Listing:
    """Looks at the entries of a folder, and of the folders below it, as long as the time allows, and keeps those that
    were changed last.
    """

    endings: tuple[str, ...]
    since: float | None
    limit: int
    until: float
    has_folders: bool = True

    def __post_init__(self) -> None:
        # A heap: the oldest of them is first.
        self.newest: list[tuple[float, str, os.stat_result]] = []
        # Unreadable folders, files that disappeared, and names that are not text.
        self.skipped = 0
        self.is_full = False

    @property
    def entries(self) -> list[dict[str, JSON]]:
        """The newest first."""
        return [describe_entry(path, info) for _, path, info in sorted(self.newest, reverse=True)]

    def read(self, fd: int, prefix: str, depth: int) -> None:
        """Takes ownership of the descriptor."""
        below = []
        try:
            for entry in self.scan(fd):
                if (info := read_entry_info(entry)) is None:
                    self.skipped += 1
                    continue
                if stat.S_ISDIR(info.st_mode):
                    below.append((info.st_mtime, entry.name))
                if self.wants(entry.name, info):
                    self.keep(prefix, entry.name, info)
            if depth:
                # A folder that was changed lately has newer files, if the time is short.
                for _, name in sorted(below, reverse=True):
                    self.descend(fd, name, join_path(prefix, name), depth - 1)
        finally:
            os.close(fd)

    def keep(self, prefix: str, name: str, info: os.stat_result) -> None:
        if len(self.newest) < self.limit:
            heapq.heappush(self.newest, (info.st_mtime, join_path(prefix, name), info))
            return
        self.is_full = True
        if info.st_mtime > self.newest[0][0]:
            heapq.heapreplace(self.newest, (info.st_mtime, join_path(prefix, name), info))

    def scan(self, fd: int) -> Iterator[os.DirEntry[str]]:
        with os.scandir(fd) as entries:
            for entry in entries:
                stopping.raise_if_stopped()
                if self.is_late():
                    return
                if entry.name.isascii() or is_encodable(entry.name):
                    yield entry
                else:
                    self.skipped += 1

    def is_late(self) -> bool:
        is_late = time.monotonic() >= self.until
        self.is_full = self.is_full or is_late
        return is_late

    def wants(self, name: str, info: os.stat_result) -> bool:
        if stat.S_ISDIR(info.st_mode):
            return self.has_folders
        if self.endings and not name.lower().endswith(self.endings):
            return False
        return self.since is None or info.st_mtime > self.since

    def descend(self, fd: int, name: str, path: str, depth: int) -> None:
        if self.is_late():
            return
        try:
            below = os.open(name, DIRECTORY, dir_fd=fd)
        except OSError:  # unreadable, deleted, or replaced by a link since it was listed
            self.skipped += 1
            return
        self.read(below, path, depth)


def join_path(prefix: str, name: str) -> str:
    if not prefix:
        return name
    return f"{prefix}/{name}"


def read_entry_info(entry: os.DirEntry[str]) -> os.stat_result | None:
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
        return describe_entry(path, opened.info) | {"created_at": format_file_time(opened.info.st_ctime)}


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
        extract = choose_extractor(path, opened)
        if extract:
            part = part_of_document(opened, extract, offset, length)
        else:
            part = part_of_text(opened, offset, length, encoding)
    info = opened.info
    return {"path": path, "size": info.st_size, "modified_at": format_file_time(info.st_mtime), **part}


EXTRACTORS = {".pdf": documents.read_pdf, ".docx": documents.read_docx}


def choose_extractor(path: str, opened: Opened) -> Any:
    ending = PurePath(path).suffix.lower()
    if ending in EXTRACTORS and opened.info.st_size > documents.MAX_DOCUMENT_BYTES:
        raise ToolRefused("too_large", f"documents of more than {documents.MAX_DOCUMENT_BYTES} bytes are not opened")
    return EXTRACTORS.get(ending)


def part_of_document(opened: Opened, extract: Any, offset: int, length: int) -> dict[str, JSON]:
    with os.fdopen(os.dup(opened.fd), "rb") as file:
        text = extract(file)
    end = offset + length
    next_offset = None
    if end < len(text):
        next_offset = end
    return part(text[offset:end], offset, next_offset, "extracted text")


def part_of_text(opened: Opened, offset: int, length: int, encoding: str) -> dict[str, JSON]:
    head = os.pread(opened.fd, HEAD, 0)
    if not encoding:
        reason = documents.describe_binary(head)
        if reason:
            raise ToolRefused("binary", f"this is {reason}, not text, and cannot be read")
    encoding = choose_encoding(encoding, head)

    def read(length: int, offset: int) -> bytes:
        stopping.raise_if_stopped()
        return os.pread(opened.fd, length, offset)

    text, next_offset, encoding = read_part(read, opened.info.st_size, offset, length, encoding)
    return part(text, offset, next_offset, encoding)


def part(text: str, offset: int, next_offset: int | None, encoding: str) -> dict[str, JSON]:
    return {"text": sendable(text), "offset": offset, "next_offset": next_offset, "encoding": encoding}


def describe_entry(path: str, info: os.stat_result) -> dict[str, JSON]:
    kind = name_file_kind(info.st_mode).removeprefix("a ")
    modified_at = format_file_time(info.st_mtime)
    return {"path": path, "type": kind, "size": info.st_size, "modified_at": modified_at}


def format_file_time(seconds: float) -> str | None:
    """None for a time outside the calendar, which file systems allow."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def parse_time(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ToolRefused("invalid_arguments", f"“{text[:40]}” is not a time such as 2026-01-31T09:00:00Z")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def is_encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
