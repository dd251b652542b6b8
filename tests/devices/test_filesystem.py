import contextlib
import io
import json
import os
import tempfile
import threading
import zipfile
from pathlib import Path

import pytest

from devices.client import stopping
from devices.client.exceptions import Stopped, ToolRefused
from devices.client.tools import filesystem
from devices.client.tools.filesystem import (
    Listing,
    format_file_time,
    get_file_metadata,
    list_directory,
    read_file_content,
)
from devices.client.workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    return Workspace({"docs": tmp_path})


def test_it_lists_only_what_was_asked_for(workspace, tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a.md", "b.txt", "sub/c.md"):
        (tmp_path / name).write_text(name)
    os.utime(tmp_path / "a.md", (0, 0))
    assert [e["path"] for e in list_directory(workspace)["entries"]] == ["a.md", "b.txt", "sub"]
    assert [e["path"] for e in list_directory(workspace, recursive=True, extensions=["MD"])["entries"]] == [
        "a.md",
        "sub",
        "sub/c.md",
    ]
    new = list_directory(workspace, recursive=True, modified_since="2020-01-01T00:00:00Z")["entries"]
    assert [e["path"] for e in new] == ["b.txt", "sub", "sub/c.md"]
    assert list_directory(workspace, path="sub")["entries"][0]["path"] == "sub/c.md"


def test_a_long_listing_says_that_it_was_cut(workspace, tmp_path):
    for number in range(30):
        (tmp_path / f"{number}.txt").touch()
    listing = list_directory(workspace, limit=10)
    assert (len(listing["entries"]), listing["truncated"]) == (10, True)


def test_a_file_that_goes_while_it_is_listed_is_counted_and_passed_over(workspace, tmp_path, monkeypatch):
    (tmp_path / "stays.txt").touch()
    (tmp_path / "goes.txt").touch()
    whole = Listing.scan

    def scan(self, fd):
        entries = list(whole(self, fd))
        (tmp_path / "goes.txt").unlink()
        return entries

    monkeypatch.setattr(Listing, "scan", scan)
    listing = list_directory(workspace)
    assert ([entry["path"] for entry in listing["entries"]], listing["skipped"]) == (["stays.txt"], 1)


def test_a_time_beyond_the_calendar_is_no_reason_to_fail(workspace, tmp_path):
    (tmp_path / "far.txt").touch()
    with contextlib.suppress(OSError, OverflowError):
        os.utime(tmp_path / "far.txt", (1e12, 1e12))
    assert [entry["path"] for entry in list_directory(workspace)["entries"]] == ["far.txt"]
    assert format_file_time(1e12) is None


def test_a_name_that_is_no_text_is_counted_and_left_out(workspace, tmp_path):
    (tmp_path / os.fsdecode(b"\xff\xfe.txt")).touch()
    listing = list_directory(workspace)
    assert (listing["entries"], listing["skipped"]) == ([], 1)


def test_an_unreadable_folder_is_counted_and_passed_over():
    """Root may read everything, so it is tried by somebody who may not."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        (folder / "open.txt").touch()
        (folder / "locked").mkdir(mode=0o000)
        (folder / "locked.txt").touch(mode=0o000)
        folder.chmod(0o755)
        said = as_nobody(look_around, home)
        assert said == {"entries": ["locked", "locked.txt", "open.txt"], "skipped": 1, "refused": ["unreadable"] * 2}


def look_around(home: str) -> dict:
    workspace = Workspace({"docs": Path(home)})
    listing = list_directory(workspace, recursive=True)
    refused = []
    for tool, path in ((list_directory, "locked"), (read_file_content, "locked.txt")):
        with pytest.raises(ToolRefused, match="may not read") as refusal:
            tool(workspace, path=path)
        refused.append(refusal.value.code)
    return {"entries": [e["path"] for e in listing["entries"]], "skipped": listing["skipped"], "refused": refused}


def as_nobody(work, *arguments):
    """What `work` returns in a child process without a right; here already where this is no root."""
    if os.geteuid() != 0:
        return work(*arguments)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(writing, json.dumps(work(*arguments)).encode())
        except BaseException as error:  # a child must not return into the test runner
            os.write(writing, json.dumps(repr(error)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = json.load(pipe)
    os.waitpid(child, 0)
    return said


def test_parts_of_a_file_join_to_the_whole(workspace, tmp_path):
    text = "Zwölf Boxkämpfer 🥊 jagen Viktor quer über den Sylter Deich.\n" * 50
    (tmp_path / "a.txt").write_text(text)
    joined, offset = "", 0
    while offset is not None:
        part = read_file_content(workspace, "a.txt", offset=offset, length=37)
        joined, offset = joined + part["text"], part["next_offset"]
    assert joined == text


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        ("héllo".encode(), "héllo", "utf-8"),
        (b"\xef\xbb\xbfhi", "hi", "utf-8"),
        ("hé".encode("utf-16"), "hé", "utf-16-le"),
        ("d\xe9j\xe0".encode("latin-1"), "déjà", "cp1252"),
        (b"", "", "utf-8"),
    ],
)
def test_it_finds_out_the_encoding(workspace, tmp_path, data, text, encoding):
    (tmp_path / "a.txt").write_bytes(data)
    part = read_file_content(workspace, "a.txt")
    assert (part["text"], part["encoding"]) == (text, encoding)


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"\x89PNG\r\n\x1a\n\x00", "PNG"), (b"PK\x03\x04rest", "ZIP"), (b"\x7fELF\x00", "program"), (b"a\x00b", "binary")],
)
def test_binary_files_are_refused_with_a_reason(workspace, tmp_path, data, reason):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ToolRefused, match=reason) as refusal:
        read_file_content(workspace, "file")
    assert refusal.value.code == "binary"


@pytest.mark.parametrize("encoding", ["zlib", "rot13", "no-such", "base64"])
def test_only_encodings_of_text_are_taken(workspace, tmp_path, encoding):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(ToolRefused):
        read_file_content(workspace, "a.txt", encoding=encoding)


def test_a_huge_file_is_read_in_parts_without_loading_it(workspace, tmp_path):
    with (tmp_path / "huge.log").open("wb") as file:
        file.write(b"begin\n" * 2000)
        file.truncate(50 * 1024**3)  # sparse: fifty gigabytes
    part = read_file_content(workspace, "huge.log", length=6)
    assert (part["text"], part["next_offset"], part["size"]) == ("begin\n", 6, 50 * 1024**3)


def test_it_reads_the_text_of_word_files(workspace, tmp_path):
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.add_paragraph("Minutes of the meeting")
    document.save(tmp_path / "minutes.docx")
    assert "Minutes of the meeting" in read_file_content(workspace, "minutes.docx")["text"]


def test_it_reads_the_text_of_pdf_files(workspace, tmp_path):
    (tmp_path / "a.pdf").write_bytes(PDF)
    assert "Hello PDF" in read_file_content(workspace, "a.pdf")["text"]


@pytest.mark.parametrize("name", ["broken.pdf", "broken.docx"])
def test_a_damaged_document_is_an_error_not_a_crash(workspace, tmp_path, name):
    (tmp_path / name).write_bytes(b"%PDF-1.4 nonsense" * 10)
    with pytest.raises(ToolRefused) as refusal:
        read_file_content(workspace, name)
    assert refusal.value.code in ("unreadable", "unsupported")


def test_a_word_file_that_unpacks_without_end_is_refused(workspace, tmp_path):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(5):
            archive.writestr(f"word/{number}.xml", b"\0" * 45 * 1024 * 1024)
    (tmp_path / "bomb.docx").write_bytes(bomb.getvalue())
    with pytest.raises(ToolRefused) as refusal:
        read_file_content(workspace, "bomb.docx")
    assert refusal.value.code == "too_large"


def test_a_stopped_listing_stops(workspace, tmp_path):
    (tmp_path / "a").touch()
    stop = threading.Event()
    stop.set()
    stopping.watch(stop)
    try:
        with pytest.raises(Stopped):
            list_directory(workspace)
    finally:
        stopping.watch(threading.Event())


def test_metadata_says_what_a_path_is(workspace, tmp_path):
    (tmp_path / "a.txt").write_text("12345")
    assert get_file_metadata(workspace, "a.txt")["size"] == 5
    assert get_file_metadata(workspace, ".")["type"] == "folder"


def pdf(text: str) -> bytes:
    stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >> stream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj %s endobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return out + b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % table


PDF = pdf("Hello PDF")


def test_of_more_files_than_asked_for_the_newest_are_listed(workspace, tmp_path):
    for number in range(100):
        (tmp_path / f"{number:03}.txt").touch()
        os.utime(tmp_path / f"{number:03}.txt", (number * 7919 % 100, number * 7919 % 100))
    listing = list_directory(workspace, limit=10)
    newest = sorted(range(100), key=lambda number: number * 7919 % 100)[-10:]
    assert [entry["path"] for entry in listing["entries"]] == [f"{number:03}.txt" for number in sorted(newest)]
    assert listing["truncated"] is True


def test_a_listing_that_takes_too_long_says_that_it_was_cut(workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(filesystem, "LISTING_S", -1.0)
    (tmp_path / "a.txt").touch()
    assert list_directory(workspace)["truncated"] is True
