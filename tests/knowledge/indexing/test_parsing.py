"""The answer of a parser that a document may have taken over: bounded, and not believed."""

import tracemalloc

import pytest

from knowledge.collections.pieces import Part
from knowledge.indexing import parsing, program


def test_what_the_parser_answers_is_not_believed():
    assert parsing.read_answer(b"") == [], "a document without text"
    sizes = (b"-1", b"0", b"2", b"true", b'"1"', b"1e9", b"null")
    assert parsing.read_answer(b"") == []
    for answer in (
        b"[]\n",
        b"{\n",
        b"{}\n",
        b"1\n",
        b'{"error": 5}\n',
        b'{"size": 1}a',
        *(b'{"size": %s}\na' % one for one in sizes),
    ):
        with pytest.raises(parsing.Unreadable):
            parsing.read_answer(answer)
    [part] = parsing.read_answer(b'{"size": 1, "page": "5", "heading": null}\na')
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
            parsing.read_answer(answer)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < len(answer), f"{most >> 20} MB"


def test_an_answer_that_no_document_needs_is_not_kept():
    host = parsing.OneFile(b"")
    host.save_file("parts", b"x" * (program.BYTES + 1), "")
    assert host.answer == parsing.TOO_LARGE


def test_parts_come_back_as_the_program_wrote_them():
    parts = [{"text": "Zürich\n😀\ud800", "heading": "A" * 300, "page": 7}, {"text": " \n"}, {"text": "{}\nb"}]
    written = b"".join(map(program.lines_of, program.bounded(parts)))
    assert parsing.read_answer(written) == [Part("Zürich\n😀?", "A" * 200, 7), Part("{}\nb")]
