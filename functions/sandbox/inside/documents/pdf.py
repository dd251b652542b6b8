"""PDF, page by page, with pypdf."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from typing import Any

from .report import PICTURE, LeftOut, Part, Refused

PAGES = 5000
SCANNED = "The page is a picture: it needs OCR before it can be searched."
INLINE_PICTURE = re.compile(rb"\bBI\b.{0,500}?\bID\b", re.DOTALL)
# The fewest pixels of a picture that holds a word.
FEWEST_PIXELS = 1000
# The share of a page that a logo and the like takes.
SMALL_SHARE = 0.05
# How programs that recognise text write it over a scanned page.
INVISIBLE = 3
ANNOTATIONS = ("/FreeText", "/Text", "/Highlight", "/Underline", "/StrikeOut", "/Stamp")


def read_pdf(content: bytes, left_out: LeftOut) -> Iterator[Part]:
    """One part for each page. Raises Refused, and what pypdf raises for a file that is no PDF."""
    import pypdf

    reader = pypdf.PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Refused("encrypted", "The file is encrypted: remove its password and add it again.")
    number_of_pages = len(reader.pages)
    if number_of_pages > PAGES:
        raise Refused("too_many_pages", f"The file has {number_of_pages:,} pages; at most {PAGES:,} are read.")
    list_attachments(reader, left_out)
    read, scanned, broken = 0, 0, 0
    for number in range(1, number_of_pages + 1):
        place = f"page {number}"
        try:
            page = reader.pages[number - 1]
            is_pictured = has_picture(page)
            text, unread = read_with_pictures(page) if is_pictured else (page.extract_text(), 0)
            notes = read_notes(page)
        except (MemoryError, ImportError):
            raise
        except Exception as error:  # pypdf raises anything for a damaged page; the other pages are read
            broken += 1
            left_out.add(place, f"The page cannot be read ({type(error).__name__}).")
            continue
        if text.strip():
            read += 1
            for _ in range(unread):
                left_out.add(f"{place}, picture", PICTURE)
        elif is_pictured:
            scanned += 1
            left_out.add(place, SCANNED)
        yield {"text": "\n".join([text, *notes]), "page": number}
    if not read and scanned:
        raise Refused("needs_ocr", "All its pages are pictures: they need OCR before they can be searched.")
    if broken and broken == number_of_pages:
        raise Refused("broken_file", "None of its pages can be read.")


def list_attachments(reader: Any, left_out: LeftOut) -> None:
    """List the files that are attached as left out."""
    try:
        names = list(reader.attachments)
    except MemoryError:
        raise
    except Exception:  # pypdf raises anything for a damaged list; the pages are read
        left_out.add("attachments", "The list of attached files is damaged.")
        return
    for name in names:
        left_out.add(f"attachment {name}", "Files that are attached to a PDF are not read.")


def read_notes(page: Any) -> list[str]:
    """What people wrote on a page: values of its form, and comments."""
    notes = []
    for reference in page.get("/Annots") or ():
        annotation = reference.get_object()
        kind = annotation.get("/Subtype")
        field = annotation
        if "/T" not in annotation and "/Parent" in annotation:
            # A box of a field that has several.
            field = annotation["/Parent"].get_object()
        value = field.get("/V")
        # The others are states of buttons.
        is_text = isinstance(value, str) and not value.startswith("/")
        if kind == "/Widget" and is_text:
            notes.append(f"{field.get('/T', 'field')}: {value}")
        elif kind in ANNOTATIONS and annotation.get("/Contents"):
            notes.append(f"[comment: {annotation['/Contents']}]")
    return notes


def has_picture(page: Any) -> bool:
    """Whether the page draws a picture, itself or in a form that it draws."""
    try:
        contents = page.get_contents()
        is_inline = contents is not None and INLINE_PICTURE.search(contents.get_data()) is not None
        return is_inline or draws_picture(page.get("/Resources"), 0)
    except MemoryError:
        raise
    except Exception:  # what cannot be examined may be a picture, and must not be lost in silence
        return True


def draws_picture(resources: Any, depth: int) -> bool:
    objects = resources.get_object().get("/XObject") if resources is not None else None
    for reference in (objects.get_object() if objects is not None else {}).values():
        one = reference.get_object()
        if one.get("/Subtype") == "/Image":
            return True
        if one.get("/Subtype") == "/Form" and depth < 5 and draws_picture(one.get("/Resources"), depth + 1):
            return True
    return False


def read_with_pictures(page: Any) -> tuple[str, int]:
    """The text of a page, and how many of its pictures are large enough for text. Slower than the text alone."""
    pictures = PicturesOfPage(page)
    text = page.extract_text(
        visitor_operand_before=pictures.before_operator, visitor_operand_after=pictures.after_operator
    )
    return text, pictures.count_unread()


class PicturesOfPage:
    """Counts the pictures that a page draws, and how much of it they cover, while pypdf reads its text.

    pypdf begins anew with each form (a part of a page that is stored by itself), so the forms around the current
    operator are kept here, each with its resources and where it is drawn.
    """

    def __init__(self, page: Any) -> None:
        self.page = page
        # The second figure: how much larger the form is drawn.
        self.forms = [(page.get("/Resources"), 1.0)]
        self.count = 0
        self.area = 0.0
        self.is_recognised = False

    def before_operator(self, operator: bytes, operands: Any, matrix: Any, _: Any) -> None:
        """A fault in how a picture is described must not cost the text of the page."""
        if operator == b"Do":
            resources, scale = self.forms[-1]
            # For a picture too, because pypdf tells the end of each.
            self.forms.append((None, scale))
        try:
            if operator == b"Tr" and operands[0] == INVISIBLE:
                self.is_recognised = True
            elif operator == b"INLINE IMAGE":
                settings = operands["settings"]
                width = settings.get("/W", settings.get("/Width"))
                height = settings.get("/H", settings.get("/Height"))
                _, scale = self.forms[-1]
                self.add(width, height, measure_area(matrix) * scale)
            elif operator == b"Do":
                drawn = find_object(resources, operands[0])
                self.draw(drawn, resources, measure_area(matrix) * scale)
        except MemoryError:
            raise
        # Pypdf raises anything for damaged objects: count it as a large picture.
        except Exception:
            self.count += 1
            self.area = math.inf

    def after_operator(self, operator: bytes, *_: Any) -> None:
        if operator == b"Do":
            self.forms.pop()

    def draw(self, drawn: Any, resources: Any, scale: float) -> None:
        if drawn is None:
            return
        if drawn.get("/Subtype") == "/Image":
            self.add(drawn.get("/Width"), drawn.get("/Height"), scale)
            return
        inner = 1.0
        matrix = drawn.get("/Matrix")
        if matrix:
            inner = measure_area([float(number) for number in matrix])
        self.forms[-1] = drawn.get("/Resources", resources), inner * scale

    def add(self, width: Any, height: Any, area: float) -> None:
        """Width and height are in pixels; the area is that on the page."""
        pixels = int(width or 0) * int(height or 0)
        if pixels >= FEWEST_PIXELS:
            self.count += 1
            self.area += area

    def count_unread(self) -> int:
        """How many pictures may hold text that was not read.

        0 if they are small together: scanners cut a page into strips, so each alone says little.
        """
        if self.is_recognised or not self.count:
            return 0
        size = self.page.mediabox
        is_small = self.area <= float(size.width * size.height) * SMALL_SHARE
        return 0 if is_small else self.count


def find_object(resources: Any, name: Any) -> Any:
    """What a `Do` draws, or None if the page does not have it."""
    if resources is None:
        return None
    objects = resources.get_object().get("/XObject")
    if objects is None:
        return None
    drawn = objects.get_object().get(name)
    if drawn is None:
        return None
    return drawn.get_object()


def measure_area(matrix: Any) -> float:
    """The area on the page of a picture that this matrix places: it enlarges the unit square."""
    return float(abs(matrix[0] * matrix[3] - matrix[1] * matrix[2]))
