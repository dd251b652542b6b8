"""Skills as definition files: SKILL.md as text, and its files as texts or base64."""

from collections.abc import Iterable
from typing import Any

from agents import storage
from agents.definitions import shapes
from agents.definitions.agents import share_definition, sharing
from agents.definitions.contents import read_content, write_content
from agents.definitions.files import Definition
from agents.exceptions import Invalid
from agents.models import StoredFile
from agents.sharing import carry
from agents.unknown import extra
from knowledge.models import Skill

from . import files, store
from .document import Document, parse_skill_document

CONTENT = ("text", "files", "untrusted")


class SkillKind:
    """The fields of a definition. `files` maps paths to texts, or to {base64: …} for what is no text.

    `untrusted` marks what strangers wrote. Applying a file never removes the mark from a row.
    """

    name = "skill"

    def __init__(self) -> None:
        # By the skill's name, and whether it is the live version.
        self.archives: dict[tuple[str, bool], StoredFile | None] = {}
        self.documents: dict[tuple[str, bool], Document] = {}

    def prepare(self, definition: Definition, *, owner: Any, actor: Any) -> None:
        """Read the text and store the bytes of files, while no transaction is open. Raises Invalid, Conflict,
        TooLarge.
        """
        for is_live, one in ((False, definition), (True, definition.get("live"))):
            if not one:
                continue
            contents = read_defined_files(one)
            untrusted = bool(one.get("untrusted"))
            archive = files.store_archive(owner, definition["name"], contents, untrusted=untrusted)
            self.archives[definition["name"], is_live] = archive
            self.documents[definition["name"], is_live] = parse_skill_document(one.get("text", ""))

    def abandon(self) -> None:
        """Delete the stored bytes that no row refers to."""
        names = {archive.stored for archive in self.archives.values() if archive is not None}
        rows = StoredFile.objects.filter(stored__in=names)
        used = set(rows.values_list("stored", flat=True))
        storage.remove_stored_bytes(names - used)

    def unknown(self, definition: Definition) -> dict[str, str]:
        fields = extra(definition, {"kind", "name", "team", "draft", "live", *CONTENT})
        fields |= extra(definition.get("live"), CONTENT, "live.")
        return fields

    def faults(self, definition: Definition) -> list[dict[str, str]]:
        shape: dict[str, Any] = {"text": (str,), "files": (dict,), "untrusted": (bool,)}
        faults = shapes.faults(definition, {**shape, **shapes.SHARED})
        faults += find_file_faults(definition)
        live = definition.get("live")
        if isinstance(live, dict):
            faults += shapes.faults(live, shape, "live.")
            faults += find_file_faults(live, "live.")
        return faults

    def rows(self, owner: Any) -> Iterable[Skill]:
        rows = Skill.objects.filter(owner=owner).order_by("name")
        return rows.select_related("team", "bundle", "published__bundle")

    def find(self, owner: Any, name: str) -> Skill | None:
        rows = Skill.objects.filter(owner=owner, name=name)
        return rows.select_related("team", "bundle", "published__bundle").first()

    def read(self, row: Skill) -> Definition:
        draft = build_skill_content(row)
        definition: Definition = {"kind": self.name, "name": row.name, **draft}
        if row.published:
            live = build_skill_content(row.published)
            if live != draft:
                definition["live"] = live
        return {**definition, **sharing(row)}

    def normal(self, definition: Definition, owner: Any) -> Definition:
        """Defaults left out; a text in base64 is the text."""
        columns = ("kind", "name", "team", "draft")
        normal = {name: definition[name] for name in columns if definition.get(name)}
        normal |= normalize_skill_definition(definition)
        if definition.get("live"):
            normal["live"] = normalize_skill_definition(definition["live"])
        return normal

    def left_open(self, definition: Definition) -> set[str]:
        """An apply reviews nothing: a file without the mark leaves the row's as it is."""
        if definition.get("untrusted"):
            return set()
        return {"untrusted"}

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Skill | None) -> Skill:
        """Store the skill and publish it, unless it is a draft. `live` is published first."""
        row = row or Skill(owner=owner)
        row.name = definition["name"]
        share_definition(row, definition.get("team"))
        if definition.get("live"):
            self.save_content(row, definition["live"], actor, is_live=True)
            self.publish_content(row, actor, is_live=True)
        self.save_content(row, definition, actor, is_live=False)
        if not definition.get("draft") and not definition.get("live"):
            self.publish_content(row, actor, is_live=False)
        carry(row)
        return row

    def save_content(self, row: Skill, content: Definition, actor: Any, *, is_live: bool) -> None:
        """Store the working row. Raises Invalid, Conflict, TooLarge."""
        place = (row.name, is_live)
        contents = read_defined_files(content)
        marks: dict[str, Any] = {"untrusted": bool(content.get("untrusted")), "source": "definitions"}
        prepared: dict[str, Any] = {"archive": self.archives.get(place), "read": self.documents.get(place)}
        store.save_skill(row, content.get("text", ""), contents, user=actor, **marks, **prepared)

    def publish_content(self, row: Skill, actor: Any, *, is_live: bool) -> None:
        read = self.documents.get((row.name, is_live))
        store.publish_skill(row, user=actor, note="from a definition file", source="definitions", read=read)


def build_skill_content(row: Any) -> Definition:
    contents = files.read_all(row)
    contents.pop(files.MAIN)
    definition: Definition = {"text": row.text}
    if contents:
        definition["files"] = {path: write_content(content) for path, content in sorted(contents.items())}
    if row.untrusted:
        definition["untrusted"] = True
    return definition


def normalize_skill_definition(definition: Definition) -> Definition:
    normal: Definition = {"text": definition.get("text", "")}
    contents: Definition = {}
    sent = definition.get("files") or {}
    for path, one in sorted(sent.items()):
        contents[path] = write_content(read_content(path, one))
    if contents:
        normal["files"] = contents
    if definition.get("untrusted"):
        normal["untrusted"] = True
    return normal


def find_file_faults(definition: Definition, place: str = "") -> list[dict[str, str]]:
    sent = definition.get("files")
    if not isinstance(sent, dict):
        return []
    message = "This must be a text, or {base64: a text}."
    faults = []
    for path, content in sent.items():
        is_content = isinstance(content, str) or is_base64(content)
        if not isinstance(path, str) or not is_content:
            faults.append({"field": f"{place}files.{path}", "code": "invalid", "message": message})
    return faults


def is_base64(one: Any) -> bool:
    if not isinstance(one, dict) or one.keys() != {"base64"}:
        return False
    return isinstance(one["base64"], str)


def read_defined_files(definition: Definition) -> dict[str, bytes]:
    """Its files besides SKILL.md. Raises Invalid, TooLarge."""
    sent = definition.get("files") or {}
    contents = {path: read_content(path, one) for path, one in sent.items()}
    checked = files.check_skill_files(contents)
    if files.MAIN in checked:
        raise Invalid(f"{files.MAIN} is the field “text”, not a file.", code="invalid")
    return checked
