"""Compares readers of documents on the corpus of the tests: `python -m benchmarks.documents`.

Prints a table for docs/documents.md: the share of the texts that each reader finds, the share of documents whose texts
all stand in their order, how many of the losses it lists, time and memory. A library that is not installed is left out:
`pip install python-docx openpyxl python-pptx pypdf cryptography pdfminer.six markitdown[docx,xlsx,pptx,pdf] kreuzberg
docx2python chardet`, in an environment of its own.
"""

from __future__ import annotations

import importlib.util
import io
import multiprocessing
import re
import resource
import tempfile
import time
from collections.abc import Callable
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

from tests.corpus.documents import CASES, Case

GROUPS = {"DOCX": ("docx", "docm", "dotx"), "XLSX": ("xlsx", "xlsm"), "PPTX": ("pptx",), "PDF": ("pdf",),
          "ODF": ("odt", "ods", "odp"), "mail": ("eml",), "HTML": ("html",),
          "text": ("txt", "csv", "md")}  # fmt: skip


def read_with_muster(name: str, content: bytes, losses: list[str]) -> str:
    from functions.sandbox.inside.documents import LeftOut, read_content

    left_out = LeftOut()
    parts = list(read_content(content, name, left_out))
    losses += [f"{entry['place']}: {entry['reason']}" for entry in left_out.entries()]
    return "\n".join(f"{part.get('heading') or ''}\n{part['text']}" for part in parts)


def read_with_docx(name: str, content: bytes, losses: list[str]) -> str:
    import docx

    lines = []
    for block in docx.Document(io.BytesIO(content)).iter_inner_content():
        if hasattr(block, "rows"):
            lines += [" | ".join(cell.text for cell in row.cells) for row in block.rows]
        else:
            lines.append(block.text)
    return "\n".join(lines)


def read_with_docx2python(name: str, content: bytes, losses: list[str]) -> str:
    import docx2python

    return docx2python.docx2python(io.BytesIO(content)).text


def read_with_openpyxl(name: str, content: bytes, losses: list[str]) -> str:
    import openpyxl

    lines = []
    for sheet in openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True).worksheets:
        sheet.reset_dimensions()
        for row in sheet.iter_rows(values_only=True):
            if any(value is not None for value in row):
                lines.append(" | ".join("" if value is None else str(value) for value in row))
    return "\n".join(lines)


def read_with_pptx(name: str, content: bytes, losses: list[str]) -> str:
    import pptx

    lines = []
    for slide in pptx.Presentation(io.BytesIO(content)).slides:
        for shape in slide.shapes:
            if shape.has_text_frame:
                lines.append(shape.text_frame.text)
            elif getattr(shape, "has_table", False) and shape.has_table:
                lines += [" | ".join(cell.text for cell in row.cells) for row in shape.table.rows]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            lines.append(slide.notes_slide.notes_text_frame.text)
    return "\n".join(lines)


def read_with_pypdf(name: str, content: bytes, losses: list[str]) -> str:
    import pypdf

    reader = pypdf.PdfReader(io.BytesIO(content))
    if reader.is_encrypted:
        reader.decrypt("")
    return "\n".join(page.extract_text() for page in reader.pages)


def read_with_pdfminer(name: str, content: bytes, losses: list[str]) -> str:
    from pdfminer.high_level import extract_text

    return extract_text(io.BytesIO(content))


def read_with_email(name: str, content: bytes, losses: list[str]) -> str:
    message: Any = message_from_bytes(content, policy=policy.default)
    body = message.get_body(("plain", "html"))
    return "\n".join([*map(str, message.values()), body.get_content() if body is not None else ""])


def read_with_charset_normalizer(name: str, content: bytes, losses: list[str]) -> str:
    import charset_normalizer

    return str(charset_normalizer.from_bytes(content).best())


def read_with_selectolax(name: str, content: bytes, losses: list[str]) -> str:
    from selectolax.lexbor import LexborHTMLParser

    body = LexborHTMLParser(content).body
    return body.text(separator=" ") if body is not None else ""


def read_with_markitdown(name: str, content: bytes, losses: list[str]) -> str:
    import markitdown

    converter = markitdown.MarkItDown(enable_plugins=False)
    return converter.convert_stream(io.BytesIO(content), file_extension=Path(name).suffix).text_content


