"""Excel workbooks: every cell at its column, with stored values of formulas, comments and text boxes."""

from __future__ import annotations

import datetime
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Any

from .office import (
    Package,
    child_or_empty,
    find_child,
    list_targets,
    read_attribute,
    read_chart,
    read_description,
    read_paragraphs,
    strip_namespace,
)
from .report import HIDDEN_SHEET, PICTURE, LeftOut, Part, Refused

# Rows with content, of all sheets.
ROWS = 200_000
# Empty columns in a row that are shown; a cell after more of them is shown with its address.
FAR = 50
REFERENCE = re.compile(r"([A-Z]{1,3})(\d+)")
# Parts of a number format that are no codes.
QUOTED = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|[_*].')
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
            yield {"text": "\n".join(workbook.read_drawings(relation.target, title)), "heading": title}
            if CHARTS[relation.kind] != "chart":
                left_out.add(f"sheet {title}", "Sheets with dialogs or macros are not read.")
        else:
            yield {"text": "\n".join(workbook.read_sheet(relation.target, title)), "heading": title}


class Workbook:
    def __init__(self, package: Package, main: str, left_out: LeftOut) -> None:
        self.package, self.left_out = package, left_out
        self.relations = package.read_relations(main)
        root = package.parse_part(main)
        self.sheets: list[tuple[str, str, bool]] = []
        for one in child_or_empty(root, "sheets"):
            is_hidden = read_attribute(one, "state") in ("hidden", "veryHidden")
            self.sheets.append((read_attribute(one, "name"), read_attribute(one, "id"), is_hidden))
        self.is_1904 = read_attribute(find_child(root, "workbookPr"), "date1904") in ("1", "true")
        self.shared = list(self.read_shared_texts())
        self.dates = self.find_date_styles()
        self.count = 0

    def read_shared_texts(self) -> Iterator[str]:
        for name in list_targets(self.relations, "sharedStrings"):
            for one in self.read_elements(name, "si"):
                yield join_runs(one)

    def read_elements(self, name: str, tag: str) -> Iterator[Any]:
        """Each element of this name, read without keeping those before it."""
        try:
            with self.package.open_part(name) as file:
                parents: list[Any] = []
                for event, element in ElementTree.iterparse(file, events=("start", "end")):
                    if event == "start":
                        parents.append(element)
                        continue
                    parents.pop()
                    if strip_namespace(element.tag) == tag:
                        yield element
                        element.clear()
                        if parents:
                            parents[-1].remove(element)
        except KeyError:
            self.left_out.add(name, "This part of the file is missing.")
        except ElementTree.ParseError:
            self.left_out.add(name, "This part of the file is damaged: what stands behind is lost.")

    def find_date_styles(self) -> set[int]:
        """The styles of cells that show a number as a date or a time."""
        dates = set()
        for name in list_targets(self.relations, "styles"):
            root = self.package.parse_part(name)
            codes = {}
            for one in child_or_empty(root, "numFmts"):
                codes[read_attribute(one, "numFmtId")] = read_attribute(one, "formatCode")
            for number, style in enumerate(child_or_empty(root, "cellXfs")):
                id = read_attribute(style, "numFmtId")
                if shows_date(id, codes.get(id)):
                    dates.add(number)
        return dates

    # -- a sheet ---------------------------------------------------------------------------------------------------

    def read_sheet(self, name: str, title: str) -> Iterator[str]:
        row_number = 0
        for element in self.read_elements(name, "row"):
            stated = read_attribute(element, "r")
            row_number = int(stated) if stated.isdecimal() else row_number + 1
            line = self.read_row(element, title, row_number)
            if line:
                self.count += 1
                if self.count > ROWS:
                    raise Refused("too_many_rows", f"The file has more than {ROWS:,} rows.")
                yield line
        yield from self.read_comments(name)
        yield from self.read_drawings(name, title)

    def read_row(self, row: Any, title: str, row_number: int) -> str:
        """The cells at their columns; empty text for a row without content."""
        cells: list[str] = []
        column = 0
        for cell in row:
            if strip_namespace(cell.tag) != "c":
                continue
            column = read_column(read_attribute(cell, "r")) or column + 1
            text = self.read_cell(cell, title, f"{spell_column(column)}{row_number}")
            if not text:
                continue
            gap = column - 1 - len(cells)
            if gap > FAR:
                cells.append(f"{spell_column(column)}{row_number}: {text}")
            else:
                cells += [""] * gap
                cells.append(text)
        return " | ".join(cells)

    def read_cell(self, cell: Any, title: str, address: str) -> str:
        kind = read_attribute(cell, "t")
        if kind == "inlineStr":
            return " ".join(join_runs(cell).split())
        value = find_child(cell, "v")
        text = (value.text or "") if value is not None else ""
        if kind == "s":
            return " ".join(self.find_shared_text(text, title, address).split())
        if not text:
            return self.read_formula(cell, title)
        if kind == "b":
            return "TRUE" if text == "1" else "FALSE"
        if kind in ("str", "e", "d"):
            return " ".join(text.split())
        return self.format_number(text, read_attribute(cell, "s"))

    def find_shared_text(self, number: str, title: str, address: str) -> str:
        if number.isdecimal() and int(number) < len(self.shared):
            return self.shared[int(number)]
        self.left_out.add(f"{title}!{address}", "The text of the cell is missing in the file.")
        return ""

    def read_formula(self, cell: Any, title: str) -> str:
        """A program that writes no values leaves only the formula."""
        formula = find_child(cell, "f")
        if formula is None:
            return ""
        self.left_out.add(f"sheet {title}", "A formula without a stored value: open and save the file in Excel.")
        return f"={formula.text}" if formula.text else ""

    def format_number(self, text: str, style: str) -> str:
        """As Excel counts, with 15 digits; dates and times as ISO 8601."""
        try:
            number = float(text)
        except ValueError:
            return text
        is_date = style.isdecimal() and int(style) in self.dates
        if is_date and (date := format_date(number, self.is_1904)):
            return date
        return text if text.lstrip("-").isdecimal() else f"{number:.15g}"

    # -- beside the cells ------------------------------------------------------------------------------------------

    def read_comments(self, name: str) -> Iterator[str]:
        threads = self.package.find_related(name, "threadedComment")
        lines = [line for part in threads for line in self.read_threads(part)]
        if lines:
            # The old comments repeat them.
            yield from lines
            return
        for part in self.package.find_related(name, "comments"):
            for comment in self.read_elements(part, "comment"):
                text = " ".join(join_runs(comment).split())
                yield f"[comment {read_attribute(comment, 'ref')}: {text}]"

    def read_threads(self, part: str) -> Iterator[str]:
        for comment in self.read_elements(part, "threadedComment"):
            cell = read_attribute(comment, "ref")
            text = ""
            element = find_child(comment, "text")
            if element is not None:
                text = element.text
            yield f"[comment {cell}: {text}]"

    def read_drawings(self, name: str, title: str) -> Iterator[str]:
        """Text boxes and the titles of charts; the values of a chart stand in cells."""
        for part in self.package.find_related(name, "drawing"):
            root = self.package.parse_part(part)
            yield from read_paragraphs(root)
            for element in root.iter():
                if strip_namespace(element.tag) != "pic":
                    continue
                self.left_out.add(f"sheet {title}, picture", PICTURE)
                description = read_description(element)
                if description:
                    yield f"[picture: {description}]"
            for chart in self.package.find_related(part, "chart"):
                yield read_chart(self.package, chart)[0]


