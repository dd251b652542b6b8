"""PDF, page by page, with pypdf."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from .report import LeftOut, Part, Refused

PAGES = 5000
SCANNED = "The page is a picture: it needs OCR before it can be searched."
INLINE_PICTURE = re.compile(rb"\bBI\b.{0,500}?\bID\b", re.DOTALL)
ANNOTATIONS = ("/FreeText", "/Text", "/Highlight", "/Underline", "/StrikeOut", "/Stamp")


def read_pdf(content: bytes, left_out: LeftOut) -> Iterator[Part]:
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
            text = page.extract_text() or ""
            notes = notes_of(page)
        except (MemoryError, ImportError):
            raise
        except Exception as error:
            broken += 1
            left_out.add(place, f"The page cannot be read ({type(error).__name__}).")
            continue
        if text.strip():
            read += 1
        elif has_picture(page):
            scanned += 1
            left_out.add(place, SCANNED)
        yield {"text": "\n".join([text, *notes]), "page": number}
    if not read and scanned:
        raise Refused("needs_ocr", "All its pages are pictures: they need OCR before they can be searched.")
    if broken and broken == number_of_pages:
        raise Refused("broken_file", "None of its pages can be read.")


def list_attachments(reader: Any, left_out: LeftOut) -> None:
    try:
        names = list(reader.attachments)
    except Exception:
        left_out.add("attachments", "The list of attached files is damaged.")
        return
    for name in names:
        left_out.add(f"attachment {name}", "Files that are attached to a PDF are not read.")


def notes_of(page: Any) -> list[str]:
    """What people wrote on a page: values of its form, and comments."""
    notes = []
    for reference in page.get("/Annots") or ():
        annotation = reference.get_object()
        kind = annotation.get("/Subtype")
        field = annotation if "/T" in annotation or "/Parent" not in annotation else annotation["/Parent"].get_object()
        if kind == "/Widget" and isinstance(field.get("/V"), str) and not str(field["/V"]).startswith("/"):
            notes.append(f"{field.get('/T', 'field')}: {field['/V']}")
        elif kind in ANNOTATIONS and annotation.get("/Contents"):
            notes.append(f"[comment: {annotation['/Contents']}]")
    return notes


def has_picture(page: Any) -> bool:
    """Whether the page draws a picture, itself or in a form that it draws."""
    try:
        contents = page.get_contents()
        is_inline = contents is not None and INLINE_PICTURE.search(contents.get_data()) is not None
        return is_inline or draws_picture(page.get("/Resources"), 0)
    except Exception:
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
