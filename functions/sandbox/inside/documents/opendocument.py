"""OpenDocument: texts, spreadsheets and presentations of LibreOffice and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .office import Package, child_or_empty, read_attribute, split_at_headings, strip_namespace
from .report import HIDDEN_SHEET, HIDDEN_SLIDE, PICTURE, LeftOut, Part, Refused

MANIFEST = "META-INF/manifest.xml"
ROWS = 200_000
# Empty cells in a row that are shown.
REPEATED = 50


def read_opendocument(package: Package, left_out: LeftOut) -> Iterator[Part]:
    manifest = package.archive.read(MANIFEST) if MANIFEST in package.members else b""
    if b"encryption-data" in manifest:
        raise Refused("encrypted", "The file is encrypted: remove its password and add it again.")
    root = package.parse_part("content.xml")
    reader = Reader(left_out, find_hidden_styles(root))
    for content in child_or_empty(root, "body"):
        kind = strip_namespace(content.tag)
        if kind == "presentation":
            yield from reader.read_slides(content)
        elif kind == "spreadsheet":
            yield from reader.read_sheets(content)
        else:
            yield from split_at_headings(reader.read_blocks(content))


def find_hidden_styles(root: Any) -> frozenset[str]:
    """The names of styles whose sheets or slides are not shown."""
    hidden = set()
    for style in child_or_empty(root, "automatic-styles"):
        for properties in style:
            is_off = read_attribute(properties, "display") == "false"
            if is_off or read_attribute(properties, "visibility") == "hidden":
                hidden.add(read_attribute(style, "name"))
    return frozenset(hidden)


class Reader:
    def __init__(self, left_out: LeftOut, hidden_styles: frozenset[str]) -> None:
        self.left_out, self.hidden_styles = left_out, hidden_styles
        # Lines of frames and notes that belong below the present paragraph.
        self.aside: list[str] = []
        # Rows with content, of all tables.
        self.count = 0

    def read_slides(self, content: Any) -> Iterator[Part]:
        number = 0
        for page in content:
            if strip_namespace(page.tag) == "page":
                number += 1
                if read_attribute(page, "style-name") in self.hidden_styles:
                    self.left_out.note(f"slide {number}", HIDDEN_SLIDE)
                yield {"text": "\n".join(text for _, text in self.read_blocks(page)), "page": number}

    def read_sheets(self, content: Any) -> Iterator[Part]:
        for table in content:
            if strip_namespace(table.tag) != "table":
                continue
            name = read_attribute(table, "name")
            if read_attribute(table, "style-name") in self.hidden_styles:
                self.left_out.note(f"sheet {name}", HIDDEN_SHEET)
            rows = filter(None, self.read_rows(table))
            yield {"text": "\n".join(rows), "heading": name}

    def read_blocks(self, element: Any) -> Iterator[tuple[bool, str]]:
        """(whether it is a heading, text) of each paragraph and row, in order."""
        for one in element:
            tag = strip_namespace(one.tag)
            if tag in ("p", "h"):
                pieces: list[str] = []
                self.collect_text(one, pieces)
                yield tag == "h", "".join(pieces)
                aside, self.aside = self.aside, []
                yield from ((False, line) for line in aside)
            elif tag == "table":
                yield from ((False, row) for row in self.read_rows(one))
            elif tag == "tracked-changes":
                self.left_out.add("tracked changes", "Text that was deleted, and not yet accepted.")
            elif tag == "image":
                self.left_out.add("pictures", PICTURE)
            elif tag not in ("forms", "sequence-decls"):
                yield from self.read_blocks(one)

    def collect_text(self, element: Any, pieces: list[str]) -> None:
        """The text of what is inside a paragraph; frames and notes are kept for the lines below it."""
        pieces.append(element.text or "")
        for one in element:
            tag = strip_namespace(one.tag)
            if tag == "s":
                count = read_attribute(one, "c")
                pieces.append(" " * min(int(count) if count.isdecimal() else 1, 100))
            elif tag == "tab":
                pieces.append("\t")
            elif tag == "line-break":
                pieces.append("\n")
            elif tag in ("note", "annotation"):
                title = "note" if tag == "note" else "comment"
                text = " ".join(text for _, text in self.read_inside(one))
                self.aside.append(f"[{title}: {text.strip()}]")
            elif tag == "frame":
                self.aside += [text for _, text in self.read_inside(one) if text.strip()]
            else:
                self.collect_text(one, pieces)
            pieces.append(one.tail or "")

    def read_inside(self, element: Any) -> list[tuple[bool, str]]:
        """Blocks within a paragraph or cell, without the lines that wait for the paragraph around them."""
        outer, self.aside = self.aside, []
        blocks = list(self.read_blocks(element))
        self.aside = outer
        return blocks

    def read_rows(self, table: Any) -> Iterator[str]:
        for one in table:
            tag = strip_namespace(one.tag)
            if tag == "table-row":
                line = self.read_row(one)
                if line:
                    self.count += 1
                if self.count > ROWS:
                    raise Refused("too_many_rows", f"The file has more than {ROWS:,} rows.")
                yield line
            elif tag in ("table-header-rows", "table-rows", "table-row-group"):
                yield from self.read_rows(one)

    def read_row(self, row: Any) -> str:
        cells: list[str] = []
        for cell in row:
            if strip_namespace(cell.tag) not in ("table-cell", "covered-table-cell"):
                continue
            text = " ".join(text.strip() for _, text in self.read_inside(cell) if text.strip())
            if not text:
                text = read_attribute(cell, "value") or read_attribute(cell, "date-value")
            times = 1
            repeated = read_attribute(cell, "number-columns-repeated")
            if repeated.isdecimal():
                # A sheet ends with a cell that is repeated up to its last column.
                times = min(int(repeated), REPEATED)
            cells += [text] * times
        while cells and not cells[-1]:
            cells.pop()
        return " | ".join(cells)
