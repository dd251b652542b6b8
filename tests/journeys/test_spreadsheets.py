"""A person sends a spreadsheet in the chat; the agent reads it with Python, answers, and shows a picture of it.

The picture is drawn without a library, because the libraries of the interpreter are not installed in tests. That a
file of Excel is read needs no library either: it is a zip archive of XML.
"""

import io
import secrets
import zipfile

import pytest

from tests.fakes import calls, says

from .browser import picture, serious
from .chat import create_agent

pytestmark = [pytest.mark.browser, pytest.mark.live]
MONTHS = {"January": 20, "February": 45, "March": 80}
CSV = "month,sales\n" + "".join(f"{month},{sales}\n" for month, sales in MONTHS.items())
READ_CSV = """
import csv
rows = [(row['month'], int(row['sales'])) for row in csv.DictReader(open('/mnt/inputs/sales.csv'))]
"""
READ_XLSX = """
import zipfile
import xml.etree.ElementTree as tree
N = '{http://schemas.openxmlformats.org/spreadsheetml/2006/main}'
with zipfile.ZipFile('/mnt/inputs/sales.xlsx') as book:
    sheet = tree.fromstring(book.read('xl/worksheets/sheet1.xml'))
table = [[''.join(cell.itertext()) for cell in row.iter(N + 'c')] for row in sheet.iter(N + 'row')]
rows = [(month, int(sales)) for month, sales in table[1:]]
"""
DRAW = """
import struct, zlib
WIDTH, HEIGHT, BAR = 160, 100, 40
def colour(x, y):
    at, left = divmod(x, BAR + 10)
    is_bar = at < len(rows) and left < BAR and HEIGHT - y <= rows[at][1]
    return bytes([40, 90, 160]) if is_bar else bytes([255, 255, 255])
lines = b''.join(b'\\0' + b''.join(colour(x, y) for x in range(WIDTH)) for y in range(HEIGHT))
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
with open('/mnt/outputs/sales.png', 'wb') as file:
    file.write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', WIDTH, HEIGHT, 8, 2, 0, 0, 0)))
    file.write(chunk(b'IDAT', zlib.compress(lines)) + chunk(b'IEND', b''))
{'rows': len(rows), 'total': sum(sales for _, sales in rows)}
"""


def workbook():
    """A file as Excel writes it, with the texts in the cells."""
    name = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    text = '<c t="inlineStr"><is><t>{}</t></is></c>'
    rows = [text.format("month") + text.format("sales")]
    rows += [text.format(month) + f"<c><v>{sales}</v></c>" for month, sales in MONTHS.items()]
    sheet = "".join(f"<row>{row}</row>" for row in rows)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr(
            "xl/worksheets/sheet1.xml", f'<worksheet xmlns="{name}"><sheetData>{sheet}</sheetData></worksheet>'
        )
    return packed.getvalue()


FILES = {
    "sales.csv": ("text/csv", CSV.encode(), READ_CSV),
    "sales.xlsx": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", workbook(), READ_XLSX),
}


@pytest.fixture(scope="module")
def agent(live, model):
    """An agent of a scripted model that may run Python."""
    grants = [{"tool": "run_python", "mode": "allow"}]
    return create_agent(live, model, f"counter-{secrets.token_hex(3)}", grants=grants)


@pytest.mark.parametrize("name", FILES)
def test_what_is_in_this_spreadsheet_draw_it(name, open_page, live, agent, model):
    media_type, content, reading = FILES[name]
    model.turns.clear()
    model.script(calls(("run_python", {"code": reading + DRAW})), says("Three months, 145 sold; March is the best."))
    page = open_page(f"/playground/?agent={agent}")
    page.locator("#attach").set_input_files({"name": name, "mimeType": media_type, "buffer": content})
    page.locator(".attached li:not([aria-busy])", has_text=name).wait_for()
    page.fill("#text", "What is in this spreadsheet? Draw it.")
    page.keyboard.press("Enter")
    page.locator(".facts-line", has_text="succeeded").wait_for()
    page.locator(".say.assistant", has_text="Three months, 145 sold").wait_for()
    result = [one for one in model.requests[-1]["messages"] if one["role"] == "tool"][-1]["content"]
    assert "145" in str(result) and "sales.png" in str(result)
    drawn = page.locator(".files li", has_text="sales.png").locator("img")
    drawn.scroll_into_view_if_needed()
    page.wait_for_function("() => [...document.images].some((one) => one.naturalWidth === 160 && one.complete)")
    picture(page, f"chat-spreadsheet-{name.partition('.')[2]}")
    assert serious(page) == []
    source = drawn.get_attribute("src")
    shown = live.http.get(source)
    assert (shown.headers["Content-Type"], shown.content[:8]) == ("image/png", b"\x89PNG\r\n\x1a\n")
    page.reload()
    page.locator(".files li", has_text="sales.png").locator(f"img[src='{source}']").wait_for()
