"""Odd documents, made by code: what text must be found in each, in which order, and what must be listed as left out.

The tests read them in the sandbox; `benchmarks/documents.py` compares readers on them. The files are as other programs
write them, after public reports of other projects: the files of people are not ours to keep.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage

OD = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELATIONSHIPS = "http://schemas.openxmlformats.org/package/2006/relationships"
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
C = "http://schemas.openxmlformats.org/drawingml/2006/chart"
MC = "http://schemas.openxmlformats.org/markup-compatibility/2006"
WPS = "http://schemas.microsoft.com/office/word/2010/wordprocessingShape"
WP = "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
SHOW = "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"


@dataclass(frozen=True)
class Case:
    """`texts` stand in the document in this order; `lost` are words of the list of what is left out, `noted` of the notes
    on what is there; `absent` must not stand in the text, `unlisted` not in the list. `code` is why a document fails.
    """

    name: str
    make: Callable[[], bytes]
    texts: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()
    code: str = ""


def zipped(members: dict[str, str | bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def relations(*targets: tuple[str, str]) -> str:
    """(type, target) of each; their ids are r1, r2, …"""
    rows = [
        f'<Relationship Id="r{number}" Type="{OD}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    ]
    return f'{HEAD}<Relationships xmlns="{RELATIONSHIPS}">{"".join(rows)}</Relationships>'


def content_types(overrides: dict[str, str]) -> str:
    rows = [f'<Override PartName="/{name}" ContentType="{kind}"/>' for name, kind in overrides.items()]
    defaults = (
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/><Default Extension="png" ContentType="image/png"/>'
    )
    return f'{HEAD}<Types xmlns="{TYPES}">{defaults}{"".join(rows)}</Types>'


# -- Word --------------------------------------------------------------------------------------------------------------


def run(text: str, properties: str = "") -> str:
    return f'<w:r>{f"<w:rPr>{properties}</w:rPr>" if properties else ""}<w:t xml:space="preserve">{text}</w:t></w:r>'


def para(inner: str, properties: str = "") -> str:
    return f"<w:p>{f'<w:pPr>{properties}</w:pPr>' if properties else ''}{inner}</w:p>"


STYLES = (
    f'{HEAD}<w:styles xmlns:w="{W}"><w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/>'
    '</w:style><w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/><w:basedOn w:val="Normal"/>'
    '</w:style><w:style w:type="paragraph" w:styleId="Chapter"><w:name w:val="Chapter"/><w:basedOn w:val="berschrift1"/>'
    "</w:style></w:styles>"
)


def word(
    body: str, *, main: str = "word/document.xml", kind: str = WORD, styles: bool = True, more: dict[str, str] | None = None,
    links: tuple[tuple[str, str], ...] = (), namespace: str = W,
) -> bytes:  # fmt: skip
    """`links` are (type, target) from r2 on; r1 are the styles."""
    names = (
        f'xmlns:w="{namespace}" xmlns:r="{OD}" xmlns:mc="{MC}" xmlns:wps="{WPS}" xmlns:wp="{WP}" xmlns:a="{A}" '
        f'xmlns:c="{C}" xmlns:v="urn:schemas-microsoft-com:vml"'
    )
    base = main.rpartition("/")[2]
    overrides = {main: kind}
    members: dict[str, str | bytes] = {
        "_rels/.rels": relations(("officeDocument", main)),
        main: f"{HEAD}<w:document {names}><w:body>{body}<w:sectPr/></w:body></w:document>",
    }
    if styles:
        overrides["word/styles.xml"] = WORD.replace("document.main", "styles")
        members["word/styles.xml"] = STYLES
    if styles or links:
        first = (("styles", "styles.xml"),) if styles else (("theme", "theme.xml"),)
        members[f"word/_rels/{base}.rels"] = relations(*first, *links)
    for name, content in (more or {}).items():
        members[name] = content
    return zipped({"[Content_Types].xml": content_types(overrides), **members})


def notes(tag: str, *texts: str) -> str:
    rows = [
        f'<w:{tag} w:id="{number}" w:author="Ann">{para(run(text))}</w:{tag}>' for number, text in enumerate(texts, 1)
    ]
    return f'{HEAD}<w:{tag}s xmlns:w="{W}">{"".join(rows)}</w:{tag}s>'


def table(*rows: tuple[str, ...]) -> str:
    cells = "".join(
        "<w:tr>"
        + "".join(f"<w:tc>{cell if cell.startswith('<') else para(run(cell))}</w:tc>" for cell in row)
        + "</w:tr>"
        for row in rows
    )
    return f"<w:tbl>{cells}</w:tbl>"


def textbox(text: str) -> str:
    content = f"<w:txbxContent>{para(run(text))}</w:txbxContent>"
    return (
        f'<w:r><mc:AlternateContent><mc:Choice Requires="wps"><wps:txbx>{content}</wps:txbx></mc:Choice>'
        f"<mc:Fallback><w:pict><v:textbox>{content}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )


def picture(description: str) -> str:
    return (
        f'<w:r><w:drawing><wp:inline><wp:docPr id="1" name="Picture 1" descr="{description}"/><a:graphic><a:graphicData>'
        '<a:blip r:embed="r9"/></a:graphicData></a:graphic></wp:inline></w:drawing></w:r>'
    )


CHART = (
    f'{HEAD}<c:chartSpace xmlns:c="{C}" xmlns:a="{A}"><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Parcels by month</a:t>'
    "</a:r></a:p></c:rich></c:tx></c:title><c:plotArea><c:barChart><c:ser><c:tx><c:strRef><c:strCache><c:pt><c:v>Oslo</c:v>"
    "</c:pt></c:strCache></c:strRef></c:tx><c:cat><c:strRef><c:strCache><c:pt><c:v>January</c:v></c:pt></c:strCache>"
    "</c:strRef></c:cat><c:val><c:numRef><c:numCache><c:pt><c:v>4711</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser>"
    "</c:barChart></c:plotArea></c:chart></c:chartSpace>"
)


def word_cases() -> list[Case]:
    inserted = f'<w:ins w:id="1" w:author="x">{run("insertedword ")}</w:ins>'
    deleted = '<w:del w:id="2" w:author="x"><w:r><w:delText>deletedword</w:delText></w:r></w:del>'
    moved = f'<w:moveFrom w:id="3">{run("movedaway")}</w:moveFrom><w:moveTo w:id="4">{run("movedhere")}</w:moveTo>'
    return [
        Case("plain.docx", lambda: word(para(run("first")) + para(run("second"))), ("first", "second")),
        Case("headings.docx", lambda: word(para(run("Returns"), '<w:pStyle w:val="berschrift1"/>') + para(run("Thirty days."))
             + para(run("Parcels"), '<w:pStyle w:val="Chapter"/>')), ("Returns", "Thirty days.", "Parcels")),
        Case("insertions.docx", lambda: word(para(run("plain ") + inserted + deleted + run("after"))),
             ("plain", "insertedword", "after"), ("tracked changes",), ("deletedword",)),
        Case("moves.docx", lambda: word(para(run("plain ") + moved)), ("plain", "movedhere"), ("tracked changes",), ("movedaway",)),
        Case("controls.docx", lambda: word(para(f"<w:sdt><w:sdtPr/><w:sdtContent>{run('inlinecontrol')}</w:sdtContent></w:sdt>")
             + f"<w:sdt><w:sdtContent>{para(run('blockcontrol'))}</w:sdtContent></w:sdt>"
             + f"<w:tbl><w:sdt><w:sdtContent><w:tr><w:tc>{para(run('rowcontrol'))}</w:tc></w:tr></w:sdtContent></w:sdt></w:tbl>"),
             ("inlinecontrol", "blockcontrol", "rowcontrol")),
        Case("textbox.docx", lambda: word(para(run("before") + textbox("boxedword")) + para(run("behind"))),
             ("before", "boxedword", "behind")),
        Case("table.docx", lambda: word(table(("article", "", "price"), ("bell", "", "4.50"))), ("article |  | price", "bell |  | 4.50")),
        Case("spans.docx", lambda: word("<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val=\"2\"/></w:tcPr>" + para(run("wide"))
             + f"</w:tc><w:tc>{para(run('third'))}</w:tc></w:tr></w:tbl>"), ("wide |  | third",)),
        Case("nested.docx", lambda: word(table((para(run("cell")) + table(("nestedcell",)) + para(""), "next"))),
             ("cell", "nestedcell", "next")),
        Case("footnotes.docx", lambda: word(para(run("claim") + '<w:r><w:footnoteReference w:id="1"/></w:r>') + para(run("end")
             + '<w:r><w:endnoteReference w:id="1"/></w:r>'), links=(("footnotes", "footnotes.xml"), ("endnotes", "endnotes.xml")),
             more={"word/footnotes.xml": notes("footnote", "notedword"), "word/endnotes.xml": notes("endnote", "endedword")}),
             ("claim", "notedword", "end", "endedword")),
        Case("comments.docx", lambda: word(para(run("doubtful") + '<w:r><w:commentReference w:id="1"/></w:r>'),
             links=(("comments", "comments.xml"),), more={"word/comments.xml": notes("comment", "commentword")}),
             ("doubtful", "Ann", "commentword")),
        Case("headers.docx", lambda: word(para(run("bodyword")), links=(("header", "header1.xml"), ("footer", "footer1.xml")), more={
             "word/header1.xml": f'{HEAD}<w:hdr xmlns:w="{W}">{para(run("letterhead"))}</w:hdr>',
             "word/footer1.xml": f'{HEAD}<w:ftr xmlns:w="{W}">{para(run("bankaccount"))}</w:ftr>'}),
             ("bodyword", "letterhead", "bankaccount")),
        Case("nostyles.docx", lambda: word(para(run("wordhere")), styles=False), ("wordhere",)),
        Case("macros.docm", lambda: word(para(run("macroword")), kind="application/vnd.ms-word.document.macroEnabled.main+xml"),
             ("macroword",)),
        Case("document2.docx", lambda: word(para(run("secondmain")), main="word/document2.xml"), ("secondmain",)),
        Case("template.dotx", lambda: word(para(run("templateword")), kind=WORD.replace("document.main", "template.main")),
             ("templateword",)),
        Case("strict.docx", lambda: word(para(run("strictword")), namespace="http://purl.oclc.org/ooxml/wordprocessingml/main"),
             ("strictword",)),
        Case("links.docx", lambda: word(para(f'<w:hyperlink r:id="r9">{run("linkedword")}</w:hyperlink><w:fldSimple w:instr="PAGE">'
             f"{run('fieldword')}</w:fldSimple><w:smartTag>{run('tagword')}</w:smartTag>")), ("linkedword", "fieldword", "tagword")),
        Case("tabs.docx", lambda: word(para('<w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/><w:t>three</w:t></w:r>')),
             ("one\ttwo", "three")),
        Case("hidden.docx", lambda: word(para(run("shown") + run("secretword", "<w:vanish/>"))), ("shown",), ("hidden text",), ("secretword",)),
        Case("pictures.docx", lambda: word(para(run("above") + picture("A red bicycle"))), ("above", "A red bicycle"), ("pictures", "OCR")),
        Case("chart.docx", lambda: word(para('<w:r><w:drawing><wp:inline><a:graphic><a:graphicData><c:chart r:id="r2"/></a:graphicData>'
             "</a:graphic></wp:inline></w:drawing></w:r>"), links=(("chart", "charts/chart1.xml"),), more={"word/charts/chart1.xml": CHART}),
             ("Parcels by month", "Oslo", "January", "4711")),
        Case("damagednotes.docx", lambda: word(para(run("stillread")), links=(("footnotes", "footnotes.xml"),),
             more={"word/footnotes.xml": "<w:footnotes"}), ("stillread",), ("word/footnotes.xml", "damaged")),
        Case("entities.docx", lambda: word(para(run("x")), more={"word/extra.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}),
             code="xml_entities"),
    ]  # fmt: skip


# -- Excel -------------------------------------------------------------------------------------------------------------


def cell(reference: str, value: object = None, *, style: int | None = None, kind: str = "", formula: str = "") -> str:
    styled = f' s="{style}"' if style is not None else ""
    calculated = f"<f>{formula}</f>" if formula else ""
    if isinstance(value, str) and not kind:
        return f'<c r="{reference}"{styled} t="inlineStr">{calculated}<is><t>{value}</t></is></c>'
    typed = f' t="{kind}"' if kind else ""
    stored = "" if value is None else f"<v>{value}</v>"
    return f'<c r="{reference}"{styled}{typed}>{calculated}{stored}</c>'


def rows(*given: tuple[int, str]) -> str:
    return "".join(f'<row r="{number}">{cells}</row>' for number, cells in given)


def book(
    data: str, *, before: str = "", after: str = "", shared: str = "", formats: str = "", second: tuple[str, str, str] | None = None,
    state: str = "", properties: str = "", more: dict[str, str] | None = None, links: tuple[tuple[str, str], ...] = (),
) -> bytes:  # fmt: skip
    """`second` is (type, path below xl/, content) of a second sheet; `links` are of the first sheet."""
    overrides = {"xl/workbook.xml": SHEET, "xl/worksheets/sheet1.xml": SHEET.replace("sheet.main", "worksheet")}
    linked = [("worksheet", "worksheets/sheet1.xml")]
    hidden = f' state="{state}"' if state else ""
    sheets = f'<sheet name="People" sheetId="1" r:id="r1"{hidden}/>'
    members: dict[str, str | bytes] = {
        "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
        "xl/worksheets/sheet1.xml": f'{HEAD}<worksheet xmlns="{S}" xmlns:r="{OD}">{before}<sheetData>{data}</sheetData>{after}</worksheet>',
    }
    if second:
        kind, path, content = second
        linked.append((kind, path))
        sheets += f'<sheet name="Second" sheetId="2" r:id="r{len(linked)}"/>'
        overrides[f"xl/{path}"] = SHEET.replace("sheet.main", kind)
        members[f"xl/{path}"] = content
    if shared:
        linked.append(("sharedStrings", "sharedStrings.xml"))
        overrides["xl/sharedStrings.xml"] = SHEET.replace("sheet.main", "sharedStrings")
        members["xl/sharedStrings.xml"] = f'{HEAD}<sst xmlns="{S}">{shared}</sst>'
    if formats:
        linked.append(("styles", "styles.xml"))
        overrides["xl/styles.xml"] = SHEET.replace("sheet.main", "styles")
        members["xl/styles.xml"] = f'{HEAD}<styleSheet xmlns="{S}">{formats}</styleSheet>'
    if links:
        members["xl/worksheets/_rels/sheet1.xml.rels"] = relations(*links)
    members["xl/workbook.xml"] = (
        f'{HEAD}<workbook xmlns="{S}" xmlns:r="{OD}">{properties}<sheets>{sheets}</sheets></workbook>'
    )
    members["xl/_rels/workbook.xml.rels"] = relations(*linked)
    for name, content in (more or {}).items():
        members[name] = content
    return zipped({"[Content_Types].xml": content_types(overrides), **members})


FORMATS = (
    '<numFmts count="2"><numFmt numFmtId="164" formatCode="dd/mm/yyyy hh:mm"/><numFmt numFmtId="165" formatCode="0.00 &quot;days&quot;"/>'
    '</numFmts><fonts count="1"><font/></fonts><fills count="1"><fill/></fills><borders count="1"><border/></borders>'
    '<cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="5"><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/>'
    '<xf numFmtId="165"/><xf numFmtId="20"/></cellXfs>'
)
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing"


def sheet_cases() -> list[Case]:
    people = rows((1, cell("A1", "Name") + cell("B1", "Email") + cell("C1", "Phone")), (2, cell("A2", "Bob") + cell("C2", "555-0100")),
                  (3, cell("B3", "amy@example.org")))  # fmt: skip
    cities = rows((1, cell("A1", "Name") + cell("B1", "City")), (2, cell("A2", "Bob") + cell("B2", "Oslo")))
    chart = f'{HEAD}<chartsheet xmlns="{S}"><sheetViews><sheetView workbookViewId="0"/></sheetViews></chartsheet>'
    box = (
        f'{HEAD}<xdr:wsDr xmlns:xdr="{DRAWING}" xmlns:a="{A}"><xdr:twoCellAnchor><xdr:sp><xdr:txBody><a:p><a:r><a:t>boxedword</a:t>'
        '</a:r></a:p></xdr:txBody></xdr:sp></xdr:twoCellAnchor><xdr:twoCellAnchor><xdr:pic><xdr:nvPicPr><xdr:cNvPr id="2" name="p" '
        'descr="A blue helmet"/></xdr:nvPicPr></xdr:pic></xdr:twoCellAnchor></xdr:wsDr>'
    )
    second = f'{HEAD}<worksheet xmlns="{S}"><sheetData>{rows((1, cell("A1", "secondsheet")))}</sheetData></worksheet>'
    return [
        Case("gaps.xlsx", lambda: book(people), ("Name | Email | Phone", "Bob |  | 555-0100", " | amy@example.org"), absent=("Bob | 555",)),
        Case("dimension.xlsx", lambda: book(cities, before='<dimension ref="A1"/>'), ("Name | City", "Bob | Oslo")),
        Case("nodimension.xlsx", lambda: book(cities), ("Bob | Oslo",)),
        Case("chartsheet.xlsx", lambda: book(cities, second=("chartsheet", "chartsheets/sheet1.xml", chart)), ("Oslo",)),
        Case("stray.xlsx", lambda: book(rows((1, cell("A1", "marker")), (1048576, cell("XFD1048576", "strayword")))), ("marker", "strayword")),
        Case("far.xlsx", lambda: book(rows((1, cell("A1", "near") + cell("XFD1", "farword")))), ("near", "XFD1: farword")),
        Case("shared.xlsx", lambda: book(rows((1, cell("A1", 0, kind="s") + cell("B1", 1, kind="s"))), shared="<si><t>sharedword</t></si>"
             "<si><r><t>rich</t></r><r><t>word</t></r><rPh><t>reading</t></rPh></si>"), ("sharedword | richword",), absent=("reading",)),
        Case("norefs.xlsx", lambda: book("<row><c><v>1</v></c><c><v>2</v></c></row><row><c t=\"inlineStr\"><is><t>three</t></is></c></row>"),
             ("1 | 2", "three")),
        Case("dates.xlsx", lambda: book(rows((1, cell("A1", 46352, style=1) + cell("B1", 46352.75, style=2) + cell("C1", 2.5, style=3)
             + cell("D1", 0.25, style=4))), formats=FORMATS), ("2026-11-26", "2026-11-26 18:00:00", "2.5", "06:00:00")),
        Case("dates1904.xlsx", lambda: book(rows((1, cell("A1", 44890, style=1))), formats=FORMATS, properties='<workbookPr date1904="1"/>'),
             ("2026-11-26",)),
        Case("merged.xlsx", lambda: book(rows((1, cell("A1", "merged") + cell("C1", "third"))), after='<mergeCells><mergeCell ref="A1:B1"/></mergeCells>'),
             ("merged |  | third",)),
        Case("formulas.xlsx", lambda: book(rows((1, cell("A1", 42, formula="B1*2") + cell("B1", "total", kind="str", formula="C1")
             + cell("C1", formula="SUM(D1:D9)")))), ("42 | total", "SUM(D1:D9)"), ("formula",)),
        Case("booleans.xlsx", lambda: book(rows((1, cell("A1", 1, kind="b") + cell("B1", "#N/A", kind="e")))), ("TRUE | #N/A",)),
        Case("numbers.xlsx", lambda: book(rows((1, cell("A1", 0.30000000000000004) + cell("B1", "4711", kind="n") + cell("C1", 1e-05)))), ("0.3 | 4711 | 1e-05",)),
        Case("hidden.xlsx", lambda: book(cities, state="hidden", second=("worksheet", "worksheets/sheet2.xml", second)), ("Oslo", "secondsheet"),
             noted=("sheet People", "hidden")),
        Case("comments.xlsx", lambda: book(cities, links=(("comments", "../comments1.xml"),), more={"xl/comments1.xml":
             f'{HEAD}<comments xmlns="{S}"><authors><author>Ann</author></authors><commentList><comment ref="B2" authorId="0"><text><t>commentword</t>'
             "</text></comment></commentList></comments>"}), ("Oslo", "B2", "commentword")),
        Case("drawings.xlsx", lambda: book(cities, links=(("drawing", "../drawings/drawing1.xml"),), more={"xl/drawings/drawing1.xml": box}),
             ("Oslo", "boxedword", "A blue helmet"), ("picture", "OCR")),
        Case("missingsheet.xlsx", lambda: without(book(cities, second=("worksheet", "worksheets/sheet2.xml", second)), "xl/worksheets/sheet2.xml"),
             ("Oslo",), ("sheet Second", "missing")),
        Case("macros.xlsm", lambda: retyped(book(cities), SHEET, "application/vnd.ms-excel.sheet.macroEnabled.main+xml"), ("Oslo",)),
        Case("binary.xlsb", lambda: retyped(book(cities), SHEET, "application/vnd.ms-excel.sheet.binary.macroEnabled.main"), code="unsupported_type"),
        Case("lines.xlsx", lambda: book(rows((1, cell("A1", "first&#10;second") + cell("B1", "next")))), ("first second | next",)),
    ]  # fmt: skip


def without(content: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return zipped({one: archive.read(one) for one in archive.namelist() if one != name})


def retyped(content: bytes, kind: str, other: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    members["[Content_Types].xml"] = archive_text(members["[Content_Types].xml"]).replace(kind, other)
    return zipped(members)


def archive_text(content: str | bytes) -> str:
    return content if isinstance(content, str) else content.decode()


# -- PowerPoint --------------------------------------------------------------------------------------------------------


def line(text: str) -> str:
    return f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>"


def shape(*texts: str, kind: str = "") -> str:
    place = f'<p:nvSpPr><p:cNvPr id="2" name="s"/><p:cNvSpPr/><p:nvPr>{f"<p:ph type={chr(34)}{kind}{chr(34)}/>" if kind else ""}</p:nvPr></p:nvSpPr>'
    return f"<p:sp>{place}<p:spPr/><p:txBody><a:bodyPr/>{''.join(map(line, texts))}</p:txBody></p:sp>"


def slide_xml(inner: str, tag: str = "sld", more: str = "") -> str:
    head = '<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'
    names = f'xmlns:p="{P}" xmlns:a="{A}" xmlns:r="{OD}" xmlns:c="{C}" xmlns:mc="{MC}"'
    return f"{HEAD}<p:{tag} {names}{more}><p:cSld><p:spTree>{head}{inner}</p:spTree></p:cSld></p:{tag}>"


def show(*slides: str, links: dict[int, tuple[tuple[str, str], ...]] | None = None, more: dict[str, str] | None = None,
         order: tuple[int, ...] = ()) -> bytes:  # fmt: skip
    """`order` are numbers of slides as they are shown; `links` are of the slides by their numbers."""
    targets = [("slide", f"slides/slide{number}.xml") for number, _ in enumerate(slides, 1)]
    ids = "".join(f'<p:sldId id="{255 + number}" r:id="r{number}"/>' for number in (order or range(1, len(slides) + 1)))
    members: dict[str, str | bytes] = {
        "_rels/.rels": relations(("officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f'{HEAD}<p:presentation xmlns:p="{P}" xmlns:r="{OD}"><p:sldIdLst>{ids}</p:sldIdLst><p:sldSz cx="9144000" cy="6858000"/><p:notesSz cx="1" cy="1"/></p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(*targets),
    }
    overrides = {"ppt/presentation.xml": SHOW}
    for part, other in (("slideLayout", "slideMaster"), ("slideMaster", "slideLayout")):
        members[f"ppt/{part}s/{part}1.xml"] = slide_xml(
            shape("Click to edit", kind="title"), part.replace("slideL", "sldL").replace("slideM", "sldM")
        )
        members[f"ppt/{part}s/_rels/{part}1.xml.rels"] = relations((other, f"../{other}s/{other}1.xml"))
        overrides[f"ppt/{part}s/{part}1.xml"] = SHOW.replace("presentation.main", part)
    for number, content in enumerate(slides, 1):
        members[f"ppt/slides/slide{number}.xml"] = content
        linked = (*(links or {}).get(number, ()), ("slideLayout", "../slideLayouts/slideLayout1.xml"))
        members[f"ppt/slides/_rels/slide{number}.xml.rels"] = relations(*linked)
        overrides[f"ppt/slides/slide{number}.xml"] = SHOW.replace("presentation.main", "slide")
    for name, content in (more or {}).items():
        members[name] = content
        if "notesSlide" in name:
            overrides[name] = SHOW.replace("presentation.main", "notesSlide")
    return zipped({"[Content_Types].xml": content_types(overrides), **members})


def frame(inner: str) -> str:
    return (
        '<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="4" name="t"/><p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr><p:xfrm>'
        f'<a:off x="0" y="0"/><a:ext cx="1" cy="1"/></p:xfrm><a:graphic>{inner}</a:graphic></p:graphicFrame>'
    )


def slide_cases() -> list[Case]:
    cells = "".join(f"<a:tc><a:txBody><a:bodyPr/>{line(text)}</a:txBody></a:tc>" for text in ("Lamps", "doubled"))
    tabular = frame(
        f'<a:graphicData uri="{A[:-5]}/table"><a:tbl><a:tblGrid><a:gridCol w="1"/><a:gridCol w="1"/></a:tblGrid><a:tr h="1">{cells}</a:tr></a:tbl></a:graphicData>'
    )
    charted = frame(f'<a:graphicData uri="{C}"><c:chart r:id="r1"/></a:graphicData>')
    group = f'<p:grpSp><p:nvGrpSpPr><p:cNvPr id="3" name="g"/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>{shape("groupedword")}</p:grpSp>'
    pictured = '<p:pic><p:nvPicPr><p:cNvPr id="5" name="p" descr="A green lamp"/><p:cNvPicPr/><p:nvPr/></p:nvPicPr><p:blipFill/><p:spPr/></p:pic>'
    speaker = slide_xml(shape("speakerword", kind="body") + shape("7", kind="sldNum"), "notes")
    return [
        Case("slides.pptx", lambda: show(slide_xml(shape("Welcome", kind="title") + shape("firstbody")), slide_xml(shape("secondslide"))),
             ("Welcome", "firstbody", "secondslide")),
        Case("order.pptx", lambda: show(slide_xml(shape("shownlast")), slide_xml(shape("shownfirst")), order=(2, 1)), ("shownfirst", "shownlast")),
        Case("notes.pptx", lambda: show(slide_xml(shape("slideword")), links={1: (("notesSlide", "../notesSlides/notesSlide1.xml"),)},
             more={"ppt/notesSlides/notesSlide1.xml": speaker}), ("slideword", "speakerword"), absent=("\n7",)),
        Case("groups.pptx", lambda: show(slide_xml(shape("outer") + group)), ("outer", "groupedword")),
        Case("tables.pptx", lambda: show(slide_xml(shape("above") + tabular)), ("above", "Lamps | doubled")),
        Case("charts.pptx", lambda: show(slide_xml(shape("above") + charted), links={1: (("chart", "../charts/chart1.xml"),)},
             more={"ppt/charts/chart1.xml": CHART}), ("above", "Parcels by month", "Oslo", "January", "4711")),
        Case("pictures.pptx", lambda: show(slide_xml(shape("above") + pictured)), ("above", "A green lamp"), ("slide 1", "OCR")),
        Case("filled.pptx", lambda: show(slide_xml(shape("above") + '<p:sp><p:spPr><a:blipFill/></p:spPr></p:sp>')), ("above",), ("slide 1", "OCR")),
        Case("hidden.pptx", lambda: show(slide_xml(shape("hiddenslide"), more=' show="0"')), ("hiddenslide",), noted=("slide 1", "hidden")),
        Case("missing.pptx", lambda: without(show(slide_xml(shape("stillhere")), slide_xml(shape("x"))), "ppt/slides/slide2.xml"),
             ("stillhere",), ("slide 2", "missing")),
    ]  # fmt: skip


# -- OpenDocument ------------------------------------------------------------------------------------------------------


def open_document(kind: str, body: str, styles: str = "") -> bytes:
    office = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
    names = " ".join(
        f'xmlns:{one}="urn:oasis:names:tc:opendocument:xmlns:{one}:1.0"'
        for one in ("text", "table", "presentation", "style")
    )
    drawn = 'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
    root = f'<office:document-content xmlns:office="{office}" {names} {drawn}>{styles}<office:body>{body}</office:body></office:document-content>'
    manifest = '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": HEAD + root,
            "META-INF/manifest.xml": manifest,
        }
    )


def open_cases() -> list[Case]:
    text = (
        '<office:text><text:tracked-changes><text:p>goneword</text:p></text:tracked-changes><text:h text:outline-level="1">Returns</text:h>'
        "<text:p>Thirty<text:s/>days<text:note><text:note-body><text:p>notedword</text:p></text:note-body></text:note>.</text:p>"
        "<table:table><table:table-row><table:table-cell><text:p>bell</text:p></table:table-cell><table:table-cell/><table:table-cell>"
        "<text:p>4.50</text:p></table:table-cell></table:table-row></table:table></office:text>"
    )
    sheet = (
        '<office:spreadsheet><table:table table:name="People"><table:table-row><table:table-cell><text:p>Bob</text:p></table:table-cell>'
        '<table:table-cell table:number-columns-repeated="2"/><table:table-cell><text:p>Oslo</text:p></table:table-cell></table:table-row>'
        '<table:table-row table:number-rows-repeated="1048574"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
        "</table:table></office:spreadsheet>"
    )
    hidden = '<office:automatic-styles><style:style style:name="{}" style:family="{}">{}</style:style></office:automatic-styles>'
    slides = "<office:presentation><draw:page><draw:frame><draw:text-box><text:p>slideword</text:p></draw:text-box></draw:frame></draw:page></office:presentation>"
    return [
        Case("text.odt", lambda: open_document("text", text), ("Returns", "Thirty days", "notedword", "bell |  | 4.50"), ("tracked changes",), ("goneword",)),
        Case("sheet.ods", lambda: open_document("spreadsheet", sheet), ("Bob |  |  | Oslo",)),
        Case("slides.odp", lambda: open_document("presentation", slides), ("slideword",)),
        Case("hidden.ods", lambda: open_document("spreadsheet", sheet.replace('name="People"', 'name="People" table:style-name="ta2"'),
             hidden.format("ta2", "table", '<style:table-properties table:display="false"/>')), ("Oslo",), noted=("sheet People", "hidden")),
        Case("hidden.odp", lambda: open_document("presentation", slides.replace("<draw:page>", '<draw:page draw:style-name="dp1">'),
             hidden.format("dp1", "drawing-page", '<style:drawing-page-properties presentation:visibility="hidden"/>')), ("slideword",), noted=("slide 1", "hidden")),
        Case("letter.rtf", lambda: rb"{\rtf1\ansi Hello}", code="unsupported_type"),
        Case("archive.zip", lambda: zipped({"a.txt": "a"}), code="unsupported_type"),
        Case("old.doc", lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, code="unsupported_type"),
    ]  # fmt: skip


# -- PDF ---------------------------------------------------------------------------------------------------------------


def pdf(*pages: str, password: str | None = None, algorithm: str = "AES-256", rotate: int = 0) -> bytes:
    """A page for each text; an empty text is an empty page, "scan" a page with a picture and nothing else."""
    import pypdf
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject, NumberObject

    writer = pypdf.PdfWriter()
    name = NameObject
    font = DictionaryObject(
        {name("/Type"): name("/Font"), name("/Subtype"): name("/Type1"), name("/BaseFont"): name("/Helvetica")}
    )
    for text in pages:
        page = writer.add_blank_page(300, 300)
        content = DecodedStreamObject()
        if text == "scan":
            scan = DecodedStreamObject()
            scan.set_data(b"\x80" * 16)
            scan.update({name("/Type"): name("/XObject"), name("/Subtype"): name("/Image"), name("/Width"): NumberObject(4),
                         name("/Height"): NumberObject(4), name("/BitsPerComponent"): NumberObject(8), name("/ColorSpace"): name("/DeviceGray")})  # fmt: skip
            pictures = DictionaryObject({name("/Im1"): writer._add_object(scan)})
            page[name("/Resources")] = DictionaryObject({name("/XObject"): pictures})
            content.set_data(b"q 300 0 0 300 0 0 cm /Im1 Do Q")
        elif text:
            content.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode())
            page[name("/Resources")] = DictionaryObject({name("/Font"): DictionaryObject({name("/F1"): font})})
        page[name("/Contents")] = writer._add_object(content)
        if rotate:
            page.rotate(rotate)
    if password is not None:
        writer.encrypt(password, "owner", algorithm=algorithm)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def pdf_with_picture(drawing: str, pixels: int = 400) -> bytes:
    """A page with the text “typedword”, a picture /Im1, and a form /Fm1 that draws the picture half as large."""
    import pypdf
    from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, FloatObject, NameObject, NumberObject

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("typedword")))
    name = NameObject
    picture = DecodedStreamObject()
    picture.set_data(b"\x80" * pixels * pixels)
    picture.update({name("/Subtype"): name("/Image"), name("/Width"): NumberObject(pixels), name("/Height"): NumberObject(pixels),
                    name("/BitsPerComponent"): NumberObject(8), name("/ColorSpace"): name("/DeviceGray")})  # fmt: skip
    objects = DictionaryObject({name("/Im1"): writer._add_object(picture)})
    form = DecodedStreamObject()
    form.set_data(b"/Im1 Do")
    half = ArrayObject(FloatObject(number) for number in (0.5, 0, 0, 0.5, 0, 0))
    form.update({name("/Subtype"): name("/Form"), name("/BBox"): ArrayObject(NumberObject(number) for number in (0, 0, 1, 1)),
                 name("/Matrix"): half, name("/Resources"): DictionaryObject({name("/XObject"): objects})})  # fmt: skip
    page = writer.pages[0]
    drawn = DictionaryObject({**objects, name("/Fm1"): writer._add_object(form)})
    page["/Resources"][name("/XObject")] = drawn
    content = DecodedStreamObject()
    content.set_data(page["/Contents"].get_data() + f" q {drawing} Q".encode())
    page[name("/Contents")] = writer._add_object(content)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def with_attachment() -> bytes:
    import pypdf

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("bodyword")))
    writer.add_attachment("bill.csv", b"a,b")
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def with_comment() -> bytes:
    import pypdf
    import pypdf.annotations

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("bodyword")))
    writer.add_annotation(0, pypdf.annotations.FreeText(text="commentword", rect=(50, 50, 200, 100)))
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def pdf_cases() -> list[Case]:
    return [
        Case("pages.pdf", lambda: pdf("firstpage", "secondpage"), ("firstpage", "secondpage")),
        Case("aes256.pdf", lambda: pdf("aesword", password=""), ("aesword",)),
        Case("aes128.pdf", lambda: pdf("aesword", password="", algorithm="AES-128"), ("aesword",)),
        Case("rc4.pdf", lambda: pdf("rcword", password="", algorithm="RC4-128"), ("rcword",)),
        Case("locked.pdf", lambda: pdf("secret", password="x"), code="encrypted"),
        Case("scanned.pdf", lambda: pdf("scan", "scan"), lost=("page 1", "page 2", "OCR"), code="needs_ocr"),
        Case("mixed.pdf", lambda: pdf("typedpage", "scan", "lastpage"), ("typedpage", "lastpage"), ("page 2", "OCR")),
        Case("figures.pdf", lambda: pdf_with_picture("200 0 0 100 0 0 cm /Im1 Do /Im1 Do"), ("typedword",), ("page 1, picture (2 times)", "OCR")),
        Case("strips.pdf", lambda: pdf_with_picture("200 0 0 4 0 0 cm " + "/Im1 Do " * 20), ("typedword",), ("page 1, picture (20 times)",)),
        Case("formed.pdf", lambda: pdf_with_picture("200 0 0 200 0 0 cm /Fm1 Do"), ("typedword",), ("page 1, picture",)),
        Case("nameless.pdf", lambda: pdf_with_picture("200 0 0 200 0 0 cm /Gone Do Do /Im1 Do"), ("typedword",), ("page 1, picture",)),
        Case("inline.pdf", lambda: pdf_with_picture("200 0 0 200 0 0 cm BI /W 200 /H 200 /BPC 8 /CS /G ID " + "x" * 40_000 + " EI"), ("typedword",),
             ("page 1, picture",)),
        Case("logo.pdf", lambda: pdf_with_picture("80 0 0 40 0 0 cm /Im1 Do"), ("typedword",), unlisted=("picture",)),
        Case("smallform.pdf", lambda: pdf_with_picture("100 0 0 100 0 0 cm /Fm1 Do"), ("typedword",), unlisted=("picture",)),
        Case("background.pdf", lambda: pdf_with_picture("300 0 0 300 0 0 cm /Im1 Do", pixels=4), ("typedword",), unlisted=("picture",)),
        Case("recognised.pdf", lambda: pdf_with_picture("300 0 0 300 0 0 cm /Im1 Do BT 3 Tr ET"), ("typedword",), unlisted=("picture",)),
        Case("empty.pdf", lambda: pdf("typedpage", "", "lastpage"), ("typedpage", "lastpage")),
        Case("rotated.pdf", lambda: pdf("rotatedword", rotate=90), ("rotatedword",)),
        Case("attached.pdf", with_attachment, ("bodyword",), ("bill.csv",)),
        Case("comment.pdf", with_comment, ("bodyword", "commentword")),
        Case("broken.pdf", lambda: b"%PDF-1.7\n" + b"\xff\xfe garbage" * 50, code="broken_file"),
    ]  # fmt: skip


# -- mail --------------------------------------------------------------------------------------------------------------

MAIL = "From: a@example.org\nTo: b@example.org\nMIME-Version: 1.0\nSubject: s\n"


def letter_with_files() -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "bob@example.com", "alice@example.com", "Rückgabe der Ware"
    mail.set_content("Die Räder kommen am Freitag zurück.")
    mail.add_alternative("<p>Die <b>Räder</b> kommen am Freitag zurück.</p>", subtype="html")
    mail.add_attachment(
        book(rows((1, cell("A1", "sheetword")))), maintype="application", subtype="octet-stream", filename="prices.xlsx"
    )
    mail.add_attachment(b"\x89PNG\r\n\x1a\n" + b"\0" * 50, maintype="image", subtype="png", filename="photo.png")
    return mail.as_bytes()


def mail_cases() -> list[Case]:
    multi = (
        "Content-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/plain\n\nbodyword\n--B\nContent-Type: text/csv\n"
        'Content-Disposition: attachment; filename="a.csv"\n\na,attachedword\n--B\nContent-Type: message/rfc822\n\nFrom: c@example.org\n'
        "Subject: inner\n\nforwardedword\n--B--\n"
    )
    hebrew = "שלום עולם".encode("iso-8859-8")
    return [
        Case("multi.eml", lambda: (MAIL + multi).encode(), ("bodyword", "a.csv", "attachedword", "inner", "forwardedword")),
        Case("files.eml", letter_with_files, ("Rückgabe der Ware", "Freitag zurück", "prices.xlsx", "sheetword"), ("photo.png", "OCR")),
        Case("boundary.eml", lambda: (MAIL + 'Content-Type: multipart/mixed; boundary="X"\n\nbodywithoutparts\n').encode(), ("bodywithoutparts",)),
        Case("alternative.eml", lambda: (MAIL + "Content-Type: multipart/alternative\n\nbodywithoutparts\n").encode(), ("bodywithoutparts",)),
        Case("parameter.eml", lambda: (MAIL + f"Content-Type: text/plain; x*{'9' * 5000}=y; charset=utf-8\n\nbodyword\n").encode(), ("bodyword",)),
        Case("japanese.eml", lambda: (MAIL + "Content-Type: text/plain; charset=ISO-2022-JP\n\n").encode() + JAPANESE.encode("iso-2022-jp"), (JAPANESE,)),
        Case("hebrew.eml", lambda: (MAIL + "Content-Type: text/plain; charset=iso-8859-8-i\n\n").encode() + hebrew, ("שלום עולם",)),
        Case("unknown8.eml", lambda: (MAIL + "Content-Type: text/plain; charset=unknown-8bit\n\n").encode() + "Die Räder kommen zurück, für Jürgen.".encode("cp1252"),
             ("Räder", "zurück"), noted=("message", "encoding")),
        Case("htmlonly.eml", lambda: (MAIL + "Content-Type: text/html\n\n<h1>Offer</h1><p>offeredword</p>").encode(), ("Offer", "offeredword")),
        Case("blankplain.eml", lambda: (MAIL + "Content-Type: multipart/alternative; boundary=B\n\n--B\nContent-Type: text/plain\n\n \n--B\nContent-Type: text/html\n\n"
             "<p>htmlword</p>\n--B--\n").encode(), ("htmlword",)),
        Case("rawheader.eml", lambda: "From: a@example.org\nSubject: Größe\n\nbody".encode("cp1252"), ("Größe", "body")),
        Case("encrypted.eml", lambda: (MAIL + "Content-Type: application/pkcs7-mime; name=smime.p7m\n\nxxxx").encode(), ("a@example.org",), ("encrypted",)),
        Case("calendar.eml", lambda: (MAIL + "Content-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/plain\n\nhello\n--B\nContent-Type: text/calendar\n\n"
             "BEGIN:VCALENDAR\nSUMMARY:meetingword\n--B--\n").encode(), ("hello", "meetingword")),
    ]  # fmt: skip


# -- texts -------------------------------------------------------------------------------------------------------------

CHINESE = "退货须在三十天内办理。请保留收据，并联系客服热线。"
JAPANESE = "返品は30日以内に限ります。領収書を保管してください。"
RUSSIAN = "Возврат товара возможен в течение тридцати дней. Сохраните чек."
GERMAN = "Die Rückgabe der Räder ist bis Freitag möglich – für 30 €. “Größe” zählt."


def text_cases() -> list[Case]:
    return [
        Case("gbk.txt", lambda: CHINESE.encode("gbk"), (CHINESE,), noted=("encoding",)),
        Case("shiftjis.txt", lambda: JAPANESE.encode("shift_jis"), (JAPANESE,), noted=("encoding",)),
        Case("windows1251.txt", lambda: RUSSIAN.encode("cp1251"), (RUSSIAN,), noted=("encoding",)),
        Case("windows1252.txt", lambda: GERMAN.encode("cp1252"), (GERMAN,), noted=("encoding",)),
        Case("euckr.txt", lambda: "반품은 30일 이내에 가능합니다. 영수증을 보관하십시오.".encode("euc_kr"), ("영수증을 보관하십시오",), noted=("encoding",)),
        Case("big5.csv", lambda: ("品名;價格\n" + "退貨須於三十天內辦理;30\n").encode("big5"), ("品名;價格", "辦理;30"), noted=("encoding",)),
        Case("utf16.txt", lambda: GERMAN.encode("utf-16"), (GERMAN,), absent=("\ufeff",)),
        Case("utf16be.csv", lambda: b"\xfe\xff" + "Name\tCity\nBob\tOslo".encode("utf-16-be"), ("Name\tCity", "Bob\tOslo")),
        Case("utf16nomark.txt", lambda: GERMAN.encode("utf-16-le"), (GERMAN,)),
        Case("utf8mark.csv", lambda: b"\xef\xbb\xbfName;City\nBob;Oslo", ("Name;City", "Bob;Oslo"), absent=("\ufeff",)),
        Case("semicolons.csv", lambda: b'Name;Remark\nBob;"two\nlines; one cell"\n', ("Name;Remark", "two\nlines; one cell")),
        Case("faq.md", lambda: b"# FAQ\n\n## Is the okapi open on Sundays? Yes.\n\n## Do you sell lemurs? No.\n\nAsk us.\n",
             ("FAQ", "okapi open on Sundays", "lemurs", "Ask us.")),
        Case("outline.md", lambda: b"# Alpha\n\n## Beta\n", ("Alpha", "Beta")),
        Case("underlined.md", lambda: b"Alpha\n=====\n\nfirst\n\nBeta\n----\n", ("Alpha", "first", "Beta")),
        Case("gbk.md", lambda: ("# 退货\n\n" + CHINESE).encode("gbk"), ("退货", CHINESE), noted=("encoding",)),
        Case("page.html", lambda: b"<title>Opening hours</title><body><h1>Hours</h1><p>Nine to <b>five</b></p><h2>Sundays</h2></body>",
             ("Opening hours", "Hours", "Nine to five", "Sundays")),
        Case("comments.html", lambda: b"<!-- -->" * 40 + b"<p>typedword</p>", ("typedword",)),
        Case("comments.txt", lambda: b"<!-- -->" * 40 + b"plainword", ("plainword",)),
        Case("spaces.html", lambda: b"<p>around" + b"&nbsp;" * 100_000 + b"the gap</p>", ("around", "the gap")),
        Case("japanese.html", lambda: ("<meta charset=iso-2022-jp><p>" + JAPANESE).encode("iso-2022-jp"), (JAPANESE,)),
        Case("declared.html", lambda: ("<meta charset=windows-1251><p>" + RUSSIAN).encode("cp1251"), (RUSSIAN,)),
        Case("frames.html", lambda: b"<body><p>around</p><iframe src='/prices'></iframe><img src=x alt='A yellow lamp'>",
             ("around", "A yellow lamp"), ("iframe", "/prices")),
        Case("scans.html", lambda: b"<p>around</p><img src=plan.png><img src=b width=600 height=400>", ("around",), ("pictures (2 times)", "OCR")),
        Case("icons.html", lambda: b"<p>around</p><img src=a width=1 height=1><img src=b width='120px'><img src=c height=20>", ("around",),
             unlisted=("picture",)),
        Case("tables.html", lambda: b"<table><tr><td>3</td><td></td><td>100</td></tr></table>", ("3 | ", "100"), absent=("3100",)),
        Case("signs.txt", lambda: b"if a < b and c > d: keep <this> too", ("a < b and c > d", "<this>")),
        Case("picture.png", lambda: b"\x89PNG\r\n\x1a\n" + b"\0" * 100, code="unsupported_type"),
        Case("binary.bin", lambda: bytes(range(256)) * 8, code="unsupported_type"),
    ]  # fmt: skip


CASES = [*word_cases(), *sheet_cases(), *slide_cases(), *open_cases(), *pdf_cases(), *mail_cases(), *text_cases()]
