"""The files of a skill besides SKILL.md: received, checked, and kept as one archive in the storage of its owner."""

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

from django.utils.translation import gettext_noop as _

from agents import storage
from agents.exceptions import Invalid, TooLarge
from agents.models import StoredFile
from plumbing.untrusted import archives, parse_in_child

MAIN = "SKILL.md"
MEDIA = {"md": "text/markdown", "py": "text/x-python", "js": "text/javascript", "json": "application/json",
         "csv": "text/csv", "html": "text/html", "css": "text/css", "svg": "image/svg+xml", "xml": "text/xml",
         "yaml": "application/yaml", "yml": "application/yaml", "toml": "application/toml"}  # fmt: skip


def from_archive(content: bytes, folder: str = "") -> tuple[str, str, dict[str, bytes]]:
    """(name of the folder, SKILL.md, the other files) of a zip or tar archive. Raises Invalid, TooLarge."""
    try:
        name, files = archives.unpack(content, MAIN, folder)
    except parse_in_child.TooMuch as error:
        raise TooLarge(
            _("The archive cannot be read: %(error)s.") % {"error": error},
            hint=_("Send one skill at a time, without large files."),
        )
    except parse_in_child.Refused as error:
        raise Invalid(str(error), code=error.code or "broken_archive", hint=error.hint)
    text, others = split_main_file(files)
    # The last part of the path that was asked for.
    folder_name = folder.strip("/").rpartition("/")[2]
    return folder_name or name, text, others


def join_kept_files(row: Any, sent: list[dict[str, Any]]) -> dict[str, bytes]:
    """The files that were sent; one that names a hash in place of a content is a file of the skill. Raises Invalid."""
    paths = {one["sha256"]: one["path"] for one in row.files}
    kept = [one for one in sent if "content" not in one]
    stored = read_all(row) if kept else {}
    for one in kept:
        if one["sha256"] not in paths:
            raise Invalid(
                _("The skill has no file with the hash of “%(path)s”.") % {"path": one["path"]},
                code="unknown_file",
                hint=_("Send its content as “text” or as “data” (base64)."),
            )
    contents = {}
    for one in sent:
        if "content" in one:
            contents[one["path"]] = one["content"]
        else:
            contents[one["path"]] = stored[paths[one["sha256"]]]
    return contents


def from_parts(parts: dict[str, bytes]) -> tuple[str, dict[str, bytes]]:
    """(SKILL.md, the other files) of files that were sent one by one, by their paths. Raises Invalid."""
    return split_main_file(check_skill_files(parts))


def check_skill_files(parts: dict[str, bytes]) -> dict[str, bytes]:
    """The same files, if their paths and sizes are allowed. Raises Invalid."""
    try:
        entries = map(build_checked_entry, parts.items())
        return dict(archives.read_within_limits(entries))
    except parse_in_child.Refused as error:
        raise Invalid(str(error), code=error.code or "invalid", hint=error.hint)


def build_checked_entry(part: tuple[str, bytes]) -> tuple[str, Callable[[int], bytes]]:
    """The path, and what reads the first bytes of the content, as of a file in an archive."""
    path, content = part
    return archives.check_path(path), partial(cut_leading_bytes, content)


def cut_leading_bytes(data: bytes, most: int) -> bytes:
    return data[:most]


def split_main_file(files: dict[str, bytes]) -> tuple[str, dict[str, bytes]]:
    """(SKILL.md as text, the other files). Raises Invalid."""
    if MAIN not in files:
        raise Invalid(
            _("There is no file %(file)s.") % {"file": MAIN},
            code="nothing_found",
            hint=_("Send the files of one skill."),
        )
    try:
        text = files[MAIN].decode()
    except UnicodeDecodeError:
        raise Invalid(_("%(file)s is not UTF-8.") % {"file": MAIN}, code="invalid_skill")
    others = {path: content for path, content in files.items() if path != MAIN}
    return text, others


def describe_skill_files(files: dict[str, bytes]) -> list[dict[str, Any]]:
    """What a skill stores of its files beside the archive with their contents."""
    entries = []
    for path, content in sorted(files.items()):
        ending = path.rpartition(".")[2].lower()
        entry = {
            "path": path,
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "media_type": storage.detect_type(content, MEDIA.get(ending, "")),
        }
        entries.append(entry)
    return entries


def store_archive(owner: Any, name: str, files: dict[str, bytes], *, untrusted: bool) -> StoredFile | None:
    """The row of an archive of these files, whose bytes are stored; None without files. Must not be called in a
    transaction: packing, scanning and storing may take seconds. Raises Invalid, Conflict (quota), TooLarge.
    """
    if not files:
        return None
    if owner is None:
        raise Invalid(
            _("A skill of the site has no files besides SKILL.md."),
            code="needs_owner",
            hint=_("Import it as a person."),
        )
    content = archives.pack(files)
    source = StoredFile.Source.SKILL
    return storage.store_bytes(owner.pk, f"{name}.zip", content, untrusted=untrusted, source=source)


def read_all(row: Any) -> dict[str, bytes]:
    """The files of a skill or a version, with SKILL.md. Raises Invalid if the storage has lost them."""
    if row.bundle is None:
        return {MAIN: row.text.encode()}
    content = storage.read_stored_file(row.bundle)
    if content is None:
        raise Invalid(_("The files of this skill are not in the storage."), code="file_gone")
    return {MAIN: row.text.encode(), **archives.read_pack(content)}


def read_one(row: Any, path: str) -> bytes | None:
    """One file; None if the skill has no file with that path."""
    if path == MAIN:
        return row.text.encode()
    if path not in row.paths or row.bundle is None:
        return None
    content = storage.read_stored_file(row.bundle)
    if content is None:
        return None
    return archives.read_archive_file(content, path)


def build_skill_archive(row: Any, name: str) -> bytes:
    """A zip archive with the folder of the skill."""
    contents = read_all(row)
    return archives.pack({f"{name}/{path}": content for path, content in contents.items()})
