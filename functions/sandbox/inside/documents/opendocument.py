"""OpenDocument: texts, spreadsheets and presentations of LibreOffice and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .office import Package, attribute, child, local
from .report import HIDDEN_SHEET, HIDDEN_SLIDE, PICTURE, LeftOut, Part, Refused

ROWS = 200_000
REPEATED = 50  # empty cells in a row that are shown


def read_opendocument(package: Package, left_out: LeftOut) -> Iterator[Part]:
    if "META-INF/manifest.xml" in package.members and b"encryption-data" in package.archive.read(
        "META-INF/manifest.xml"
    ):
        raise Refused("encrypted", "The file is encrypted: remove its password and add it again.")
    root = package.tree("content.xml")
    body = child(root, "body")
    reader = Reader(left_out, find_hidden_styles(root))
    for content in body if body is not None else ():
        kind = local(content.tag)
        if kind == "presentation":
            yield from reader.slides(content)
        elif kind == "spreadsheet":
            yield from reader.sheets(content)
        else:
            yield from reader.sections(content)


def find_hidden_styles(root: Any) -> frozenset[str]:
    """The names of styles whose sheets or slides are not shown."""
    hidden = set()
    styles = child(root, "automatic-styles")
    for style in styles if styles is not None else ():
        for properties in style:
            if attribute(properties, "display") == "false" or attribute(properties, "visibility") == "hidden":
                hidden.add(attribute(style, "name"))
    return frozenset(hidden)


class Reader:
    def __init__(self, left_out: LeftOut, hidden_styles: frozenset[str]) -> None:
        self.left_out, self.hidden_styles = left_out, hidden_styles
        self.aside: list[str] = []
        self.count = 0

    def sections(self, content: Any) -> Iterator[Part]:
        heading = ""
        lines: list[str] = []
        for is_heading, text in self.blocks(content):
            if is_heading:
                yield {"text": "\n".join(lines), "heading": heading}
                heading, lines = text.strip(), []
            else:
                lines.append(text)
        yield {"text": "\n".join(lines), "heading": heading}

    def slides(self, content: Any) -> Iterator[Part]:
        number = 0
        for page in content:
            if local(page.tag) == "page":
                number += 1
                if attribute(page, "style-name") in self.hidden_styles:
                    self.left_out.note(f"slide {number}", HIDDEN_SLIDE)
                yield {"text": "\n".join(text for _, text in self.blocks(page)), "page": number}

    def sheets(self, content: Any) -> Iterator[Part]:
        for table in content:
            if local(table.tag) == "table":
                if attribute(table, "style-name") in self.hidden_styles:
                    self.left_out.note(f"sheet {attribute(table, 'name')}", HIDDEN_SHEET)
                yield {"text": "\n".join(filter(None, self.rows(table))), "heading": attribute(table, "name")}

    def blocks(self, element: Any) -> Iterator[tuple[bool, str]]:
        for one in element:
            tag = local(one.tag)
            if tag in ("p", "h"):
                pieces: list[str] = []
                self.collect(one, pieces)
                yield tag == "h", "".join(pieces)
                aside, self.aside = self.aside, []
                yield from ((False, line) for line in aside)
            elif tag == "table":
                yield from ((False, row) for row in self.rows(one))
            elif tag == "tracked-changes":
                self.left_out.add("tracked changes", "Text that was deleted, and not yet accepted.")
            elif tag == "image":
                self.left_out.add("pictures", PICTURE)
            elif tag not in ("forms", "sequence-decls"):
                yield from self.blocks(one)

    def collect(self, element: Any, pieces: list[str]) -> None:
        pieces.append(element.text or "")
        for one in element:
            tag = local(one.tag)
            if tag == "s":
                count = attribute(one, "c")
                pieces.append(" " * min(int(count) if count.isdecimal() else 1, 100))
            elif tag == "tab":
                pieces.append("\t")
            elif tag == "line-break":
                pieces.append("\n")
            elif tag in ("note", "annotation"):
                title = "note" if tag == "note" else "comment"
                text = " ".join(text for _, text in self.inside(one))
                self.aside.append(f"[{title}: {text.strip()}]")
            elif tag == "frame":
                self.aside += [text for _, text in self.inside(one) if text.strip()]
            else:
                self.collect(one, pieces)
            pieces.append(one.tail or "")

    def inside(self, element: Any) -> list[tuple[bool, str]]:
        outer, self.aside = self.aside, []
        blocks = list(self.blocks(element))
        self.aside = outer
        return blocks

    def rows(self, table: Any) -> Iterator[str]:
        for one in table:
            tag = local(one.tag)
            if tag == "table-row":
                line = self.row(one)
                self.count += 1 if line else 0
                if self.count > ROWS:
                    raise Refused("too_many_rows", f"The file has more than {ROWS:,} rows.")
                yield line
            elif tag in ("table-header-rows", "table-rows", "table-row-group"):
                yield from self.rows(one)

    def row(self, row: Any) -> str:
        cells: list[str] = []
        for cell in row:
            if local(cell.tag) not in ("table-cell", "covered-table-cell"):
                continue
            text = " ".join(text.strip() for _, text in self.inside(cell) if text.strip())
            repeated = attribute(cell, "number-columns-repeated")
            times = min(int(repeated), REPEATED) if repeated.isdecimal() else 1
            cells += [text or attribute(cell, "value") or attribute(cell, "date-value")] * times
        while cells and not cells[-1]:
            cells.pop()
        return " | ".join(cells)
