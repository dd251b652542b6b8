"""The folders that a device shares with agents. Nothing outside them can be reached, whatever a
path says.

A path is walked one component at a time from an open root, each step by `openat` with O_NOFOLLOW.
Symbolic links are expanded here, not by the kernel, so a link swapped in between two steps leads
nowhere. The opened file is checked again by `fstat` and only used through its descriptor. Accepted
risk: a hard link to an outside file, which requires write access to the root, reads like any other
file.
"""

import os
import stat
import unicodedata
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import stopping
from .exceptions import ToolRefused
from .text import sendable

MAX_PATH = 4096
MAX_PARTS = 128
MAX_LINKS = 40
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class Opened:
    """An open descriptor of a regular file or a directory inside a root."""

    fd: int
    info: os.stat_result

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.info.st_mode)


class Workspace:
    """Named roots. With several, the first part of a path names the root. With one, a path starts
    inside it, and may start with the root's name too.
    """

    def __init__(self, roots: Mapping[str, str | Path]) -> None:
        self.roots = {name: os.path.realpath(path) for name, path in roots.items()}

    @contextmanager
    def open(self, path: str) -> Iterator[Opened]:
        """The file or directory at a path. Raises ToolRefused (outside, not_found, not_a_file, unreadable)."""
        try:
            fd = self.descriptor(path)
        except (FileNotFoundError, UnicodeEncodeError):
            if looks_absolute(path):
                raise ToolRefused("outside", "paths are relative to the shared folder, not absolute")
            hint = ": folders are separated by “/”" if "\\" in path else ""
            raise ToolRefused("not_found", f"there is no “{format_path(path)}”{hint}")
        except PermissionError:
            raise ToolRefused("unreadable", f"this account may not read “{format_path(path)}”")
        except OSError as error:
            raise ToolRefused("unreadable", f"“{format_path(path)}” cannot be opened: {error.strerror}")
        try:
            yield Opened(fd, os.fstat(fd))
        finally:
            os.close(fd)

    def descriptor(self, path: str) -> int:
        """An open descriptor. A name inside a single root comes before the root's own name."""
        root, parts = self.place(path)
        try:
            return walk(root, parts)
        except (FileNotFoundError, ToolRefused) as error:
            is_missing = isinstance(error, FileNotFoundError) or error.code == "not_found"
            if not is_missing or len(self.roots) != 1 or not parts or parts[0] not in self.roots:
                raise
        return walk(root, parts[1:])

    def is_top(self, path: str) -> bool:
        """Whether a path means the list of several roots."""
        return len(self.roots) != 1 and not split_path(path)

    def place(self, path: str) -> tuple[str, list[str]]:
        """The root's real path, and the parts below it."""
        parts = split_path(path)
        if len(self.roots) == 1:
            (root,) = self.roots.values()
            return root, parts
        if not parts or parts[0] not in self.roots:
            names = ", ".join(sorted(self.roots)) or "no folder"
            raise ToolRefused("outside", f"a path must start with one of: {names}")
        name, *rest = parts
        return self.roots[name], rest


def split_path(path: str) -> list[str]:
    """Components of a relative path. Raises ToolRefused for a path that is invalid or could lead
    outside.
    """
    if "\0" in path or len(path.encode(errors="surrogatepass")) > MAX_PATH:
        raise ToolRefused("outside", "that is not a valid path")
    if path.startswith("/"):
        raise ToolRefused("outside", "paths are relative to the shared folder, not absolute")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ToolRefused("outside", "“..” is not allowed in a path")
    if len(parts) > MAX_PARTS:
        raise ToolRefused("outside", f"a path can have at most {MAX_PARTS} parts")
    return parts


def looks_absolute(path: str) -> bool:
    """Whether a path means a place outside, in the way of a shell or of Windows. A file may have such a name, too."""
    return path.startswith(("~", "\\")) or (path[1:2] == ":" and path[0].isalpha())


def walk(root: str, parts: list[str]) -> int:
    """A descriptor of the path's target. Raises ToolRefused and OSError."""
    chain = [os.open(root, DIRECTORY)]
    pending = deque(parts)
    links = 0
    try:
        while pending:
            name = pending.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                # Only a link contains one.
                climb(chain)
                continue
            name, info = find_name(chain[-1], name)
            if stat.S_ISLNK(info.st_mode):
                links += 1
                follow_link(root, chain, pending, os.readlink(name, dir_fd=chain[-1]), links)
            elif stat.S_ISDIR(info.st_mode):
                chain.append(os.open(name, DIRECTORY, dir_fd=chain[-1]))
            else:
                return open_file(name, chain[-1], info, pending)
        return os.dup(chain[-1])
    finally:
        for fd in chain:
            os.close(fd)


def find_name(directory: int, name: str) -> tuple[str, os.stat_result]:
    """The name as the folder writes it: macOS decomposes the letters (é) that models write composed. No form of a name
    has a slash or becomes `..`. Raises OSError.
    """
    try:
        return name, os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        if name.isascii() or (other := find_spelling(directory, name)) is None:
            raise
    return other, os.stat(other, dir_fd=directory, follow_symlinks=False)


def find_spelling(directory: int, name: str) -> str | None:
    """A name in this folder that has the same letters, composed or decomposed, or some of each."""
    composed = unicodedata.normalize("NFC", name)
    with os.scandir(directory) as entries:
        for entry in entries:
            stopping.raise_if_stopped()
            if not entry.name.isascii() and unicodedata.normalize("NFC", entry.name) == composed:
                return entry.name
    return None


def climb(chain: list[int]) -> None:
    if len(chain) == 1:
        raise ToolRefused("outside", "a link in this path leads outside the shared folder")
    os.close(chain.pop())


def follow_link(root: str, chain: list[int], pending: deque[str], target: str, links: int) -> None:
    """Replace a link by its target; an absolute target must lie below the root."""
    if links > MAX_LINKS:
        raise ToolRefused("outside", "the links in this path form a loop")
    if target.startswith("/"):
        if not (target + "/").startswith(root.rstrip("/") + "/"):
            raise ToolRefused("outside", "a link in this path leads outside the shared folder")
        while len(chain) > 1:
            os.close(chain.pop())
        target = target[len(root.rstrip("/")) :]
    pending.extendleft(reversed(target.split("/")))


def open_file(name: str, directory: int, info: os.stat_result, pending: deque[str]) -> int:
    if any(part not in ("", ".") for part in pending):
        raise ToolRefused("not_found", "a part of this path is a file, not a folder")
    if not stat.S_ISREG(info.st_mode):
        raise ToolRefused("not_a_file", f"“{format_path(name)}” is {name_file_kind(info.st_mode)}, not a file")
    fd = os.open(name, FILE, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        # Swapped since the check.
        os.close(fd)
        raise ToolRefused("not_a_file", f"“{format_path(name)}” is not a file")
    return fd


def name_file_kind(mode: int) -> str:
    kinds = {
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device file",
        stat.S_IFBLK: "a device file",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")


def format_path(path: str) -> str:
    """A path as text for messages."""
    return sendable(path[:200])
