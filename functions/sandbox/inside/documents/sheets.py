"""Excel workbooks: every cell at its column, with stored values of formulas, comments and text boxes."""

from __future__ import annotations

import datetime
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Any

from .office import Package, attribute, chart_lines, child, local, texts_in
from .report import HIDDEN_SHEET, PICTURE, LeftOut, Part, Refused

ROWS = 200_000  # with content, of all sheets
FAR = 50  # empty columns in a row that are shown; a cell after more of them is shown with its address
REFERENCE = re.compile(r"([A-Z]{1,3})(\d+)")
QUOTED = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|[_*].')  # parts of a number format that are no codes
BUILT_IN_DATES = frozenset([*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)])
CHARTS = {"chartsheet": "chart", "dialogsheet": "dialog", "xlMacrosheet": "macro"}


def read_sheets(package: Package, main: str, left_out: LeftOut) -> Iterator[Part]:
    workbook = Workbook(package, main, left_out)
    for title, relation_id, is_hidden in workbook.sheets:
        if is_hidden:
            left_out.note(f"sheet {title}", HIDDEN_SHEET)
        relation = workbook.relations.get(relation_id)
        if relation is None or relation.target not in package.members:
            left_out.add(f"sheet {title}", "The sheet is missing in the file.")
        elif relation.kind in CHARTS:
            yield {"text": "\n".join(workbook.drawings(relation.target, title)), "heading": title}
            if CHARTS[relation.kind] != "chart":
                left_out.add(f"sheet {title}", "Sheets with dialogs or macros are not read.")
        else:
            yield {"text": "\n".join(workbook.lines_of(relation.target, title)), "heading": title}


class Workbook:
    def __init__(self, package: Package, main: str, left_out: LeftOut) -> None:
        self.package, self.left_out = package, left_out
        self.relations = package.relations(main)
        root = package.tree(main)
        self.sheets: list[tuple[str, str, bool]] = []
        for one in child_list(root, "sheets"):
            is_hidden = attribute(one, "state") in ("hidden", "veryHidden")
            self.sheets.append((attribute(one, "name"), attribute(one, "id"), is_hidden))
        self.is_1904 = attribute(child(root, "workbookPr"), "date1904") in ("1", "true")
        self.shared = list(self.shared_texts())
        self.dates = self.date_styles()
        self.count = 0

    def parts(self, kind: str) -> list[str]:
        return [one.target for one in self.relations.values() if one.kind == kind and not one.is_external]

    def shared_texts(self) -> Iterator[str]:
        for name in self.parts("sharedStrings"):
            for one in self.elements(name, "si"):
                yield text_in(one)

    def elements(self, name: str, tag: str) -> Iterator[Any]:
        """Each element of this name, read without keeping those before it."""
        try:
            with self.package.open(name) as file:
                parents: list[Any] = []
                for event, element in ElementTree.iterparse(file, events=("start", "end")):
                    if event == "start":
                        parents.append(element)
                        continue
                    parents.pop()
                    if local(element.tag) == tag:
                        yield element
                        element.clear()
                        if parents:
                            parents[-1].remove(element)
        except KeyError:
            self.left_out.add(name, "This part of the file is missing.")
        except ElementTree.ParseError:
            self.left_out.add(name, "This part of the file is damaged: what stands behind is lost.")

    def date_styles(self) -> dict[int, str]:
        """The styles of cells that show a number as a date or a time: "date", "time" or "both"."""
        dates = {}
        for name in self.parts("styles"):
            root = self.package.tree(name)
            codes = {attribute(one, "numFmtId"): attribute(one, "formatCode") for one in child_list(root, "numFmts")}
            for number, style in enumerate(child_list(root, "cellXfs")):
                id = attribute(style, "numFmtId")
                if shows_date(id, codes.get(id)):
                    dates[number] = id
        return dates

    # -- a sheet ---------------------------------------------------------------------------------------------------

    def lines_of(self, name: str, title: str) -> Iterator[str]:
        row_number = 0
        for element in self.elements(name, "row"):
            stated = attribute(element, "r")
            row_number = int(stated) if stated.isdecimal() else row_number + 1
            line = self.line_of(element, title, row_number)
            if line:
                self.count += 1
                if self.count > ROWS:
                    raise Refused("too_many_rows", f"The file has more than {ROWS:,} rows.")
                yield line
        yield from self.comments(name)
        yield from self.drawings(name, title)

    def line_of(self, row: Any, title: str, row_number: int) -> str:
        """The cells at their columns; empty text for a row without content."""
        cells: list[str] = []
        column = 0
        for cell in row:
            if local(cell.tag) != "c":
                continue
            column = column_of(attribute(cell, "r")) or column + 1
            text = self.text_of(cell, title, f"{letters_of(column)}{row_number}")
            if not text:
                continue
            gap = column - 1 - len(cells)
            if gap > FAR:
                cells.append(f"{letters_of(column)}{row_number}: {text}")
            else:
                cells += [""] * gap
                cells.append(text)
        return " | ".join(cells)

    def text_of(self, cell: Any, title: str, address: str) -> str:
        kind = attribute(cell, "t")
        if kind == "inlineStr":
            return " ".join(text_in(cell).split())
        value = child(cell, "v")
        text = (value.text or "") if value is not None else ""
        if kind == "s":
            return " ".join(self.shared_text(text, title, address).split())
        if not text:
            return self.formula_of(cell, title)
        if kind == "b":
            return "TRUE" if text == "1" else "FALSE"
        if kind in ("str", "e", "d"):
            return " ".join(text.split())
        return self.number_text(text, attribute(cell, "s"))

    def shared_text(self, number: str, title: str, address: str) -> str:
        if number.isdecimal() and int(number) < len(self.shared):
            return self.shared[int(number)]
        self.left_out.add(f"{title}!{address}", "The text of the cell is missing in the file.")
        return ""

    def formula_of(self, cell: Any, title: str) -> str:
        """A program that writes no values leaves only the formula."""
        formula = child(cell, "f")
        if formula is None:
            return ""
        self.left_out.add(f"sheet {title}", "A formula without a stored value: open and save the file in Excel.")
        return f"={formula.text}" if formula.text else ""

    def number_text(self, text: str, style: str) -> str:
        """As Excel counts, with 15 digits; dates and times as ISO 8601."""
        try:
            number = float(text)
        except ValueError:
            return text
        if style.isdecimal() and int(style) in self.dates and (shown := date_text(number, self.is_1904)):
            return shown
        return text if text.lstrip("-").isdecimal() else f"{number:.15g}"

    # -- beside the cells ------------------------------------------------------------------------------------------

    def comments(self, name: str) -> Iterator[str]:
        threaded = [line for part in self.package.related(name, "threadedComment") for line in self.threads(part)]
        if threaded:  # the old comments repeat them
            yield from threaded
            return
        for part in self.package.related(name, "comments"):
            for comment in self.elements(part, "comment"):
                text = " ".join(text_in(comment).split())
                yield f"[comment {attribute(comment, 'ref')}: {text}]"

    def threads(self, part: str) -> Iterator[str]:
        for comment in self.elements(part, "threadedComment"):
            text = child(comment, "text")
            yield f"[comment {attribute(comment, 'ref')}: {text.text if text is not None else ''}]"

    def drawings(self, name: str, title: str) -> Iterator[str]:
        """Text boxes and the titles of charts; the values of a chart stand in cells."""
        for part in self.package.related(name, "drawing"):
            root = self.package.tree(part)
            yield from texts_in(root)
            for picture in (one for one in root.iter() if local(one.tag) == "pic"):
                self.left_out.add(f"sheet {title}, picture", PICTURE)
                properties = next((one for one in picture.iter() if local(one.tag) == "cNvPr"), None)
                if description := attribute(properties, "descr"):
                    yield f"[picture: {description}]"
            for chart in self.package.related(part, "chart"):
                yield chart_lines(self.package, chart)[0]


