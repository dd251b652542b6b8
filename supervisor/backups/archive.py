"""The archive: a tar file whose last member, `manifest.json`, lists every other one with its size and checksum."""

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from plumbing.release import VERSION

FORMAT = 1
MANIFEST = "manifest.json"
CHUNK = 1 << 20


class BackupError(Exception):
    """The backup cannot be made or used. The message says why, and what to do."""


@dataclass
class Manifest:
    """`tables`: name → {"rows", "columns"}. `members`: name in the archive → {"bytes", "sha256"}, of what is stored.

    `gone`: files that were deleted while the backup was made. `key_check`: a word encrypted with the field key.
    """

    made_at: str
    vendor: str
    migrations: list[list[str]]
    key_check: str
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    members: dict[str, dict[str, Any]] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    format: int = FORMAT
    version: str = VERSION  # of Muster, when the backup was made

    @property
    def rows(self) -> int:
        return sum(table["rows"] for table in self.tables.values())

    @property
    def files(self) -> list[str]:
        """The names of the stored files."""
        return [name.removeprefix("files/") for name in self.members if name.startswith("files/")]

    @property
    def latest_migrations(self) -> list[tuple[str, str]]:
        """The last migration of each app when the backup was made, as pairs of app and name."""
        in_order = sorted((app, name) for app, name in self.migrations)
        return sorted(dict(in_order).items())


class Reader:
    """Counts and hashes what is read through it."""

    def __init__(self, source: IO[bytes]) -> None:
        self.source, self.bytes, self.hash = source, 0, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self.source.read(size)
        self.bytes += len(data)
        self.hash.update(data)
        return data

    def facts(self) -> dict[str, Any]:
        return {"bytes": self.bytes, "sha256": self.hash.hexdigest()}


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A private file that gets its name when it is complete and on the disk; on an error nothing is left."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.touch(mode=0o600)
        with partial.open("w+b") as opened:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
        partial.replace(path)
    except OSError as error:
        raise BackupError(f"{path} cannot be written ({error.strerror}): make room or choose another file.") from error
    finally:
        partial.unlink(missing_ok=True)


def add_member(tar: tarfile.TarFile, manifest: Manifest, name: str, content: IO[bytes], size: int) -> None:
    """Store `size` bytes under this name."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    reader = Reader(content)
    tar.addfile(entry, reader)  # type: ignore[arg-type]
    manifest.members[name] = reader.facts()


def add_packed(tar: tarfile.TarFile, manifest: Manifest, name: str, plain: Path) -> None:
    """Store a file compressed, as `name`.gz."""
    packed = plain.with_suffix(".gz")
    with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as target:
        shutil.copyfileobj(source, target, CHUNK)
    with packed.open("rb") as content:
        add_member(tar, manifest, f"{name}.gz", content, packed.stat().st_size)
    packed.unlink()


def close_archive(tar: tarfile.TarFile, manifest: Manifest) -> None:
    """Write the manifest: an archive without one is incomplete."""
    text = json.dumps(asdict(manifest), indent=1).encode()
    entry = tarfile.TarInfo(MANIFEST)
    entry.size = len(text)
    entry.mode = 0o600
    tar.addfile(entry, io.BytesIO(text))


class Archive:
    """A backup that is read. `with Archive(path) as archive: …`; raises BackupError if it is not a complete backup."""

    def __init__(self, path: Path) -> None:
        try:
            self.tar = tarfile.open(path, "r:")  # noqa: SIM115  (closed by `__exit__`)
            self.manifest = self.read_manifest(path)
        except (OSError, tarfile.TarError, KeyError, ValueError, TypeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BackupError(f"{path} is not a complete backup ({reason}): use another one.") from error

    def read_manifest(self, path: Path) -> Manifest:
        opened = self.tar.extractfile(MANIFEST)
        assert opened is not None
        manifest = Manifest(**json.loads(opened.read()))
        if manifest.format != FORMAT:
            raise BackupError(f"{path} has format {manifest.format}; this version reads {FORMAT}: install its version.")
        return manifest

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.tar.close()

    @contextmanager
    def member(self, name: str) -> Iterator[IO[bytes]]:
        """The content; raises BackupError at the end of the block if its bytes are not those that were stored."""
        opened = self.tar.extractfile(name)
        assert opened is not None
        reader = Reader(opened)
        yield reader  # type: ignore[misc]
        while reader.read(CHUNK):
            pass
        if reader.facts() != self.manifest.members[name]:
            raise BackupError(f"{name} in the backup is damaged: its checksum is wrong. Use another backup.")

    def unpack(self, name: str, target: Path) -> None:
        """The content of `name`.gz, decompressed into a file."""
        with self.member(f"{name}.gz") as packed, target.open("wb") as plain:
            try:
                shutil.copyfileobj(gzip.GzipFile(fileobj=packed), plain, CHUNK)
            except (OSError, EOFError) as error:
                raise BackupError(f"{name} in the backup is damaged ({error}): use another backup.") from error

    def check(self) -> None:
        """Read everything once. Raises BackupError for a missing or damaged member."""
        missing = set(self.manifest.members) - set(self.tar.getnames())
        if missing:
            raise BackupError(f"The backup lacks {len(missing)} members, such as {min(missing)}: use another one.")
        for name in self.manifest.members:
            with self.member(name):
                pass
