"""Indexing: documents of all kinds are read, hostile ones fail alone, and a worker that dies loses nothing."""

import io
import subprocess
import zipfile
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path
from uuid import uuid4

import docx
import openpyxl
import pypdf
import pytest
from django.contrib.auth import get_user_model
from django.core.files.storage import storages
from django.db import OperationalError, connection
from django.utils import timezone

from agents.models import StoredFile
from functions import sandbox
from knowledge.collections import storage
from knowledge.collections.search import search_collection
from knowledge.indexing import parsing, work
from knowledge.models import Chunk, Collection, Document
from tests.corpus.documents import CASES
from tests.files import stored

MAIL = b"From: Bob <bob@example.com>\nTo: alice@example.com\nSubject: Invoice 4711\n\nPlease pay by Friday.\n"
PAGE = b"<!doctype html><html><head><title>T</title><script>evil()</script></head><body><h1>Opening hours</h1><p>From nine</p><h2>Sundays</h2><p>Closed</p></body></html>"  # noqa: E501
N = pypdf.generic.NameObject
# a page tree that names one page 6,000 times
PAGES = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 6000/Kids["
    + b"3 0 R " * 6000
    + b"]>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
)


@pytest.fixture
def box(alice):
    return Collection.objects.create(owner=alice, name="box")


def put(box, name, content, media_type=""):
    file = stored(box.owner, name, content, media_type=media_type)
    row, _ = storage.add_file_document(box, file, name=name, source="file", untrusted=True)
    return row


def slides(text, *, declaration=""):
    body = f'{declaration}<p:sld xmlns:p="p" xmlns:a="a"><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>'
    return zipped({"ppt/presentation.xml": "<p/>", "ppt/slides/slide1.xml": body})


def zipped(members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def state(row):
    row.refresh_from_db()
    return row.status, row.error_code


def found(box, question):
    box.refresh_from_db()
    return [
        (one.chunk.document.name, one.chunk.place, one.chunk.text) for one in search_collection(box, question, limit=5)
    ]


def test_documents_of_several_kinds_are_read_and_hostile_ones_fail_alone(box):
    good = [put(box, "hours.html", PAGE), put(box, "bill.eml", MAIL), put(box, "talk.pptx", slides("Growth doubled"))]
    bomb = zipped({f"word/{number}.xml": b"\0" * (30 << 20) for number in range(8)} | {"word/document.xml": "<a/>"})
    laughs = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;">]>'
    bad = {
        "bomb.docx": (bomb, "too_large"),
        "entities.pptx": (slides("&c;", declaration=laughs), "xml_entities"),
        "broken.pdf": (b"%PDF-1.7\n" + b"\xff\xfe garbage" * 50, "broken_file|library_missing"),
        "broken.pptx": (zipped({"ppt/presentation.xml": "<a", "ppt/slides/slide1.xml": "<a"}), "broken_file"),
        "archive.zip": (zipped({"a.txt": "a"}), "unsupported_type"),
        "picture.png": (b"\x89PNG\r\n\x1a\n" + b"\0" * 100, "unsupported_type"),
        "empty.txt": (b"  \n ", "no_text"),
    }
    rows = {name: put(box, name, content) for name, (content, _) in bad.items()}
    assert work.index_waiting_documents() == len(good)
    for name, row in rows.items():
        status, code = state(row)
        assert status == "failed" and code in bad[name][1].split("|"), (name, code, row.error)
        assert row.error and "/work" not in row.error
    assert ("hours.html", "Sundays", "Closed") in found(box, "closed on sundays")
    assert found(box, "invoice 4711")[0][0] == "bill.eml" and found(box, "growth")[0][:2] == ("talk.pptx", "page 1")
    assert found(box, "evil") == []


def pdf(*texts, password=""):
    writer = pypdf.PdfWriter()
    font = pypdf.generic.DictionaryObject(
        {N("/Type"): N("/Font"), N("/Subtype"): N("/Type1"), N("/BaseFont"): N("/Helvetica")}
    )
    for text in texts:
        page = writer.add_blank_page(300, 300)
        content = pypdf.generic.DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode())
        page[N("/Contents")] = content
        fonts = pypdf.generic.DictionaryObject({N("/F1"): font})
        page[N("/Resources")] = pypdf.generic.DictionaryObject({N("/Font"): fonts})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def word():
    document = docx.Document()
    document.add_heading("Warranty")
    document.add_paragraph("Two years for bicycles.")
    document.add_table(1, 2).rows[0].cells[1].text = "Helmets"
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def test_pdf_and_word_are_read_with_their_places(box, libraries):
    put(box, "refunds.pdf", pdf("First page", "Refunds take a week"))
    put(box, "warranty.docx", word())
    rows = {"locked.pdf": put(box, "locked.pdf", pdf("Secret", password="x")), "long.pdf": put(box, "long.pdf", PAGES)}
    work.index_waiting_documents()
    assert state(rows["locked.pdf"]) == ("failed", "encrypted") and state(rows["long.pdf"])[0] == "failed"
    assert found(box, "refunds week")[0] == ("refunds.pdf", "page 2", "Refunds take a week")
    [(name, place, text)] = found(box, "bicycles")
    assert (name, place) == ("warranty.docx", "Warranty") and "Helmets" in text


