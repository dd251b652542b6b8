"""Reads zip and tar archives from users into memory, with limits. Refuses links, encrypted entries, and paths that
would leave the folder that they are unpacked in.

An archive can be built to take much time and memory, so `unpack` reads it in a process with limits: see
plumbing/untrusted/parse_in_child.py.
"""

import base64
import io
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator

from plumbing.untrusted import parse_in_child
from plumbing.untrusted.parse_in_child import Refused

MOST_FILES = 500
# Of an archive, and of the files that are kept of it.
MOST_BYTES = 8 << 20
# Of a compressed tar archive, with what is skipped.
INFLATED = 48 << 20
MOST_ENTRIES = 20_000
LONGEST_PATH, DEEPEST = 240, 12
UNPRINTED = re.compile(r"[\x00-\x1f\x7f\\:]")
IGNORED = re.compile(r"(^|/)(__MACOSX|\.git|__pycache__)/|(^|/)(\.DS_Store|\._[^/]*|Thumbs\.db)$")
GZIP = b"\x1f\x8b"

# Its path, and what reads at most so many bytes of it.
Entry = tuple[str, Callable[[int], bytes]]


def unpack(content: bytes, marker: str, folder: str = "") -> tuple[str, dict[str, bytes]]:
    """The files of the one folder of the archive that contains the file `marker`, by their paths below it, and the
    name of that folder ("" for the root). `folder` chooses one of several.

    Raises Refused, TooMuch.
    """
    if len(content) > MOST_BYTES:
        raise parse_in_child.TooMuch(f"it has more than {MOST_BYTES >> 20} MB")
    # JSON passes between the processes, so contents are encoded.
    encoded = base64.b64encode(content).decode()
    name, files = parse_in_child.run_reader_task("unpack", encoded, marker, folder)
    return name, {path: base64.b64decode(data) for path, data in files}


def unpack_here(encoded: str, marker: str, folder: str) -> tuple[str, list[tuple[str, str]]]:
    """The same in this process, with contents in base64. Raises Refused."""
    content = base64.b64decode(encoded)
    read_entries = read_zip if content[:2] == b"PK" else read_tar
    try:
        entries = list(read_entries(content))
        root = find_root([path for path, _ in entries], marker, folder)
        chosen = [(path.removeprefix(root), read) for path, read in entries if path.startswith(root)]
        files = read_within_limits(chosen)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, OSError) as error:
        raise Refused(f"The archive cannot be read: {str(error)[:200]}", code="broken_archive") from None
    name = root.rstrip("/").rpartition("/")[2]
    return name, [(path, base64.b64encode(data).decode()) for path, data in files]


def read_within_limits(entries: Iterable[Entry]) -> list[tuple[str, bytes]]:
    """The contents, as long as they are within the limits together."""
    files: list[tuple[str, bytes]] = []
    room = MOST_BYTES
    for path, read in entries:
        if len(files) == MOST_FILES:
            raise Refused(f"The archive has more than {MOST_FILES} files.", code="too_many_files")
        data = read(room + 1)
        room -= len(data)
        if room < 0:
            raise Refused(f"The files have more than {MOST_BYTES >> 20} MB together.", code="too_large")
        files.append((path, data))
    refuse_doubles([path for path, _ in files])
    return files


def find_root(paths: list[str], marker: str, folder: str) -> str:
    """The folder with the marker, as a prefix of paths. Raises Refused unless there is exactly one."""
    marked = [path.removesuffix(marker) for path in paths if f"/{path}".endswith(f"/{marker}")]
    roots = list(dict.fromkeys(marked))
    if folder:
        prefix = folder.strip("/")
        roots = [root for root in roots if f"/{root}".endswith(f"/{prefix}/")]
    # A folder inside another one with the marker is part of that.
    outer = [root for root in roots if not is_below_any(root, roots)]
    if not outer:
        where = f"The folder “{folder[:80]}” of the archive" if folder else "The archive"
        raise Refused(f"{where} has no file {marker}.", code="nothing_found")
    if len(outer) > 1:
        names = ", ".join(sorted(root.rstrip("/") for root in outer)[:20])
        raise Refused(f"The archive has {len(outer)} files {marker}.", code="several_found", hint=f"Choose: {names}.")
    return outer[0]


