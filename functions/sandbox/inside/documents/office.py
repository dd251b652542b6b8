"""Packages of office programs: Word, Excel and PowerPoint since 2007, and OpenDocument.

The main document is found through the package's relationships, as its programs do, and by its usual name where these
are missing. Only the standard library is used: see docs/documents.md for how this compares with libraries.
"""

from __future__ import annotations

import io
import posixpath
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

from .report import LeftOut, Part, Refused

# Bytes of all members of an archive.
UNPACKED = 200 << 20
MEMBERS = 20_000
MAIN_TYPES = {"wordprocessingml": "word", "ms-word": "word", "spreadsheetml": "sheets", "ms-excel": "sheets",
              "presentationml": "slides", "ms-powerpoint": "slides"}  # fmt: skip
USUAL_MAINS = {"word/document.xml": "word", "xl/workbook.xml": "sheets", "ppt/presentation.xml": "slides"}


def strip_namespace(tag: Any) -> str:
    """The name of an element or attribute without its namespace, which differs between strict and usual documents."""
    # Comments and the like have a function as their tag.
    if not isinstance(tag, str):
        return ""
    return tag.rpartition("}")[2]


def find_child(element: Any, name: str) -> Any:
    """The first child of this name; None if there is none."""
    for one in element:
        if strip_namespace(one.tag) == name:
            return one
    return None


def child_or_empty(element: Any, name: str) -> Any:
    """The first child of this name to iterate over; nothing if there is none."""
    child = find_child(element, name)
    if child is None:
        return ()
    return child


def find_descendant(element: Any, name: str) -> Any:
    """The first element of this name at any depth; None if there is none."""
    for one in element.iter():
        if strip_namespace(one.tag) == name:
            return one
    return None


def read_attribute(element: Any, name: str) -> str:
    """The value of an attribute in any namespace; empty if it has none."""
    if element is None:
        return ""
    for key, value in element.attrib.items():
        if strip_namespace(key) == name:
            return str(value)
    return ""


def is_enabled(element: Any) -> bool:
    """Whether a switch such as <w:vanish/> is on."""
    if element is None:
        return False
    return read_attribute(element, "val").lower() not in ("0", "false", "off", "none")


class Relation:
    """A link from one part of a package to another."""

    def __init__(self, kind: str, target: str, is_external: bool) -> None:
        self.kind = kind
        self.target = target
        self.is_external = is_external


