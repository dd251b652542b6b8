"""Files in every encoding, read whole and in parts of every length: no letter is lost, and every reading ends."""

import codecs
import random
from encodings.aliases import aliases

import pytest

from devices.client.exceptions import ToolRefused
from devices.client.tools.filesystem import read_file_content
from devices.client.tools.searching import search_files
from devices.client.workspace import Workspace

TEXT = "Zwölf Boxkämpfer 🥊 jagen 請在週五 über den Deich.\r\n" * 3
LATE = b"plain\n" * 3000
KNOWN_BY_MARK = ["utf-8-sig", "utf-16", "utf-32"]
NAMED = ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "gb18030", "utf-7", "utf-16", "utf-32", "UTF8"]


@pytest.fixture
def workspace(tmp_path):
    return Workspace({"docs": tmp_path})


def read_in_parts(workspace, length, **more):
    joined, offset, parts = "", 0, 0
    while offset is not None:
        part = read_file_content(workspace, "a.txt", offset=offset, length=length, **more)
        joined, offset, parts = joined + part["text"], part["next_offset"], parts + 1
        assert parts < 2000, "it does not end"
    return joined


@pytest.mark.parametrize("length", [1, 2, 3, 5, 7, 64])
@pytest.mark.parametrize("encoding", KNOWN_BY_MARK)
def test_a_marked_file_is_read_in_parts(workspace, tmp_path, encoding, length):
    (tmp_path / "a.txt").write_bytes(TEXT.encode(encoding))
    assert read_in_parts(workspace, length) == TEXT


@pytest.mark.parametrize("length", [1, 3, 64])
@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE])
def test_a_marked_big_endian_file_is_read_in_parts(workspace, tmp_path, mark, length):
    encoding = "utf-16-be" if mark == codecs.BOM_UTF16_BE else "utf-32-be"
    (tmp_path / "a.txt").write_bytes(mark + TEXT.encode(encoding))
    assert read_in_parts(workspace, length) == TEXT
    assert read_in_parts(workspace, length, encoding=encoding.removesuffix("-be")) == TEXT


@pytest.mark.parametrize("length", [1, 3, 64])
@pytest.mark.parametrize("encoding", NAMED)
def test_a_file_is_read_in_parts_in_the_encoding_that_was_asked_for(workspace, tmp_path, encoding, length):
    (tmp_path / "a.txt").write_bytes(TEXT.encode(encoding))
    assert read_in_parts(workspace, length, encoding=encoding) == TEXT


@pytest.mark.parametrize("length", [1, 3, 64])
@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("iso2022_jp", "abc 漢字 def 文書\n"),
        ("shift_jis", "漢字 ソ"),
        ("euc_jp", "漢字 文書"),
        ("hz", "abc 汉字 def 文书\n"),
    ],
)
def test_encodings_whose_bytes_depend_on_earlier_ones_are_read_in_parts(workspace, tmp_path, encoding, text, length):
    (tmp_path / "a.txt").write_bytes((text * 3).encode(encoding))
    assert read_in_parts(workspace, length, encoding=encoding) == text * 3


@pytest.mark.parametrize("late", ["déjà “vu” 5 € – 20 °C\n".encode("cp1252"), "déjà “vu” 5 €\n".encode()])
@pytest.mark.parametrize("length", [17, 4096, 65_536])
def test_letters_after_the_first_8_kb_are_not_lost(workspace, tmp_path, late, length):
    (tmp_path / "a.txt").write_bytes(LATE + late)
    assert read_in_parts(workspace, max(length, 100)).endswith(("déjà “vu” 5 € – 20 °C\n", "déjà “vu” 5 €\n"))


def test_one_wrong_byte_spoils_no_other_letter(workspace, tmp_path):
    (tmp_path / "a.txt").write_bytes("Überblick für ".encode() + b"M\xfcller" + " – Größe".encode())
    for length in (1, 2, 5, 1000):
        assert read_in_parts(workspace, length) == "Überblick für Müller – Größe"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_an_offset_inside_a_letter_begins_with_the_next_one(workspace, tmp_path, encoding):
    text = "aé請🥊b"
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    size = (tmp_path / "a.txt").stat().st_size
    for offset in range(1, size):
        part = read_file_content(workspace, "a.txt", offset=offset)
        assert text.endswith(part["text"]), (offset, part)


