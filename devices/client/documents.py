"""Text from PDF and Word files, and the reasons why other binary files are refused."""

import io
import zipfile
from collections.abc import Iterator
from typing import BinaryIO

from . import stopping
from .encodings import find_mark
from .exceptions import ToolRefused

MAX_DOCUMENT_BYTES = 30 * 1024 * 1024
MAX_UNPACKED_BYTES = 200 * 1024 * 1024
MAX_PAGES = 1000
# Characters of a document's text.
MAX_TEXT = 5_000_000
BETWEEN_PAGES = "\n\n"

MAGIC = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip archive",
    b"\x7fELF": "a program",
    b"MZ": "a program",
    b"SQLite format 3": "a SQLite database",
    b"RIFF": "sound or video",
    b"ID3": "sound",
    b"\xd0\xcf\x11\xe0": "an old Office file",
}


def read_pdf(file: BinaryIO) -> str:
    """The text of all pages. Raises ToolRefused."""
    text = BETWEEN_PAGES.join(iterate_pdf_pages(file))
    return text[:MAX_TEXT]


def iterate_pdf_pages(file: BinaryIO, first: int = 0) -> Iterator[str]:
    """The text of each page from `first` on. Raises ToolRefused."""
    try:
        # Takes 0.2 s to import, and most calls read no PDF.
        import pypdf
    except ImportError:
        raise ToolRefused("unsupported", "this client was installed without its PDF reader (pip install pypdf)")
    try:
        reader = pypdf.PdfReader(file)
        if reader.is_encrypted and not reader.decrypt(""):
            raise ToolRefused("unsupported", "the PDF is protected by a password")
        length = 0
        for page in reader.pages[first:MAX_PAGES]:
            stopping.raise_if_stopped()
            text = page.extract_text() or ""
            yield text
            length += len(text)
            if length > MAX_TEXT:
                return
    # For damaged files pypdf also raises exceptions that are not its own.
    except (pypdf.errors.PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ToolRefused("unreadable", f"the PDF is damaged: {type(error).__name__}")


def read_docx(file: BinaryIO) -> str:
    """Paragraphs and tables of a Word file. Raises ToolRefused."""
    try:
        import docx
    except ImportError:
        raise ToolRefused("unsupported", "this client was installed without its Word reader (pip install python-docx)")
    try:
        # A small archive may unpack to more than this machine's memory: it is asked before anything is unpacked.
        with zipfile.ZipFile(file) as archive:
            if sum(item.file_size for item in archive.infolist()) > MAX_UNPACKED_BYTES:
                raise ToolRefused("too_large", "the Word file unpacks to more than 200 MB")
        file.seek(0)
        document = docx.Document(io.BytesIO(file.read()))
        lines = [paragraph.text for paragraph in document.paragraphs]
        for table in document.tables:
            stopping.raise_if_stopped()
            for row in table.rows:
                cells = [cell.text for cell in row.cells]
                lines.append("\t".join(cells))
        text = "\n".join(lines)
        return text[:MAX_TEXT]
    except ToolRefused:
        raise
    except Exception as error:  # python-docx also raises exceptions of lxml and zipfile
        raise ToolRefused("unreadable", f"the Word file is damaged: {type(error).__name__}")


def describe_binary(head: bytes) -> str | None:
    """Why the first bytes of a file are not text; None if they may be."""
    # Text may begin with a byte order mark, and UTF-16 has zeros.
    if find_mark(head):
        return None
    for magic, name in MAGIC.items():
        # A text may also begin with letters such as “MZ”; in a program zeros follow.
        if head.startswith(magic) and (b"\0" in head or not is_printable(magic)):
            return name
    return "binary data" if b"\0" in head else None


def is_printable(magic: bytes) -> bool:
    """Whether a text could begin with it."""
    return magic.isascii() and magic.decode().isprintable()