class Package:
    """The parts of an office file. Raises Refused for one that is encrypted, too large or hostile."""

    def __init__(self, content: bytes, left_out: LeftOut) -> None:
        self.archive = zipfile.ZipFile(io.BytesIO(content))
        self.left_out = left_out
        self.members = {member.filename: member for member in self.archive.infolist()}
        self.check()

    def check(self) -> None:
        members = self.members.values()
        unpacked = sum(member.file_size for member in members)
        if unpacked > UNPACKED or len(members) > MEMBERS:
            raise Refused("too_large", f"Unpacked, the file has more than {UNPACKED >> 20} MB.")
        # The lowest bit says that a member is encrypted.
        if any(member.flag_bits & 1 for member in members):
            raise Refused("encrypted", "The file is encrypted: remove its password and add it again.")
        for name in self.members:
            if name.endswith((".xml", ".rels")) and self.declares_entities(name):
                raise Refused("xml_entities", "The file declares XML entities, which no office program writes.")

    def declares_entities(self, name: str) -> bool:
        with self.archive.open(name) as file:
            # In UTF-16 every other byte is zero.
            beginning = file.read(1024).replace(b"\0", b"")
        return b"<!DOCTYPE" in beginning

    def read_media_type(self) -> str:
        """What an OpenDocument file says it is; empty for others."""
        if "mimetype" not in self.members:
            return ""
        return self.archive.read("mimetype")[:200].decode("ascii", "replace").strip()

    def find_main_part(self) -> tuple[str, str]:
        """The name of the main document and its reader; two empty texts if this is no office file."""
        for relation in self.read_relations("").values():
            if relation.kind == "officeDocument" and relation.target in self.members:
                return relation.target, self.find_reader(relation.target)
        for name, reader in USUAL_MAINS.items():
            if name in self.members:
                return name, reader
        return "", ""

    def find_reader(self, name: str) -> str:
        kind = self.read_content_types().get(name, "")
        if "binary" in kind:
            raise Refused("unsupported_type", "Binary workbooks (XLSB) are not read: save it as XLSX.")
        for part, reader in MAIN_TYPES.items():
            if part in kind:
                return reader
        folder = {"word": "word", "xl": "sheets", "ppt": "slides"}
        return folder.get(name.partition("/")[0], "")

    def read_content_types(self) -> dict[str, str]:
        types = {}
        for one in self.parse_part("[Content_Types].xml", is_needed=False):
            if strip_namespace(one.tag) == "Override":
                types[read_attribute(one, "PartName").lstrip("/")] = read_attribute(one, "ContentType")
        return types

    def parse_part(self, name: str, *, is_needed: bool = True) -> Any:
        """The root of a part. One that is missing or damaged is empty and, if it is needed, listed."""
        try:
            return ElementTree.fromstring(self.archive.read(name))
        except KeyError:
            reason = "This part of the file is missing."
        except ElementTree.ParseError:
            reason = "This part of the file is damaged."
        if is_needed:
            self.left_out.add(name, reason)
        return ElementTree.Element("missing")

    def is_well_formed(self, name: str) -> bool:
        try:
            with self.archive.open(name) as file:
                for _, element in ElementTree.iterparse(file):
                    element.clear()
        except ElementTree.ParseError:
            return False
        return True

    def open_part(self, name: str) -> Any:
        return self.archive.open(name)

    def read_relations(self, name: str) -> dict[str, Relation]:
        """The links of a part by their ids."""
        folder, base = posixpath.split(name)
        relations = {}
        for one in self.parse_part(posixpath.join(folder, "_rels", f"{base}.rels"), is_needed=False):
            target = read_attribute(one, "Target")
            is_external = read_attribute(one, "TargetMode") == "External"
            if not is_external:
                target = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            kind = read_attribute(one, "Type").rpartition("/")[2]
            relations[read_attribute(one, "Id")] = Relation(kind, target, is_external)
        return relations

    def find_related(self, name: str, kind: str) -> list[str]:
        """The names of the parts of this kind that a part links to."""
        relations = self.read_relations(name)
        return list_targets(relations, kind)


def list_targets(relations: dict[str, Relation], kind: str) -> list[str]:
    """The names of the parts of this kind that these links lead to."""
    return [one.target for one in relations.values() if one.kind == kind and not one.is_external]


def split_at_headings(blocks: Iterable[tuple[bool, str]]) -> Iterator[Part]:
    """One part for the text below each heading. Each block is (whether it is a heading, text)."""
    heading = ""
    lines: list[str] = []
    for is_heading, text in blocks:
        if is_heading:
            yield {"text": "\n".join(lines), "heading": heading}
            heading, lines = text.strip(), []
        else:
            lines.append(text)
    yield {"text": "\n".join(lines), "heading": heading}


def read_paragraphs(element: Any) -> list[str]:
    """The paragraphs of a drawing: text boxes, shapes, diagrams."""
    lines = []
    for paragraph in element.iter():
        if strip_namespace(paragraph.tag) != "p":
            continue
        pieces = []
        for one in paragraph.iter():
            if strip_namespace(one.tag) == "t":
                pieces.append(one.text or "")
            elif strip_namespace(one.tag) == "br":
                pieces.append("\n")
        lines.append("".join(pieces))
    return [line for line in lines if line.strip()]


def read_description(picture: Any) -> str:
    """The alternative text of a picture; empty if it has none."""
    properties = find_descendant(picture, "cNvPr")
    return read_attribute(properties, "descr").strip()


def read_chart(package: Package, name: str) -> list[str]:
    """The title, the names and the stored values of a chart."""
    root = package.parse_part(name)
    head = "Chart"
    titles = read_paragraphs(root)
    if titles:
        head = f"Chart: {' – '.join(titles)}"
    lines = [head]
    for series in root.iter():
        if strip_namespace(series.tag) == "ser":
            values = [read_value(one) for one in series.iter() if strip_namespace(one.tag) == "pt"]
            lines.append(" | ".join(filter(None, values)))
    return lines


def read_value(point: Any) -> str:
    value = find_child(point, "v")
    if value is None:
        return ""
    return (value.text or "").strip()