@pytest.mark.parametrize("offset", [100, 2**31, 2**63, 2**64, 10**30])
@pytest.mark.parametrize("encoding", ["", "utf-16", "hz", "latin-1"])
def test_an_offset_behind_the_end_is_the_end(workspace, tmp_path, offset, encoding):
    (tmp_path / "a.txt").write_text("short")
    part = read_file_content(workspace, "a.txt", offset=offset, length=10**30, encoding=encoding)
    assert (part["text"], part["next_offset"], part["offset"]) == ("", None, offset)


def test_any_bytes_are_read_to_their_end(workspace, tmp_path):
    chance = random.Random(38)
    for _ in range(60):
        data = bytes(chance.choice([0x41, 0x80, 0xC3, 0xA9, 0xE2, 0x82, 0xF0, 0x9F, 0xFF, 0x0A]) for _ in range(40))
        (tmp_path / "a.txt").write_bytes(b"a" + data)
        whole = read_file_content(workspace, "a.txt")["text"]
        for length in (1, 3, 11):
            assert read_in_parts(workspace, length) == whole, data


@pytest.mark.parametrize("encoding", ["idna", "punycode", "undefined", "zlib", "rot13", "nothing", "utf-8\0", "x" * 99])
def test_only_encodings_of_text_are_taken(workspace, tmp_path, encoding):
    (tmp_path / "a.txt").write_bytes(b"text")
    with pytest.raises(ToolRefused) as refusal:
        read_file_content(workspace, "a.txt", encoding=encoding)
    assert refusal.value.code == "invalid_arguments"


@pytest.mark.parametrize("encoding", sorted(set(aliases.values())))
def test_every_encoding_of_python_is_read_or_refused(workspace, tmp_path, encoding):
    (tmp_path / "a.txt").write_bytes(b"\x80+abc~{\\x")
    try:
        assert read_in_parts(workspace, 3, encoding=encoding) is not None
    except ToolRefused as refusal:
        assert refusal.code == "invalid_arguments"


@pytest.mark.parametrize("start", ["MZ is a magazine\n", "ID3 cards\n", "RIFF-RAFF\n", "GIF89 was a format\n"])
def test_a_text_may_begin_with_the_letters_of_a_binary_format(workspace, tmp_path, start):
    (tmp_path / "a.txt").write_text(start)
    assert read_file_content(workspace, "a.txt")["text"] == start


@pytest.mark.parametrize(
    "data",
    [
        ("x" * 900 + "\n\nné needle\n").encode(),
        ("é" * 900 + "\n\nné needle\n").encode("cp1252"),
        ("é" * 900 + "\n\nné needle\n").encode("utf-8-sig"),
        ("é🥊" * 450 + "\n\nné needle\n").encode("utf-16"),
        ("é🥊" * 450 + "\n\nné needle\n").encode("utf-32"),
        "é".encode() * 450 + b"\xe9" * 450 + b"\n\nn\xe9 needle\n",
        b"\xff" * 900 + "\n\nné needle\n".encode(),
    ],
    ids=["utf-8", "cp1252", "utf-8 with a mark", "utf-16", "utf-32", "both", "wrong bytes"],
)
def test_what_a_search_finds_is_read_at_its_offset(workspace, tmp_path, data):
    (tmp_path / "a.txt").write_bytes(data)
    [found] = search_files(workspace, "needle")["results"]
    read = read_file_content(workspace, "a.txt", offset=found["offset"])
    assert read["text"].strip() == found["text"] and "né needle" in found["text"]


def test_line_ends_are_kept(workspace, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\rthree\nfour")
    assert read_in_parts(workspace, 4) == "one\r\ntwo\rthree\nfour"