def join_runs(element: Any) -> str:
    """All runs of a text, without the reading aids above Japanese letters."""
    pieces = []
    for one in element:
        tag = strip_namespace(one.tag)
        if tag == "t":
            pieces.append(one.text or "")
        elif tag != "rPh":
            pieces.append(join_runs(one))
    return "".join(pieces)


def read_column(reference: str) -> int:
    """The column of a reference such as B7, from 1; 0 for a cell without a reference."""
    match = REFERENCE.fullmatch(reference)
    number = 0
    for letter in match[1] if match else "":
        number = number * 26 + ord(letter) - 64
    return number


def spell_column(column: int) -> str:
    """The letters of a column: A for 1, AA for 27."""
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


def format_date(number: float, is_1904: bool) -> str:
    """ISO 8601; empty for what is no date. Excel takes 1900 for a leap year, so the days before March 1900 differ."""
    if number < 0 or number > 2_958_466:
        return ""
    if number < 1:
        seconds = round(number * 86_400)
        return str(datetime.time(seconds // 3600 % 24, seconds // 60 % 60, seconds % 60))
    if is_1904:
        base = datetime.datetime(1904, 1, 1)
    elif number >= 60:
        base = datetime.datetime(1899, 12, 30)
    else:
        base = datetime.datetime(1899, 12, 31)
    try:
        moment = base + datetime.timedelta(days=int(number), seconds=round(number % 1 * 86_400))
    except OverflowError:
        return ""
    if moment.time() == datetime.time():
        return str(moment.date())
    return str(moment)
