"""The parser that runs in the sandbox's profile `files`: its text is the code of a call, nothing here imports Muster.

It writes each part as a line of JSON ({"size", "heading"?, "page"?}) and then so many bytes of UTF-8, or one line
{"error", "message"}. So a reader of the answer parses only short lines of JSON.

Every file may be hostile. The process has no network and no file but the document, and limits of time and memory; what
is checked here only gives a better error.
"""

from __future__ import annotations

import email.parser
import email.policy
import html.parser
import json
import os
import re
import xml.etree.ElementTree
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

INPUTS, OUTPUT = "/mnt/inputs", "/mnt/outputs/parts"
PAGES, ROWS, SLIDES = 5000, 200_000, 2000
UNPACKED = 200 << 20  # bytes of all members of an archive
CHARS, HEADING = 8_000_000, 200
BYTES = 10 << 20  # of the answer: the sandbox passes no larger file on
Part = dict[str, Any]  # text, and heading or page


class Refused(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def main(path: str) -> None:
    answer: Part
    try:
        written = b"".join(map(lines_of, bounded(parts_of(path))))
        if len(written) > BYTES:
            raise Refused("too_much_text", f"The document has more than {BYTES >> 20} MB of text.")
        with open(OUTPUT, "wb") as file:
            file.write(written)
        return
    except Refused as error:
        answer = {"error": error.code, "message": str(error)}
    except ImportError as error:
        answer = {"error": "library_missing", "message": f"The library {error.name} is needed to read this file."}
    except MemoryError:
        answer = {"error": "too_large", "message": "Reading the file needs too much memory."}
    except Exception as error:
        answer = {"error": "broken_file", "message": f"The file cannot be read ({type(error).__name__})."}
    with open(OUTPUT, "wb") as file:
        file.write(json.dumps(answer).encode() + b"\n")


def bounded(parts: Iterable[Part]) -> Iterator[Part]:
    """Without those that have no text."""
    room = CHARS
    for part in parts:
        if not part["text"].strip():
            continue
        room -= len(part["text"])
        if room < 0:
            raise Refused("too_much_text", f"The document has more than {CHARS:,} characters.")
        yield part


def lines_of(part: Part) -> bytes:
    text = part["text"].encode("utf-8", "replace")
    head = {"size": len(text), "heading": part.get("heading", "")[:HEADING], "page": part.get("page")}
    return json.dumps(head).encode() + b"\n" + text


def parts_of(path: str) -> Iterable[Part]:
    with open(path, "rb") as file:
        head = file.read(4096)
    if head.lstrip().startswith(b"%PDF") or b"%PDF-" in head[:1024]:
        return pdf(path)
    if head.startswith(b"PK\x03\x04"):
        return office(path)
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        raise Refused("unsupported_type", "Files of Office before 2007, and encrypted ones, cannot be read.")
    if path.endswith(".eml") or re.match(rb"(?i)(received|from|return-path|message-id|mime-version|date):", head):
        return mail(path)
    with open(path, "rb") as file:
        return page(decoded(file.read()))


def decoded(content: bytes) -> str:
    if b"\0" in content[:4096]:
        raise Refused("unsupported_type", "This kind of file has no text that can be read.")
    declared = re.search(rb"(?i)charset=[\"']?([a-z0-9_-]{2,30})", content[:2048])
    for name in ("utf-8", declared[1].decode() if declared else "cp1252"):
        try:
            return content.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
    return content.decode("latin-1")


def pdf(path: str) -> Iterator[Part]:
    import pypdf

    reader = pypdf.PdfReader(path)
    if reader.is_encrypted and not reader.decrypt(""):
        raise Refused("encrypted", "The file is encrypted: remove its password and add it again.")
    if len(reader.pages) > PAGES:
        raise Refused("too_many_pages", f"The file has {len(reader.pages):,} pages; at most {PAGES:,} are read.")
    for number, page in enumerate(reader.pages, 1):
        yield {"text": page.extract_text() or "", "page": number}


def office(path: str) -> Iterator[Part]:
    with zipfile.ZipFile(path) as archive:
        members = {member.filename: member for member in archive.infolist()}
        if sum(member.file_size for member in members.values()) > UNPACKED or len(members) > 20_000:
            raise Refused("too_large", f"Unpacked, the file has more than {UNPACKED >> 20} MB.")
        if any(member.flag_bits & 1 for member in members.values()):
            raise Refused("encrypted", "The file is encrypted: remove its password and add it again.")
        for name in members:
            if name.endswith((".xml", ".rels")) and is_declaring(archive, name):
                raise Refused("xml_entities", "The file declares XML entities, which no office program writes.")
    if "word/document.xml" in members:
        return docx(path)
    if "xl/workbook.xml" in members:
        return xlsx(path)
    if "ppt/presentation.xml" in members:
        return pptx(path, members)
    raise Refused("unsupported_type", "Archives are not read: add the files in it one by one.")


def is_declaring(archive: zipfile.ZipFile, name: str) -> bool:
    with archive.open(name) as file:
        return b"<!DOCTYPE" in file.read(1024).replace(b"\0", b"")


def docx(path: str) -> Iterator[Part]:
    import docx

    heading, lines = "", []
    for block in docx.Document(path).iter_inner_content():
        if hasattr(block, "rows"):
            lines += [" | ".join(cell.text.strip() for cell in row.cells) for row in block.rows]
        elif block.style is not None and str(block.style.name).startswith(("Heading", "Title")):
            yield {"text": "\n".join(lines), "heading": heading}
            heading, lines = block.text.strip(), []
        else:
            lines.append(block.text)
    yield {"text": "\n".join(lines), "heading": heading}


def xlsx(path: str) -> Iterator[Part]:
    import openpyxl

    count = 0
    with open(path, "rb") as file:  # a path without its ending would be refused
        for sheet in openpyxl.load_workbook(file, read_only=True, data_only=True).worksheets:
            lines = []
            for row in sheet.iter_rows(values_only=True):
                count += 1
                if count > ROWS:
                    raise Refused("too_many_rows", f"The file has more than {ROWS:,} rows.")
                cells = [str(cell) for cell in row if cell is not None]
                lines += [" | ".join(cells)] if cells else []
            yield {"text": "\n".join(lines), "heading": sheet.title}


def pptx(path: str, members: Iterable[str]) -> Iterator[Part]:
    slides = {int(match[1]): name for name in members if (match := re.fullmatch(r"ppt/slides/slide(\d+)\.xml", name))}
    if len(slides) > SLIDES:
        raise Refused("too_many_pages", f"The file has more than {SLIDES:,} slides.")
    with zipfile.ZipFile(path) as archive:
        for number, name in sorted(slides.items()):
            tree = xml.etree.ElementTree.fromstring(archive.read(name))
            paragraphs = ["".join(one.itertext()) for one in tree.iter() if one.tag.endswith("}p")]
            yield {"text": "\n".join(filter(None, paragraphs)), "page": number}


class Page(html.parser.HTMLParser):
    """The visible text, in parts below its headings."""

    HIDDEN = frozenset(["script", "style", "template", "noscript", "svg", "iframe", "title", "head"])
    HEADINGS = frozenset(["h1", "h2", "h3"])
    BLOCKS = frozenset(
        ["p", "div", "br", "li", "tr", "table", "section", "article", "header", "footer", "h4", "h5", "h6", "pre",
         "blockquote", "dt", "dd"]
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Part] = []
        self.heading: list[str] = []
        self.text: list[str] = []
        self.hidden, self.is_heading = 0, False

    def parse_html_declaration(self, i: int) -> int:
        """Python's parser raises for `<![x`; browsers read it as a comment up to the next `>`."""
        if not self.rawdata.startswith("<![", i):
            return super().parse_html_declaration(i)
        end = self.rawdata.find(">", i + 3)
        return end + 1 if end >= 0 else -1

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag in self.HIDDEN:
            self.hidden += 1
        elif tag in self.HEADINGS:
            self.close_part()
            self.heading, self.is_heading = [], True
        elif tag in self.BLOCKS:
            self.text.append("\n")
        elif tag == "body":
            self.hidden = 0

    def handle_endtag(self, tag: str) -> None:
        if tag in self.HIDDEN:
            self.hidden = max(0, self.hidden - 1)
        elif tag in self.HEADINGS:
            self.is_heading = False
        elif tag in self.BLOCKS:
            self.text.append("\n")
        elif tag in ("td", "th"):
            self.text.append(" | ")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            (self.heading if self.is_heading else self.text).append(data)

    def close_part(self) -> None:
        text = re.sub(r"[ \t]+", " ", "".join(self.text))
        self.parts.append({"text": re.sub(r"\s*\n\s*", "\n", text), "heading": " ".join("".join(self.heading).split())})
        self.text = []


def page(text: str) -> list[Part]:
    """Never raises: what Python's parser gives up on is read without its tags."""
    reader = Page()
    text = re.sub(r"&#(?:[0-9]{9,}|[xX][0-9a-fA-F]{9,});?", "\ufffd", text)  # Python refuses to read such numbers
    try:
        reader.feed(text)
        reader.close()
    except (AssertionError, LookupError, TypeError, ValueError):
        return [{"text": re.sub(r"<[^<>]*>", " ", text), "heading": ""}]
    reader.close_part()
    return reader.parts


def mail(path: str) -> Iterator[Part]:
    with open(path, "rb") as file:
        message = email.parser.BytesParser(policy=email.policy.default).parse(file)
    heads = {name: header_in(message, name) for name in ("From", "To", "Date", "Subject")}
    lines = [f"{name}: {value}" for name, value in heads.items() if value]
    body = message.get_body(("plain", "html"))
    text = content_of(body) if body is not None else ""
    if body is not None and body.get_content_type() == "text/html":
        text = "\n".join(part["text"] for part in page(text))
    yield {"text": "\n".join([*lines, "", text]), "heading": heads["Subject"]}


def header_in(message: Any, name: str) -> str:
    """A header that Python cannot decode is read as it was sent."""
    try:
        return str(message[name] or "")
    except Exception:
        values = [value for key, value in message.raw_items() if key.lower() == name.lower()]
        return str(values[0]) if values else ""


def content_of(part: Any) -> str:
    """An unknown charset loses letters, never the text."""
    try:
        return str(part.get_content())
    except Exception:
        return (part.get_payload(decode=True) or b"").decode("utf-8", "replace")


if __name__ == "__main__":
    main(f"{INPUTS}/{os.listdir(INPUTS)[0]}")
