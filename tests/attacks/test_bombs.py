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


WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def word_with(body, declaration="", members=()):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", f"{XML}<Types/>")
        archive.writestr("word/document.xml", f'{XML}{declaration}<w:document xmlns:w="{WORD}">{body}</w:document>')
        for name in members:
            archive.writestr(name, "")
    return packed.getvalue()


def laughing_entities():
    doubled = "".join(f'<!ENTITY a{number} "{f"&a{number - 1};" * 10}">' for number in range(1, 12))
    declaration = f'<!DOCTYPE a [<!ENTITY a0 "aaaaaaaaaa">{doubled}]>'
    return word_with("<w:body><w:p><w:r><w:t>&a11;</w:t></w:r></w:p></w:body>", declaration)


def outside_entity():
    declaration = '<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    return word_with("<w:body><w:p><w:r><w:t>&a;</w:t></w:r></w:p></w:body>", declaration)


def large_text():
    return word_with(f"<w:body><w:p><w:r><w:t>{'x' * (150 * MB)}</w:t></w:r></w:p></w:body>")


def deep_tables():
    return word_with("<w:body>" + "<w:tbl><w:tr><w:tc>" * 50_000 + "</w:tc></w:tr></w:tbl>" * 50_000 + "</w:body>")


def many_members():
    return word_with("<w:body/>", members=[f"word/{number}.xml" for number in range(15_000)])


def mail_in_mail():
    inner = b"Subject: a\r\n\r\nText\r\n"
    for _ in range(2000):
        inner = b"Subject: a\r\nContent-Type: message/rfc822\r\n\r\n" + inner
    return inner


def deep_json():
    return b"[" * 500_000 + b"]" * 500_000


def deep_html():
    return b"<html><body>" + b"<div>" * 200_000 + b"text"


BOMBS = {
    "laughing_entities.docx": laughing_entities,
    "outside_entity.docx": outside_entity,
    "large_text.docx": large_text,
    "deep_tables.docx": deep_tables,
    "many_members.docx": many_members,
    "mail_in_mail.eml": mail_in_mail,
    "deep_json.json": deep_json,
    "deep_html.html": deep_html,
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
        assert "root:" not in str(error)
        assert error.code in (
            "xml_entities",
            "too_large",
            "too_much_text",
            "too_slow",
            "too_complex",
            "broken_file",
            "no_text",
        ), error.code
    else:
        assert sum(len(part.text) for part in read.parts) <= parsing.BYTES
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert grown < 100, "what was unpacked stays in the reader's process"