def child_list(element: Any, name: str) -> list[Any]:
    parent = child(element, name)
    return list(parent) if parent is not None else []


def text_in(element: Any) -> str:
    """All runs of a text, without the reading aids above Japanese letters."""
    pieces = []
    for one in element:
        tag = local(one.tag)
        if tag == "t":
            pieces.append(one.text or "")
        elif tag != "rPh":
            pieces.append(text_in(one))
    return "".join(pieces)


def column_of(reference: str) -> int:
    """From 1; 0 for a cell without a reference."""
    match = REFERENCE.fullmatch(reference)
    number = 0
    for letter in match[1] if match else "":
        number = number * 26 + ord(letter) - 64
    return number


def letters_of(column: int) -> str:
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def shows_date(id: str, code: str | None) -> bool:
    if code is None:
        return id.isdecimal() and int(id) in BUILT_IN_DATES
    bare = QUOTED.sub("", code.split(";")[0]).lower()
    return any(letter in bare for letter in "ymdhs") and "general" not in bare


def date_text(number: float, is_1904: bool) -> str:
    """ISO 8601; empty for what is no date. Excel takes 1900 for a leap year, so the days before March 1900 differ."""
    if number < 0 or number > 2_958_466:
        return ""
    if number < 1:
        seconds = round(number * 86_400)
        return str(datetime.time(seconds // 3600 % 24, seconds // 60 % 60, seconds % 60))
    base = datetime.datetime(1904, 1, 1) if is_1904 else datetime.datetime(1899, 12, 30 if number >= 60 else 31)
    try:
        moment = base + datetime.timedelta(days=int(number), seconds=round(number % 1 * 86_400))
    except OverflowError:
        return ""
    return str(moment.date()) if moment.time() == datetime.time() else str(moment)
