"""Chooses the reader of a document by its content; its name only decides which kind of text a text is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from . import mail, opendocument, pages, pdf, plain, sheets, slides, word
from .office import Package
from .report import PICTURE, LeftOut, Part, Refused, describe_refusal, limit_parts

OLD_OFFICE = b"\xd0\xcf\x11\xe0"
PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*", b"BM")
MAIL_STARTS = re.compile(rb"(?i)(received|from|return-path|message-id|mime-version|date|delivered-to|subject):")
# Atomic `(?>…)`: a comment ends at its first `-->`, or many comments could be divided in exponentially many ways.
HTML_STARTS = re.compile(rb"(?is)\s*(<\?xml[^>]*>\s*)?(?>(?:<!--.*?-->\s*)*)<(!doctype html|html|head|body)\b")

OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
OTHERS = {"application/epub+zip": "EPUB books are not read: add their text or a PDF.",
          "application/vnd.oasis.opendocument.graphics": "Drawings are not read."}  # fmt: skip
OFFICE_READERS = {"word": word.read_word, "sheets": sheets.read_sheets, "slides": slides.read_slides}


def read_document(path: str) -> dict[str, Any]:
    """The text of a file: {"parts": [{"text", "heading"?, "page"?}], "left_out": [{"place", "reason",
    "is_lost"}]}; `is_lost` is false for a note on a text that is there.

    Raises Refused, with a `code`, for a file that cannot be read.
    """
    with open(path, "rb") as file:
        content = file.read()
    left_out = LeftOut()
    try:
        parts = list(limit_parts(read_content(content, path, left_out)))
    except Exception as error:  # the libraries raise anything for a damaged file
        raise Refused(*describe_refusal(error)) from error
    return {"parts": parts, "left_out": left_out.entries()}


def read_content(content: bytes, name: str, left_out: LeftOut, depth: int = 0) -> Iterable[Part]:
    """The parts of a document. Raises Refused, and what the libraries raise."""
    name, head = name.lower(), content[:1024]
    if b"%PDF-" in head:
        return pdf.read_pdf(content, left_out)
    if head.startswith(b"PK\x03\x04"):
        return read_office(content, left_out)
    if head.startswith(OLD_OFFICE):
        raise Refused("unsupported_type", "Files of Office before 2007, and encrypted ones, cannot be read.")
    if head.startswith(PICTURES):
        raise Refused("unsupported_type", PICTURE)
    if head.startswith(b"{\\rtf"):
        raise Refused("unsupported_type", "RTF is not read: save the document as DOCX and add it again.")
    if name.endswith(".eml") or MAIL_STARTS.match(head):
        return mail.read_mail(content, left_out, read_content, depth)
    text = plain.decode_text(content, left_out)
    if name.endswith((".html", ".htm", ".xhtml")) or HTML_STARTS.match(text[:4096].encode("utf-8", "replace")):
        return pages.read_page(text, left_out)
    return [{"text": text}]


def read_office(content: bytes, left_out: LeftOut) -> Iterable[Part]:
    """The parts of an office file. Raises Refused."""
    package = Package(content, left_out)
    kind = package.read_media_type()
    if kind in OTHERS:
        raise Refused("unsupported_type", OTHERS[kind])
    if kind.startswith(OPEN_DOCUMENT):
        return opendocument.read_opendocument(package, left_out)
    main, reader = package.find_main_part()
    if reader not in OFFICE_READERS:
        raise Refused("unsupported_type", "Archives are not read: add the files in it one by one.")
    if not package.is_well_formed(main):
        raise Refused("broken_file", "The main part of the file is damaged.")
    return OFFICE_READERS[reader](package, main, left_out)
