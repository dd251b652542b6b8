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
        # By the skill's name, and whether it is live.
        self.archives: dict[tuple[str, bool], StoredFile | None] = {}
        self.documents: dict[tuple[str, bool], Document] = {}

    def prepare(self, definition: Definition, *, owner: Any, actor: Any) -> None:
        """Read the text and store the bytes of files, while no transaction is open. Raises Invalid, Conflict,
        TooLarge.
        """
        for is_live, one in ((False, definition), (True, definition.get("live"))):
            if not one:
                continue
            contents, untrusted = read_defined_files(one), bool(one.get("untrusted"))
            archive = files.store_archive(owner, definition["name"], contents, untrusted=untrusted)
            self.archives[definition["name"], is_live] = archive
            self.documents[definition["name"], is_live] = parse_skill_document(one.get("text", ""))

    def abandon(self) -> None:
        """Delete the stored bytes that no row refers to."""
        names = {archive.stored for archive in self.archives.values() if archive is not None}
        kept = set(StoredFile.objects.filter(stored__in=names).values_list("stored", flat=True))
        storage.remove_stored_bytes(names - kept)

    def unknown(self, definition: Definition) -> dict[str, str]:
        fields = extra(definition, {"kind", "name", "team", "draft", "live", *CONTENT})
        fields |= extra(definition.get("live"), CONTENT, "live.")
        return fields

    def faults(self, definition: Definition) -> list[dict[str, str]]:
        shape: dict[str, Any] = {"text": (str,), "files": (dict,), "untrusted": (bool,)}
        faults = shapes.faults(definition, {**shape, **shapes.SHARED}) + faults_in_files(definition)
        if isinstance(live := definition.get("live"), dict):
            faults += shapes.faults(live, shape, "live.") + faults_in_files(live, "live.")
        return faults

    def rows(self, owner: Any) -> Iterable[Skill]:
        rows = Skill.objects.filter(owner=owner).order_by("name")
        return rows.select_related("team", "bundle", "published__bundle")

    def find(self, owner: Any, name: str) -> Skill | None:
        return (
            Skill.objects.filter(owner=owner, name=name).select_related("team", "bundle", "published__bundle").first()
        )

    def read(self, row: Skill) -> Definition:
        draft = build_skill_content(row)
        live = build_skill_content(row.published) if row.published else draft
        return {
            "kind": self.name,
            "name": row.name,
            **draft,
            **({} if live == draft else {"live": live}),
            **sharing(row),
        }

    def normal(self, definition: Definition, owner: Any) -> Definition:
        """Defaults left out; a text in base64 is the text."""
        kept = {name: definition[name] for name in ("kind", "name", "team", "draft") if definition.get(name)}
        live = {"live": normalize_skill_definition(definition["live"])} if definition.get("live") else {}
        return {**kept, **normalize_skill_definition(definition), **live}

    def left_open(self, definition: Definition) -> set[str]:
        """An apply reviews nothing: a file without the mark leaves the row's as it is."""
        return set() if definition.get("untrusted") else {"untrusted"}

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Skill | None) -> Skill:
        """Store the skill and publish it, unless it is a draft. `live` is published first."""
        row = row or Skill(owner=owner)
        row.name = definition["name"]
        share_definition(row, definition.get("team"))
        if definition.get("live"):
            self.save_content(row, definition["live"], actor, is_live=True)
            publish_skill_definition(row, actor)
        self.save_content(row, definition, actor, is_live=False)
        if not definition.get("draft") and not definition.get("live"):
            publish_skill_definition(row, actor)
        carry(row)
        return row

    def save_content(self, row: Skill, content: Definition, actor: Any, *, is_live: bool) -> None:
        """Store the working row. Raises Invalid, Conflict, TooLarge."""
        place = (row.name, is_live)
        contents = read_defined_files(content)
        marks: dict[str, Any] = {"untrusted": bool(content.get("untrusted")), "source": "definitions"}
        prepared: dict[str, Any] = {"archive": self.archives.get(place), "read": self.documents.get(place)}
        store.save_skill(row, content.get("text", ""), contents, user=actor, **marks, **prepared)


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
    sent = definition.get("files") or {}
    content = {path: write_content(read_content(path, one)) for path, one in sorted(sent.items())}
    untrusted = {"untrusted": True} if definition.get("untrusted") else {}
    return {"text": definition.get("text", ""), **({"files": content} if content else {}), **untrusted}


def faults_in_files(definition: Definition, place: str = "") -> list[dict[str, str]]:
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
    return isinstance(one, dict) and one.keys() == {"base64"} and isinstance(one["base64"], str)


def read_defined_files(definition: Definition) -> dict[str, bytes]:
    """Its files besides SKILL.md. Raises Invalid, TooLarge."""
    sent = definition.get("files") or {}
    contents = files.check_skill_files({path: read_content(path, one) for path, one in sent.items()})
    if files.MAIN in contents:
        raise Invalid(f"{files.MAIN} is the field “text”, not a file.", code="invalid")
    return contents


def publish_skill_definition(row: Skill, actor: Any) -> None:
    store.publish_skill(row, user=actor, note="from a definition file", source="definitions")