def is_below_any(root: str, roots: list[str]) -> bool:
    return any(root != other and root.startswith(other) for other in roots)


def check_path(path: str) -> str:
    """The path, if it stays inside and can be stored everywhere. Raises Refused."""
    parts = path.split("/")
    # Windows stores no name with a space at its end.
    has_bad_part = any(part in ("", ".", "..") or part != part.strip() for part in parts)
    if has_bad_part or UNPRINTED.search(path):
        raise Refused(f"The path “{path[:80]!a}” is not allowed.", code="bad_path", hint="Use relative paths with /.")
    if len(path) > LONGEST_PATH or len(parts) > DEEPEST:
        raise Refused(f"The path “{path[:80]}…” is too long or too deep.", code="bad_path")
    return path


def refuse_doubles(paths: list[str]) -> None:
    """Raises Refused for paths that are the same where case does not count, and for a file that is a folder too."""
    seen: dict[str, str] = {}
    for path in paths:
        other = seen.setdefault(path.casefold(), path)
        if other != path or paths.count(path) > 1:
            raise Refused(f"“{path[:80]}” and “{other[:80]}” are the same path.", code="bad_path")
    folders: set[str] = set()
    for path in paths:
        parts = path.casefold().split("/")
        folders.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
    clash = folders & seen.keys()
    if clash:
        raise Refused(f"“{seen[min(clash)][:80]}” is a file and a folder.", code="bad_path")


def read_zip(content: bytes) -> Iterator[Entry]:
    archive = zipfile.ZipFile(io.BytesIO(content))
    if len(archive.infolist()) > MOST_ENTRIES:
        raise Refused(f"The archive has more than {MOST_ENTRIES} entries.", code="too_many_files")
    for entry in archive.infolist():
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if entry.is_dir() or IGNORED.search(entry.filename):
            continue
        if kind not in (0, stat.S_IFREG):
            raise Refused(f"“{entry.filename[:80]}” is a link or a device.", code="link", hint="Send plain files.")
        if entry.flag_bits & 1:
            raise Refused("The archive is encrypted.", code="encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Refused("The archive uses a rare compression.", code="broken_archive", hint="Use deflate.")
        yield check_path(entry.filename), lambda most, entry=entry: archive.open(entry).read(most)  # type: ignore[misc]


def read_tar(content: bytes) -> Iterator[Entry]:
    archive = tarfile.open(fileobj=io.BytesIO(inflate(content)), mode="r:")  # noqa: SIM115  (in memory)
    for number, entry in enumerate(archive):
        if number == MOST_ENTRIES:
            raise Refused(f"The archive has more than {MOST_ENTRIES} entries.", code="too_many_files")
        path = entry.name.removeprefix("./")
        if entry.isdir() or IGNORED.search(path):
            continue
        if not entry.isreg():
            raise Refused(f"“{path[:80]}” is a link or a device.", code="link", hint="Send plain files.")
        yield check_path(path), lambda most, entry=entry: archive.extractfile(entry).read(most)  # type: ignore[misc,union-attr]


def inflate(content: bytes) -> bytes:
    if content[:2] != GZIP:
        return content
    machine = zlib.decompressobj(31)
    data = machine.decompress(content, INFLATED + 1)
    if len(data) > INFLATED:
        raise Refused(f"Unpacked, the archive has more than {INFLATED >> 20} MB.", code="too_large")
    if not machine.eof:
        raise Refused("The archive ends too early.", code="broken_archive")
    return data


# -- archives that we write --------------------------------------------------------------------------------------------

LONG_AGO = (1980, 1, 1, 0, 0, 0)


def pack(files: dict[str, bytes]) -> bytes:
    """A zip archive of these files; equal files give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, LONG_AGO)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, files[path], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def read_pack(content: bytes) -> dict[str, bytes]:
    """The files of an archive that `pack` wrote."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def read_archive_file(content: bytes, path: str) -> bytes | None:
    """One file of an archive that `pack` wrote; None if it is not there."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        try:
            return archive.read(path)
        except KeyError:
            return None
