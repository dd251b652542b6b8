"""Small documents that unpack to gigabytes, or that never end, fail alone and leave the process as it was."""

import io
import resource
import zipfile
import zlib

import pytest

from knowledge.indexing import parsing
from knowledge.indexing.parsing import Unreadable, read_document_text

MB = 1 << 20
XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
BOOK = f'{XML}<workbook xmlns="{MAIN}" xmlns:r="{RELATED}"><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>'
LINKS = (
    f'{XML}<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    f'<Relationship Id="r1" Type="{RELATED}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>'
)


def sheet_with(cells, **members):
    packed = io.BytesIO()
    body = f'{XML}<worksheet xmlns="{MAIN}"><sheetData>{cells}</sheetData></worksheet>'
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", BOOK)
        archive.writestr("xl/_rels/workbook.xml.rels", LINKS)
        archive.writestr("xl/worksheets/sheet1.xml", body)
        for name, content in members.items():
            archive.writestr(f"xl/{name}.xml", content)
    return packed.getvalue()


def many_cells():
    return sheet_with("<row>" + "<c><v>1</v></c>" * 800_000 + "</row>")


def far_cell():
    return sheet_with('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>')


def large_strings():
    return sheet_with("", sharedStrings=f'<sst xmlns="{MAIN}"><si><t>{"x" * (150 * MB)}</t></si></sst>')


def pdf_of(*objects):
    """Without a table of places: readers then look for the objects."""
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % (number, one) for number, one in enumerate(objects, 1))
    return b"%PDF-1.7\n" + body + b"trailer\n<</Root 1 0 R>>\n%%EOF\n"


def large_stream():
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(b"(x) Tj " * 150_000) for _ in range(500)) + packer.flush()
    stream = b"<</Length %d /Filter /FlateDecode>>\nstream\n%s\nendstream" % (len(packed), packed)
    page = b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R>>"
    return pdf_of(b"<</Type /Catalog /Pages 2 0 R>>", b"<</Type /Pages /Kids [3 0 R] /Count 1>>", page, stream)


def circle_of_pages():
    return pdf_of(b"<</Type /Catalog /Pages 2 0 R>>", b"<</Type /Pages /Kids [2 0 R 2 0 R] /Count 2>>")


def deep_arrays():
    return pdf_of(b"<</Type /Catalog /Pages 2 0 R>>", b"[" * 300_000 + b"]" * 300_000)


BOMBS = {
    "many_cells.xlsx": many_cells,
    "far_cell.xlsx": far_cell,
    "large_strings.xlsx": large_strings,
    "large_stream.pdf": large_stream,
    "circle_of_pages.pdf": circle_of_pages,
    "deep_arrays.pdf": deep_arrays,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_within_the_limits_of_its_reader(name, libraries):
    content = BOMBS[name]()
    assert len(content) < 2 * MB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        read = read_document_text(name, name, "application/octet-stream", content)
    except Unreadable as error:
        assert error.code in ("too_large", "too_much_text", "too_slow", "too_complex", "broken_file", "no_text"), (
            error.code
        )
    else:
        assert sum(len(part.text) for part in read.parts) <= parsing.BYTES
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert grown < 100, "what was unpacked stays in the reader's process"
