"""Odd documents of other programs: all their text is found in its order, or its place and the reason are listed."""

import pytest

from knowledge.collections.pieces import cut_parts
from knowledge.indexing import parsing
from runs.intake.parts import list_places
from tests.corpus.documents import CASES

pytestmark = pytest.mark.usefixtures("libraries")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_of_an_odd_document_is_lost_in_silence(case):
    try:
        read, code = parsing.read_document_text(case.name, case.name, "application/octet-stream", case.make()), ""
        left_out = read.left_out
    except parsing.Unreadable as error:
        read, code, left_out = parsing.Content([]), error.code, error.left_out
    assert code == case.code
    text = "\n".join(f"{one.heading}\n{one.text}" for one in cut_parts(read.parts))
    place = 0
    for wanted in case.texts:
        assert wanted in text, f"{wanted!r} is lost"
        place = text.find(wanted.strip(), place)
        assert place >= 0, f"{wanted!r} does not stand in its order"
    listed = list_places(one for one in left_out if one.is_lost)
    noted = list_places(one for one in left_out if not one.is_lost)
    assert [word for word in case.lost if word not in listed] == [], listed
    assert [word for word in case.noted if word not in noted] == [] and bool(noted) == bool(case.noted), noted
    assert [word for word in case.absent if word in text] == []
    assert [word for word in case.unlisted if word in listed + noted] == []


def test_the_corpus_has_many_documents_of_each_kind():
    assert len(CASES) >= 100 and len({case.name for case in CASES}) == len(CASES)
