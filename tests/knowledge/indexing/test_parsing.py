"""The answer of a parser that a document may have taken over: bounded, and not believed."""

import tracemalloc

import pytest

from functions.sandbox.inside.documents import answer as writing
from functions.sandbox.inside.documents.plain import find_codec
from functions.sandbox.inside.documents.report import LeftOut, limit_parts
from functions.sandbox.inside.letters.left_out import MOST_LEFT_OUT
from knowledge.collections.pieces import LeftOut as Listed
from knowledge.collections.pieces import Part
from knowledge.indexing import parsing


def test_what_the_parser_answers_is_not_believed():
    assert parsing.parse_program_answer(b"") == parsing.Content([]), "a document without text"
    sizes = (b"-1", b"0", b"2", b"true", b'"1"', b"1e9", b"null")
    for answer in (
        b"[]\n",
        b"{\n",
        b"{}\n",
        b"1\n",
        b'{"error": 5}\n',
        b'{"size": 1}a',
        b'{"left_out": 5}\n',
        b'{"left_out": {"place": "page 1"}}\n',
        b'{"left_out": {"place": "page 1", "reason": "x"}}\n',
        *(b'{"size": %s}\na' % one for one in sizes),
    ):
        with pytest.raises(parsing.Unreadable):
            parsing.parse_program_answer(answer)
    [part] = parsing.parse_program_answer(b'{"size": 1, "page": "5", "heading": null}\na').parts
    assert (part.text, part.page) == ("a", None)


def test_a_parser_that_was_taken_over_cannot_fill_the_memory():
    """64 MB of JSON can become gigabytes of objects."""
    size = 10 << 20
    answers = [
        b'{"parts": [' + b"{}," * (size // 3) + b"{}]}",
        b'{"size": 1, "heading": ' + b"[" * size + b"\na",
        b'{"size": 1}\na' * (size // 13),
    ]
    for answer in answers:
        tracemalloc.start()
        with pytest.raises(parsing.Unreadable):
            parsing.parse_program_answer(answer)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < len(answer), f"{most >> 20} MB"


def test_an_answer_that_no_document_needs_is_not_kept():
    host = parsing.OneFile(b"")
    host.save_file("parts", b"x" * (writing.BYTES + 1), "")
    assert host.answer == parsing.TOO_LARGE


def test_parts_come_back_as_the_program_wrote_them():
    parts = [{"text": "Zürich\n😀\ud800", "heading": "A" * 300, "page": 7}, {"text": " \n"}, {"text": "{}\nb"}]
    written = b"".join(map(writing.encode_part, limit_parts(parts)))
    long = f"{'A' * 300}\nZürich\n😀?"
    assert parsing.parse_program_answer(written).parts == [Part(long, "A" * 200, 7), Part("{}\nb")]


def test_what_was_left_out_comes_back_and_a_long_list_counts_the_rest():
    left_out = LeftOut()
    left_out.add("page 1", "It needs OCR.")
    left_out.add("page 1", "It needs OCR.")
    left_out.note("sheet A", "It is hidden.")
    for number in range(2, 300):
        left_out.add(f"page {number}", "It needs OCR.")
    entries = left_out.entries()
    assert len(entries) == MOST_LEFT_OUT and entries[0]["place"] == "page 1 (2 times)"
    assert entries[-1]["reason"] == "201 more places are left out."
    assert [entry["place"] for entry in entries if not entry["is_lost"]] == ["sheet A"]
    answer = b"".join(writing.encode_line({"left_out": entry}) for entry in entries)
    assert parsing.parse_program_answer(answer * 3).left_out == [Listed(**entry) for entry in entries]
    with pytest.raises(parsing.Unreadable) as failure:
        parsing.parse_program_answer(answer + b'{"error": "needs_ocr", "message": "All its pages are pictures."}\n')
    assert failure.value.code == "needs_ocr" and len(failure.value.left_out) == MOST_LEFT_OUT


def test_a_codec_that_is_no_charset_of_documents_is_not_used():
    assert [find_codec(name) for name in ("utf-7", "punycode", "unicode_escape", "zlib", "rot13", "nothing")] == [
        ""
    ] * 6
    assert [find_codec(name) for name in ("ISO-8859-1", "x-sjis", '"UTF-8"')] == ["cp1252", "cp932", "utf-8"]