def workbook():
    book = openpyxl.Workbook()
    book.active.title = "Prices"
    for row in (("article", "price"), ("bell", 4.5), ("saddle", 30)):
        book.active.append(row)
    stock = book.create_sheet("Stock")
    stock.append(("helmet", 12))
    stock["C1"] = "=B1*2"
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def presentation():
    """As PowerPoint writes it: a title, a table and notes."""
    names = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    names += ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    line = "<a:p><a:r><a:t>{}</a:t></a:r></a:p>".format
    shape = f"<p:sp><p:txBody>{line('Growth of the shop')}</p:txBody></p:sp>"
    cells = "".join(f"<a:tc><a:txBody>{line(text)}</a:txBody></a:tc>" for text in ("Lamps", "doubled"))
    table = f"<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tr>{cells}</a:tr></a:tbl></a:graphicData></a:graphic>"
    second = f"<p:sld {names}><p:cSld><p:spTree>{shape}{table}</p:graphicFrame></p:spTree></p:cSld></p:sld>"
    return zipped({
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "ppt/presentation.xml": f"<p:presentation {names}/>",
        "ppt/slides/slide1.xml": f"<p:sld {names}>{line('Welcome')}</p:sld>",
        "ppt/slides/slide2.xml": second,
    })  # fmt: skip


