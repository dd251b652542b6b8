"""Word documents: paragraphs and tables in their order, with notes, comments, text boxes, headers and footers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .office import (
    Package,
    child_or_empty,
    find_child,
    is_enabled,
    list_targets,
    read_attribute,
    read_chart,
    split_at_headings,
    strip_namespace,
)
from .report import PICTURE, LeftOut, Part

# Names of styles, also those of old files.
HEADINGS = ("heading", "title", "überschrift", "titre", "título", "titolo")
DELETED = ("del", "moveFrom")
PASSED_OVER = frozenset(["rPr", "pPr", "instrText", "delText", "delInstrText", "sdtPr", "sdtEndPr", "tblPr", "sectPr"])


def read_word(package: Package, main: str, left_out: LeftOut) -> Iterator[Part]:
    document = Document(package, main, left_out)
    body = child_or_empty(package.parse_part(main), "body")
    yield from split_at_headings(document.read_blocks(body))
    yield {"text": "\n".join(document.read_headers_and_footers()), "heading": ""}


class Document:
    def __init__(self, package: Package, main: str, left_out: LeftOut) -> None:
        self.package, self.left_out = package, left_out
        self.relations = package.read_relations(main)
        # Lines of text boxes and notes that belong below the present paragraph.
        self.aside: list[str] = []
        # Also comments, by their kind and id.
        self.notes: dict[str, str] = {}
        self.headings = self.find_headings()
        for kind, tag in (("footnotes", "footnote"), ("endnotes", "endnote"), ("comments", "comment")):
            self.notes |= self.find_notes(kind, tag)

    def find_headings(self) -> frozenset[str]:
        """The ids of the styles that make a paragraph a heading, also by the style that they are based on."""
        styles: dict[str, tuple[str, str, bool]] = {}
        for name in list_targets(self.relations, "styles"):
            for style in self.package.parse_part(name):
                shown_name = read_attribute(find_child(style, "name"), "val").lower()
                based_on = read_attribute(find_child(style, "basedOn"), "val")
                has_level = has_outline_level(child_or_empty(style, "pPr"))
                styles[read_attribute(style, "styleId")] = (shown_name, based_on, has_level)
        return frozenset(id for id in styles if id and is_heading_style(styles, id))

    def find_notes(self, kind: str, tag: str) -> dict[str, str]:
        """The texts of notes or comments by their kind and id."""
        texts = {}
        for name in list_targets(self.relations, kind):
            for note in self.package.parse_part(name):
                if strip_namespace(note.tag) == tag:
                    text = self.read_plain_text(note)
                    author = read_attribute(note, "author")
                    texts[f"{tag} {read_attribute(note, 'id')}"] = f"{author}: {text}" if author and text else text
        return texts

    def read_plain_text(self, element: Any) -> str:
        outer, self.aside = self.aside, []
        text = " ".join(text.strip() for _, text in self.read_blocks(element) if text.strip())
        self.aside = outer
        return text

    # -- blocks ----------------------------------------------------------------------------------------------------

    def read_blocks(self, element: Any) -> Iterator[tuple[bool, str]]:
        """(whether it is a heading, text) of each paragraph and row, in order."""
        for one in element:
            tag = strip_namespace(one.tag)
            if tag == "p":
                yield self.is_heading(one), self.read_paragraph(one)
                aside, self.aside = self.aside, []
                yield from ((False, line) for line in aside)
            elif tag == "tbl":
                yield from ((False, row) for row in self.read_rows(one))
            elif tag == "AlternateContent":
                yield from self.read_blocks(choose_branch(one))
            elif tag == "altChunk":
                self.left_out.add("an embedded document", "Documents inside a document are not read.")
            elif tag in DELETED:
                self.note_deleted(one)
            elif tag not in PASSED_OVER:  # content controls, insertions, custom XML: what is in them counts
                yield from self.read_blocks(one)

    def is_heading(self, paragraph: Any) -> bool:
        properties = child_or_empty(paragraph, "pPr")
        style = read_attribute(find_child(properties, "pStyle"), "val")
        if has_outline_level(properties) or style in self.headings:
            return True
        # The file describes no styles.
        return not self.headings and style.lower().startswith(HEADINGS)

    def read_paragraph(self, element: Any) -> str:
        pieces: list[str] = []
        self.collect_text(element, pieces)
        return "".join(pieces)

    def collect_text(self, element: Any, pieces: list[str]) -> None:
        """The text of what is inside a paragraph; text boxes and notes are kept for the lines below it."""
        for one in element:
            tag = strip_namespace(one.tag)
            if tag == "t":
                pieces.append(one.text or "")
            elif tag == "tab":
                pieces.append("\t")
            elif tag in ("br", "cr"):
                pieces.append("\n")
            elif tag == "noBreakHyphen":
                pieces.append("-")
            elif tag == "sym":
                self.left_out.add("symbols", "A letter of a symbol font has no text.")
            elif tag == "r" and is_enabled(find_child(child_or_empty(one, "rPr"), "vanish")):
                self.note_hidden(one)
            elif tag in DELETED:
                self.note_deleted(one)
            elif tag in ("footnoteReference", "endnoteReference"):
                kind = tag.removesuffix("Reference")
                self.add_aside("note", self.notes.get(f"{kind} {read_attribute(one, 'id')}", ""))
            elif tag == "commentReference":
                self.add_aside("comment", self.notes.get(f"comment {read_attribute(one, 'id')}", ""))
            elif tag == "txbxContent":
                outer, self.aside = self.aside, []
                lines = [text for _, text in self.read_blocks(one) if text.strip()]
                self.aside = [*outer, *lines]
            elif tag == "AlternateContent":
                self.collect_text(choose_branch(one), pieces)
            elif tag == "docPr":
                self.note_drawing(one)
            elif tag == "blip" or tag == "imagedata":
                self.left_out.add("pictures", PICTURE)
            elif tag == "chart":
                self.add_chart(one)
            elif tag == "OLEObject":
                self.left_out.add("embedded objects", "Files inside a document are not read.")
            elif tag not in PASSED_OVER:
                self.collect_text(one, pieces)

    def add_aside(self, title: str, text: str) -> None:
        if text:
            self.aside.append(f"[{title}: {text}]")

    def note_drawing(self, properties: Any) -> None:
        """The alternative text of a picture or drawing is text."""
        description = read_attribute(properties, "descr").strip()
        if description:
            self.aside.append(f"[picture: {description}]")

    def add_chart(self, reference: Any) -> None:
        relation = self.relations.get(read_attribute(reference, "id"))
        if relation is not None and not relation.is_external:
            self.aside += read_chart(self.package, relation.target)

    def note_deleted(self, element: Any) -> None:
        if any(strip_namespace(one.tag) in ("delText", "t") and one.text for one in element.iter()):
            self.left_out.add("tracked changes", "Text that was deleted or moved away, and not yet accepted.")

    def note_hidden(self, run: Any) -> None:
        if any(strip_namespace(one.tag) == "t" and one.text for one in run.iter()):
            self.left_out.add("hidden text", "Text that Word does not show.")

    # -- tables ----------------------------------------------------------------------------------------------------

    def read_rows(self, table: Any) -> Iterator[str]:
        for row in find_elements(table, "tr"):
            properties = child_or_empty(row, "trPr")
            if find_child(properties, "del") is not None:
                self.note_deleted(row)
                continue
            cells = [""] * read_number(properties, "gridBefore", 0)
            for cell in find_elements(row, "tc"):
                cells.append(self.read_plain_text(cell))
                cells += [""] * (read_number(child_or_empty(cell, "tcPr"), "gridSpan", 1) - 1)
            yield " | ".join(cells)

    # -- the rest --------------------------------------------------------------------------------------------------

    def read_headers_and_footers(self) -> Iterator[str]:
        """Headers and footers, each text once."""
        for kind in ("header", "footer"):
            texts = []
            for name in list_targets(self.relations, kind):
                texts.append(self.read_plain_text(self.package.parse_part(name)))
            for text in dict.fromkeys(filter(None, texts)):
                yield f"{kind.capitalize()}: {text}"


def has_outline_level(properties: Any) -> bool:
    """Whether these properties make a paragraph a heading: 9 is the level of body text."""
    level = read_attribute(find_child(properties, "outlineLvl"), "val")
    return level not in ("", "9")


def is_heading_style(styles: dict[str, tuple[str, str, bool]], id: str) -> bool:
    seen: set[str] = set()
    while id in styles and id not in seen:
        seen.add(id)
        name, based_on, has_level = styles[id]
        if has_level or name.startswith(HEADINGS):
            return True
        id = based_on
    return False


def choose_branch(alternative: Any) -> Any:
    """One of the branches that say the same for different programs: the first with text, else the first."""
    branches = list(alternative)
    for branch in branches:
        if any(strip_namespace(one.tag) == "t" and one.text for one in branch.iter()):
            return branch
    if not branches:
        return ()
    return branches[0]


def find_elements(element: Any, name: str) -> Iterator[Any]:
    """The rows of a table or the cells of a row, also those in content controls and tracked insertions."""
    for one in element:
        tag = strip_namespace(one.tag)
        if tag == name:
            yield one
        elif tag in ("sdt", "sdtContent", "ins", "customXml", "smartTag"):
            yield from find_elements(one, name)


def read_number(properties: Any, name: str, default: int) -> int:
    """At most 100: a damaged file must not make a row of a million empty cells."""
    text = read_attribute(find_child(properties, name), "val")
    if not text.isdecimal():
        return default
    return min(int(text), 100)