def read_with_kreuzberg(name: str, content: bytes, losses: list[str]) -> str:
    import kreuzberg

    path = Path(tempfile.mkdtemp()) / name
    path.write_bytes(content)
    return kreuzberg.extract_file_sync(str(path)).content


READERS: dict[str, tuple[str, Callable[..., str], tuple[str, ...]]] = {
    "Muster": ("json", read_with_muster, tuple(GROUPS)),
    "python-docx": ("docx", read_with_docx, ("DOCX",)),
    "docx2python": ("docx2python", read_with_docx2python, ("DOCX",)),
    "openpyxl": ("openpyxl", read_with_openpyxl, ("XLSX",)),
    "python-pptx": ("pptx", read_with_pptx, ("PPTX",)),
    "pypdf": ("pypdf", read_with_pypdf, ("PDF",)),
    "pdfminer.six": ("pdfminer", read_with_pdfminer, ("PDF",)),
    "email": ("email", read_with_email, ("mail",)),
    "charset-normalizer": ("charset_normalizer", read_with_charset_normalizer, ("text",)),
    "selectolax": ("selectolax", read_with_selectolax, ("HTML",)),
    "markitdown": ("markitdown", read_with_markitdown, tuple(GROUPS)),
    "kreuzberg": ("kreuzberg", read_with_kreuzberg, tuple(GROUPS)),
}


def cases_of(group: str) -> list[Case]:
    """Documents that can be read, by the endings of their names."""
    return [case for case in CASES if not case.code and case.name.rpartition(".")[2] in GROUPS[group]]


def squeezed(text: str) -> str:
    """Without what readers write between cells and lines."""
    return re.sub(r"[\s|\\*#_,]+", " ", text).lower()


def measure(reader: str, group: str, answer: Any) -> None:
    """In a process of its own, which a library may crash."""
    _, read, _ = READERS[reader]
    cases = [(case, case.make()) for case in cases_of(group)]
    try:  # imports are not counted
        read(cases[0][0].name, cases[0][1], [])
    except Exception:  # noqa: S110 - it is measured below
        pass
    hits = number = ordered = listed = losses = 0
    began = time.process_time()
    for case, content in cases:
        stated: list[str] = []
        try:
            raw = read(case.name, content, stated)
        except Exception:
            raw = ""
        text = squeezed(raw)
        texts = [squeezed(one).strip() for one in case.texts]
        number += len(texts)
        hits += sum(one in text for one in texts)
        ordered += is_in_order(text, texts) and not any(one in raw for one in case.absent)
        losses += bool(case.lost)
        listed += bool(case.lost) and all(word in "\n".join(stated) for word in case.lost)
    seconds = time.process_time() - began
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer.send({"share": hits / number, "ordered": ordered / len(cases), "listed": listed, "losses": losses,
                 "ms": seconds * 1000 / len(cases), "mb": peak_kb >> 10})  # fmt: skip


def is_in_order(text: str, texts: list[str]) -> bool:
    place = 0
    for one in texts:
        place = text.find(one, place)
        if place < 0:
            return False
    return True


def main() -> None:
    print("| format | reader | text found | whole and in order | losses listed | CPU ms a document | memory MB |")
    print("|---|---|---|---|---|---|---|")
    processes = multiprocessing.get_context("spawn")
    for group in GROUPS:
        for reader, (module, _, groups) in READERS.items():
            if group not in groups or not is_installed(module):
                continue
            ours, theirs = processes.Pipe()
            process = processes.Process(target=measure, args=(reader, group, theirs))
            process.start()
            theirs.close()
            try:
                result = ours.recv()
            except EOFError:
                result = None
            process.join()
            print(row_of(group, reader, result), flush=True)


def is_installed(module: str) -> bool:
    """Without importing it: a child process would inherit the memory."""
    return importlib.util.find_spec(module) is not None


def row_of(group: str, reader: str, result: dict[str, float] | None) -> str:
    if result is None:
        return f"| {group} | {reader} | ended the process | | | | |"
    return (
        f"| {group} | {reader} | {result['share']:.0%} | {result['ordered']:.0%} | {result['listed']} of "
        f"{result['losses']} | {result['ms']:.1f} | {result['mb']} |"
    )


if __name__ == "__main__":
    main()
