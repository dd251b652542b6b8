"""Word documents: paragraphs and tables in their order, with notes, comments, text boxes, headers and footers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .office import Package, attribute, chart_lines, child, is_on, local
from .report import PICTURE, LeftOut, Part

HEADINGS = ("heading", "title", "überschrift", "titre", "título", "titolo")  # names of styles, also those of old files
DELETED = ("del", "moveFrom")
PASSED_OVER = frozenset(["rPr", "pPr", "instrText", "delText", "delInstrText", "sdtPr", "sdtEndPr", "tblPr", "sectPr"])


def read_word(package: Package, main: str, left_out: LeftOut) -> Iterator[Part]:
    document = Document(package, main, left_out)
    body = child(package.tree(main), "body")
    heading = ""
    lines: list[str] = []
    for is_heading, text in document.blocks(body if body is not None else ()):
        if is_heading:
            yield {"text": "\n".join(lines), "heading": heading}
            heading, lines = text.strip(), []
        else:
            lines.append(text)
    yield {"text": "\n".join(lines), "heading": heading}
    yield {"text": "\n".join(document.rest()), "heading": ""}


class Document:
    def __init__(self, package: Package, main: str, left_out: LeftOut) -> None:
        self.package, self.left_out = package, left_out
        self.relations = package.relations(main)
        self.aside: list[str] = []  # lines of text boxes and notes that belong below the present paragraph
        self.notes: dict[str, str] = {}  # also comments, by their kind and id
        self.headings = self.find_headings()
        for kind, tag in (("footnotes", "footnote"), ("endnotes", "endnote"), ("comments", "comment")):
            self.notes |= self.find_notes(kind, tag)

    def find_headings(self) -> frozenset[str]:
        """The ids of the styles that make a paragraph a heading, also by the style that they are based on."""
        styles: dict[str, tuple[str, str, bool]] = {}
        for name in self.targets("styles"):
            for style in self.package.tree(name):
                properties = child(style, "pPr")
                outline = child(properties, "outlineLvl") if properties is not None else None
                has_level = outline is not None and attribute(outline, "val") not in ("", "9")
                shown = attribute(child(style, "name"), "val").lower()
                styles[attribute(style, "styleId")] = (shown, attribute(child(style, "basedOn"), "val"), has_level)
        return frozenset(id for id in styles if is_heading_style(styles, id))

    def targets(self, kind: str) -> list[str]:
        return [one.target for one in self.relations.values() if one.kind == kind and not one.is_external]

    def find_notes(self, kind: str, tag: str) -> dict[str, str]:
        """The texts of notes or comments by their kind and id."""
        texts = {}
        for name in self.targets(kind):
            for note in self.package.tree(name):
                if local(note.tag) == tag:
                    text = self.plain_text(note)
                    author = attribute(note, "author")
                    texts[f"{tag} {attribute(note, 'id')}"] = f"{author}: {text}" if author and text else text
        return texts

    def plain_text(self, element: Any) -> str:
        outer, self.aside = self.aside, []
        text = " ".join(text.strip() for _, text in self.blocks(element) if text.strip())
        self.aside = outer
        return text

    # -- blocks ----------------------------------------------------------------------------------------------------

    def blocks(self, element: Any) -> Iterator[tuple[bool, str]]:
        """(whether it is a heading, text) of each paragraph and row, in order."""
        for one in element:
            tag = local(one.tag)
            if tag == "p":
                yield self.is_heading(one), self.paragraph(one)
                aside, self.aside = self.aside, []
                yield from ((False, line) for line in aside)
            elif tag == "tbl":
                yield from ((False, row) for row in self.rows(one))
            elif tag == "AlternateContent":
                yield from self.blocks(chosen(one))
            elif tag == "altChunk":
                self.left_out.add("an embedded document", "Documents inside a document are not read.")
            elif tag in DELETED:
                self.note_deleted(one)
            elif tag not in PASSED_OVER:  # content controls, insertions, custom XML: what is in them counts
                yield from self.blocks(one)

    def is_heading(self, paragraph: Any) -> bool:
        properties = child(paragraph, "pPr")
        if properties is None:
            return False
        style = attribute(child(properties, "pStyle"), "val")
        outline = child(properties, "outlineLvl")
        has_level = outline is not None and attribute(outline, "val") not in ("", "9")
        is_named = style in self.headings or (not self.headings and style.lower().startswith(HEADINGS))
        return has_level or is_named

    def paragraph(self, element: Any) -> str:
        pieces: list[str] = []
        self.collect(element, pieces)
        return "".join(pieces)

    def collect(self, element: Any, pieces: list[str]) -> None:
        """The text of what is inside a paragraph; text boxes and notes are kept for the lines below it."""
        for one in element:
            tag = local(one.tag)
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
            elif tag == "r" and is_on(child(child_or_empty(one, "rPr"), "vanish")):
                self.note_hidden(one)
            elif tag in DELETED:
                self.note_deleted(one)
            elif tag in ("footnoteReference", "endnoteReference"):
                self.add_aside("note", self.notes.get(f"{tag.removesuffix('Reference')} {attribute(one, 'id')}", ""))
            elif tag == "commentReference":
                self.add_aside("comment", self.notes.get(f"comment {attribute(one, 'id')}", ""))
            elif tag == "txbxContent":
                outer, self.aside = self.aside, []
                lines = [text for _, text in self.blocks(one) if text.strip()]
                self.aside = [*outer, *lines]
            elif tag == "AlternateContent":
                self.collect(chosen(one), pieces)
            elif tag == "docPr":
                self.note_drawing(one)
            elif tag == "blip" or tag == "imagedata":
                self.left_out.add("pictures", PICTURE)
            elif tag == "chart":
                self.add_chart(one)
            elif tag == "OLEObject":
                self.left_out.add("embedded objects", "Files inside a document are not read.")
            elif tag not in PASSED_OVER:
                self.collect(one, pieces)

    def add_aside(self, title: str, text: str) -> None:
        if text:
            self.aside.append(f"[{title}: {text}]")

    def note_drawing(self, properties: Any) -> None:
        """The alternative text of a picture or drawing is text."""
        if description := attribute(properties, "descr").strip():
            self.aside.append(f"[picture: {description}]")

    def add_chart(self, reference: Any) -> None:
        relation = self.relations.get(attribute(reference, "id"))
        if relation is not None and not relation.is_external:
            self.aside += chart_lines(self.package, relation.target)

    def note_deleted(self, element: Any) -> None:
        if any(local(one.tag) in ("delText", "t") and one.text for one in element.iter()):
            self.left_out.add("tracked changes", "Text that was deleted or moved away, and not yet accepted.")

    def note_hidden(self, run: Any) -> None:
        if any(local(one.tag) == "t" and one.text for one in run.iter()):
            self.left_out.add("hidden text", "Text that Word does not show.")

    # -- tables ----------------------------------------------------------------------------------------------------

    def rows(self, table: Any) -> Iterator[str]:
        for row in inner(table, "tr"):
            properties = child_or_empty(row, "trPr")
            if child(properties, "del") is not None:
                self.note_deleted(row)
                continue
            cells = [""] * number_in(properties, "gridBefore", 0)
            for cell in inner(row, "tc"):
                cells.append(self.plain_text(cell))
                cells += [""] * (number_in(child_or_empty(cell, "tcPr"), "gridSpan", 1) - 1)
            yield " | ".join(cells)

    # -- the rest --------------------------------------------------------------------------------------------------

    def rest(self) -> Iterator[str]:
        """Headers and footers, each text once."""
        for kind in ("header", "footer"):
            texts = [self.plain_text(self.package.tree(name)) for name in self.targets(kind)]
            for text in dict.fromkeys(filter(None, texts)):
                yield f"{kind.capitalize()}: {text}"


def is_heading_style(styles: dict[str, tuple[str, str, bool]], id: str) -> bool:
    seen: set[str] = set()
    while id in styles and id not in seen:
        seen.add(id)
        name, based_on, has_level = styles[id]
        if has_level or name.startswith(HEADINGS):
            return True
        id = based_on
    return False


def chosen(alternative: Any) -> Any:
    """One of the branches that say the same for different programs: the first with text, else the first."""
    branches = list(alternative)
    for branch in branches:
        if any(local(one.tag) == "t" and one.text for one in branch.iter()):
            return branch
    return branches[0] if branches else ()


def child_or_empty(element: Any, name: str) -> Any:
    one = child(element, name)
    return one if one is not None else ()


def inner(element: Any, name: str) -> Iterator[Any]:
    """The rows of a table or the cells of a row, also those in content controls and tracked insertions."""
    for one in element:
        tag = local(one.tag)
        if tag == name:
            yield one
        elif tag in ("sdt", "sdtContent", "ins", "customXml", "smartTag"):
            yield from inner(one, name)


def number_in(properties: Any, name: str, default: int) -> int:
    text = attribute(child(properties, name), "val")
    return min(int(text), 100) if text.isdecimal() else default