def letter():
    """A mail with an alternative in HTML and an encoded subject and body."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "bob@example.com", "alice@example.com", "Rückgabe der Ware"
    mail.set_content("Die Räder kommen am Freitag zurück.")
    mail.add_alternative("<p>Die <b>Räder</b> kommen am Freitag zurück.</p>", subtype="html")
    return mail.as_bytes()


KINDS = {
    "refunds.pdf": (lambda: pdf("First page", "Refunds take a week"), "refunds", "page 2"),
    "warranty.docx": (lambda: word(), "bicycles", "Warranty"),
    "talk.pptx": (presentation, "lamps doubled", "page 2"),
    "prices.xlsx": (workbook, "saddle", "Prices"),
    "hours.html": (lambda: PAGE, "sundays closed", "Sundays"),
    "rules.md": (lambda: b"# Rules\n\nText.\n\n## Parcels\n\nThey leave on Mondays.\n", "leave mondays", "Parcels"),
    "mail.eml": (letter, "räder freitag", None),
}


def test_a_real_file_of_each_kind_is_found_at_its_place(box, libraries):
    for name, (content, _, _) in KINDS.items():
        put(box, name, content())
    assert work.index_waiting_documents() == len(KINDS), list(Document.objects.values_list("name", "error"))
    for name, (_, question, place) in KINDS.items():
        first = found(box, question)[0]
        assert first[0] == name and place in (None, first[1]), first
    assert found(box, "rückgabe ware")[0][0] == "mail.eml"
    assert found(box, "helmet 12")[0][:2] == ("prices.xlsx", "Stock"), "the second sheet; the warranty has helmets too"


def test_a_document_says_what_is_not_in_its_text_on_its_page_and_in_the_api(box, libraries, client, alice):
    rows = [
        put(box, case.name, case.make()) for case in CASES if case.name in ("mixed.pdf", "scanned.pdf", "gaps.xlsx")
    ]
    work.index_waiting_documents()
    shown = {}
    client.force_login(alice)
    for row in rows:
        row.refresh_from_db()
        body = client.get(f"/api/v1/collections/box/documents/{row.pk}").json()
        page = client.get(f"/collections/box/documents/{row.pk}/").content.decode()
        assert ("Not in the text" in page) == bool(body["left_out"])
        assert all(one["reason"] in page and one["place"] in page for one in body["left_out"])
        shown[row.name] = body["status"], [one["place"] for one in body["left_out"]]
    assert shown == {
        "gaps.xlsx": ("ready", []),
        "mixed.pdf": ("ready", ["page 2"]),
        "scanned.pdf": ("failed", ["page 1", "page 2"]),
    }


def test_a_document_that_takes_too_long_fails_and_others_go_on(box, monkeypatch):
    monkeypatch.setattr(parsing, "LIMITS", sandbox.Limits(timeout_s=1, memory_mb=768, call_kb=1024))
    monkeypatch.setattr(parsing, "PROGRAM", "while True: pass")
    slow, quick = put(box, "slow.html", PAGE), put(box, "quick.txt", b"Quick words.")
    assert work.index_waiting_documents() == 1
    assert state(slow) == ("failed", "too_slow") and state(quick) == ("ready", "")


def test_a_worker_that_died_is_replaced_and_its_late_result_is_not_stored_twice(box):
    row = put(box, "a.txt", b"Goods and words.")
    [claimed] = storage.claim_waiting_documents(10, 60)
    assert storage.claim_waiting_documents(10, 60) == [], "another worker does not take it"
    Document.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert work.index_waiting_documents() == 1 and state(row) == ("ready", "")
    assert storage.finish_read_documents([storage.Read(claimed, work.cut_pieces([parsing.Part("Goods again.")]))]) == 0
    box.refresh_from_db()
    assert (box.version, Chunk.objects.count()) == (1, 1)


def test_a_document_that_kills_its_workers_is_given_up(box):
    row = put(box, "a.txt", b"Goods.")
    for _ in range(storage.ATTEMPTS):
        assert len(storage.claim_waiting_documents(10, -1)) == 1
    assert storage.claim_waiting_documents(10, 60) == [] and state(row) == ("failed", "gave_up")
    again = storage.index_again(row)
    assert work.index_waiting_documents() == 1 and state(again) == ("ready", "")
    assert StoredFile.objects.count() == Document.objects.count() == 1


def test_a_full_sandbox_lets_a_document_wait(box, monkeypatch):
    def busy(*args):
        raise parsing.NotNow("busy")

    row = put(box, "a.html", PAGE)
    monkeypatch.setattr(work, "read_document_text", busy)
    monkeypatch.setattr(work, "TURN_S", 0.05)
    work.index_waiting_documents()
    row.refresh_from_db()
    assert (row.status, row.attempts) == ("waiting", 0)


def test_a_document_does_not_fail_because_the_database_is_away(box, monkeypatch):
    document = put(box, "notes.txt", b"Pay on Mondays.")

    def away(file):
        raise OperationalError("the server closed the connection")

    with monkeypatch.context() as fault, pytest.raises(OperationalError):
        fault.setattr(work, "load_content", away)
        work.index_waiting_documents()
    document.refresh_from_db()
    assert (document.status, document.error_code) == (Document.Status.INDEXING, "")
    Document.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    work.index_waiting_documents()
    assert state(document) == (Document.Status.READY, "")


def test_private_addresses_are_not_fetched(box):
    row, _ = storage.add_url(box, f"http://127.0.0.1:9/{uuid4()}", name="inside")
    work.index_waiting_documents()
    assert state(row) == ("failed", "private_address")


def test_a_page_is_fetched_and_an_unchanged_one_makes_no_version(box, monkeypatch):
    monkeypatch.setattr(work, "fetch_public_page", lambda url: (b"Parcels leave on Mondays.", "text/plain"))
    row, _ = storage.add_url(box, "https://example.com/a", name="a")
    assert work.index_waiting_documents() == 1 and found(box, "parcels")[0][0] == "a"
    row.refresh_from_db()
    storage.index_again(row)
    assert work.index_waiting_documents() == 0
    box.refresh_from_db()
    assert (box.version, Document.objects.count()) == (1, 1)


def test_an_unchanged_page_of_the_site_makes_no_version_either(monkeypatch, db):
    site = Collection.objects.create(name="site")
    monkeypatch.setattr(work, "fetch_public_page", lambda url: (b"Parcels leave on Mondays.", "text/plain"))
    row, _ = storage.add_url(site, "https://example.com/a", name="a")
    assert work.index_waiting_documents() == 1
    row.refresh_from_db()
    storage.index_again(row)
    assert work.index_waiting_documents() == 0
    site.refresh_from_db()
    assert (site.version, Document.objects.count(), row.media_type) == (1, 1, "text/plain")


def test_rows_that_a_cascade_deletes_leave_the_index(box):
    """Django deletes chunks without a call of ours; the triggers of the table do the rest."""
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite has a table for the index")
    put(box, "a.txt", b"Goods and words.")
    work.index_waiting_documents()
    Document.objects.all().delete()
    assert count_of("words") == 0
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO chunk_words(chunk_words) VALUES ('integrity-check')")


def count_of(word):
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM chunk_words WHERE chunk_words MATCH %s", [f'"{word}"'])
        return cursor.fetchone()[0]


@pytest.mark.django_db(transaction=True)
def test_nothing_of_an_erased_document_is_left(box):
    word = "zanzibar"
    row = put(box, "trip.txt", f"We meet in {word}.".encode())
    put(box, "other.txt", b"Other words.")
    work.index_waiting_documents()
    assert found(box, word) != []
    row.refresh_from_db()
    stored_at = storages["files"].path(row.file.stored)
    row.source = Document.Source.UPLOAD
    row.save(update_fields=["source"])
    assert storage.erase_document(row) == 1
    assert found(box, word) == [] and found(box, "other words") != []
    assert not Path(stored_at).exists()
    assert_nothing_left(word)


@pytest.mark.django_db(transaction=True)
def test_nothing_of_the_documents_of_a_deleted_person_is_left(admin_client, bob):
    word = "timbuktu"
    row = put(Collection.objects.create(owner=bob, name="trips"), "trip.txt", f"We meet in {word}.".encode())
    assert work.index_waiting_documents() == 1
    stored_at = storages["files"].path(row.file.stored)
    answer = admin_client.post(f"/admin/agents/user/{bob.pk}/delete/", {"post": "yes"})
    assert answer.status_code == 302, answer.content.decode()[-3000:]
    assert not get_user_model().objects.filter(pk=bob.pk).exists() and not Path(stored_at).exists()
    assert_nothing_left(word)


def assert_nothing_left(word):
    for table in connection.introspection.table_names():
        with connection.cursor() as cursor:
            cursor.execute(f'SELECT * FROM "{table}"')
            assert not [line for line in cursor.fetchall() if word.encode() in as_bytes(line)], table
    if connection.vendor == "sqlite":
        assert files_with(word, Path(connection.settings_dict["NAME"])) == ""


def files_with(word, database):
    """Another process reads the files: closing one of them here would drop the locks of this process's connections."""
    files = list(database.parent.glob(f"{database.name}*"))
    assert database in files
    return subprocess.run(["grep", "-l", word, *files], capture_output=True, text=True).stdout


def as_bytes(line):
    return b" ".join(value if isinstance(value, bytes) else str(value).encode() for value in line)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("erase", ["document", "collection"])
def test_a_document_that_is_erased_while_it_is_read_leaves_nothing(box, erase):
    word = "samarkand"
    row = put(box, "trip.txt", f"We meet in {word}.".encode())
    Document.objects.filter(pk=row.pk).update(source=Document.Source.UPLOAD)
    stored_at = storages["files"].path(row.file.stored)
    [claimed] = storage.claim_waiting_documents(10, 60)
    read = work.read_claimed_document(claimed)
    if erase == "document":
        assert storage.erase_document(Document.objects.get(pk=row.pk)) == 1
    else:
        storage.erase_collection(box)
        box.delete()
    assert storage.finish_read_documents([read]) == 0
    assert not Document.objects.exists() and not Chunk.objects.exists() and not Path(stored_at).exists()
    assert_nothing_left(word)
