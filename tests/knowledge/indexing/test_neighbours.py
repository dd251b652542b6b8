"""What one person adds to a collection does not keep other people's documents from being read."""

import pytest
from django.test import override_settings

from knowledge.collections import storage
from knowledge.indexing import parsing, work
from knowledge.models import Chunk, Collection, Document

from .test_work import put, state

pytestmark = pytest.mark.django_db
FAR = b"words. " * 1300  # more than the beginning of a file, from which its type is determined


@pytest.fixture
def box(alice):
    return Collection.objects.create(owner=alice, name="box")


@pytest.fixture
def theirs(bob):
    return Collection.objects.create(owner=bob, name="theirs")


def test_a_heading_that_no_database_can_store_is_mended(box, theirs):
    bad = put(box, "a.md", FAR + b"\n# Re\0turns\nWithin 30 days.\n", "text/markdown")
    mail = put(box, "b.eml", b"From: a@example.com\nSubject: =?utf-8?q?a=00b?=\n\nPlease pay.\n")
    good = put(theirs, "c.txt", b"Parcels leave on Mondays.")
    work.index_waiting_documents()
    assert [state(row) for row in (bad, mail, good)] == [("ready", "")] * 3
    assert set(Chunk.objects.exclude(heading="").values_list("heading", flat=True)) == {"Returns", "ab"}


def test_what_a_parser_answers_can_always_be_stored(box):
    row = put(box, "a.txt", b"Words.")
    [part] = parsing.parse_program_answer(b'{"size": 6, "heading": "c\\u0000\\udfff"}\na\0b\xed\xa0\x80').parts
    [piece] = work.cut_pieces([part])
    assert (piece.text, piece.heading) == ("ab\ufffd\ufffd\ufffd", "c?")
    [claimed] = storage.claim_waiting_documents(10, 60)
    storage.fail(claimed, "x\0y", "bad\0 \ud800")
    assert state(row) == ("failed", "xy")


def test_pages_that_exceed_a_quota_together_fail_alone(box, theirs, monkeypatch):
    pages = {name: name.encode() + b" leave on Mondays. " * 50 for name in ("one", "two", "six")}
    monkeypatch.setattr(work, "fetch_public_page", lambda url: (pages[url[-3:]], "text/plain"))
    rows = [storage.add_url(box, f"https://example.com/{name}", name=name)[0] for name in pages]
    good = put(theirs, "c.txt", b"Parcels leave on Mondays.")
    with override_settings(FILE_BYTES_PER_PERSON=2 * len(pages["one"]) + 10):
        work.index_waiting_documents()
    assert state(good) == ("ready", "")
    assert sorted(state(row) for row in rows) == [("failed", "quota_exceeded"), ("ready", ""), ("ready", "")]


def test_a_document_that_cannot_be_stored_fails_alone(box, theirs, monkeypatch):
    bad, next_to_it = put(box, "bad.txt", b"Bad."), put(box, "fine.txt", b"Fine.")
    good = put(theirs, "good.txt", b"Good.")
    chunks_of = storage.build_document_chunks

    def broken(collection_id, read):
        if read.document.pk == bad.pk:
            raise ValueError("A string literal cannot contain NUL")
        return chunks_of(collection_id, read)

    monkeypatch.setattr(storage, "build_document_chunks", broken)
    assert work.index_waiting_documents() == 2
    assert state(bad) == ("failed", "internal_error")
    assert state(next_to_it) == state(good) == ("ready", "")


def test_slow_documents_of_one_person_let_others_go_first(box, theirs, monkeypatch):
    """Time is given in turns: after one, all other people come before the next."""
    slow = [put(box, f"slow-{number}.txt", f"Slow {number}.".encode()) for number in range(6)]
    good = put(theirs, "good.txt", b"Good words.")
    now, read = [0.0], []
    read_text = work.read_document_text

    def parts(id, name, media_type, content):
        read.append(name)
        now[0] += 60.0 if name.startswith("slow") else 0.01
        return read_text(id, name, media_type, content)

    monkeypatch.setattr(work, "read_document_text", parts)
    monkeypatch.setattr(work, "seconds", lambda: now[0])
    for _ in range(12):
        work.index_waiting_documents()
    assert read.index("good.txt") <= 1, read
    assert {state(row) for row in [*slow, good]} == {("ready", "")}
    assert Document.objects.filter(attempts__gt=1).count() == 0


def test_small_files_with_much_text_cannot_fill_the_database(box, theirs, alice, settings):
    """A file of 100 kB can contain 8 MB of text, and the quota of files counts the 100 kB."""
    settings.CHUNKS_PER_PERSON = 3
    other = Collection.objects.create(owner=alice, name="other")
    two, one, more = put(box, "two.txt", FAR[:2000]), put(other, "one.txt", b"One."), put(box, "more.txt", FAR)
    good = put(theirs, "c.txt", b"Parcels leave on Mondays.")
    work.index_waiting_documents()
    assert [state(row) for row in (one, good)] == [("ready", "")] * 2
    assert Chunk.objects.filter(document__collection__owner=alice).count() <= 3
    assert "failed" in {state(two)[0], state(more)[0]} and state(more) == ("failed", "too_much_text")
    more.refresh_from_db()
    assert "erase some" in more.error
