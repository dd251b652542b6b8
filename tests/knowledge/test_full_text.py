"""Searches by words stay bounded where most pieces share words with the question."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from knowledge import full_text
from knowledge.models import Chunk
from tests.knowledge.documents import collection_with

pytestmark = pytest.mark.django_db
PIECES = 40


@pytest.fixture
def crowd(alice, monkeypatch):
    """Two usual words in every document, one in a third of them, and one in a single document."""
    for name, most in {"COMMON": 4, "FOUND": 15, "SCORED": 10}.items():
        monkeypatch.setattr(full_text, name, most)
    about = {n: " parcels" * (n % 3 == 0) + " violet" * (n == 20) + " indeed" * n for n in range(PIECES)}
    row = collection_with(alice, {f"{n}.txt": f"Goods returned{text}." for n, text in about.items()}, name="crowd")
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE knowledge_chunk")
    return row


def names(row, text, limit=5):
    found = full_text.search_full_text(row.pk, row.version, text, limit)
    chunks = Chunk.objects.select_related("document").in_bulk([pk for pk, _ in found])
    return [chunks[pk].document.name for pk, _ in found]


def test_a_rare_word_finds_and_usual_words_rank(crowd):
    assert names(crowd, "violet goods") == ["20.txt"]


def test_usual_words_alone_find_what_has_all_then_what_has_the_rarer_ones(crowd):
    assert set(names(crowd, "returned goods", limit=3)) == {"0.txt", "1.txt", "2.txt"}, "the shortest of those found"
    assert set(names(crowd, "parcels goods", limit=3)) <= {f"{n}.txt" for n in range(0, PIECES, 3)}
    assert len(names(crowd, "returned goods", limit=50)) == 10
    assert names(crowd, "unknown goods", limit=1)


@pytest.mark.parametrize("question", ["returned goods", "violet goods", "goods parcels returned", "goods"])
def test_the_words_of_few_pieces_are_read(crowd, question):
    read = pieces_read(lambda: full_text.search_full_text(crowd.pk, crowd.version, question, 5))
    assert 0 <= read <= full_text.SCORED < PIECES


def test_no_usual_word_is_counted_in_postgresql(crowd):
    if connection.vendor != "postgresql":
        pytest.skip("only PostgreSQL's planner is asked which words are usual")
    tokens = full_text.build_index_tokens(crowd.pk, "returned goods violet")
    with CaptureQueriesContext(connection) as made:
        _, counts = full_text.Postgres.counts(crowd.pk, tokens)
    assert sorted(counts.values()) == [1, 5, 5], "usual words are more than COMMON"
    assert made[1]["sql"].count("knowledge_chunk WHERE words @@") == 1


def pieces_read(search):
    """How many pieces' words the search has read to rank them."""
    return read_in_postgresql(search) if connection.vendor == "postgresql" else read_in_sqlite(search)


def read_in_sqlite(search):
    """Words are counted with `replace`, once for each piece and token; the first call prepares the piece."""
    prepared = []

    def replace(text, old, new):
        prepared.append(old) if old == " " else None
        return text.replace(old, new)

    connection.connection.create_function("replace", 3, replace)
    search()
    return len(prepared)


def read_in_postgresql(search):
    with CaptureQueriesContext(connection) as made:
        search()
    ranked = [one["sql"] for one in made if "ts_rank" in one["sql"]]
    return max(scanned(sql) for sql in ranked)


def scanned(sql):
    """Rows of the outermost scan of the pieces: the one whose rows are ranked."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
        [(explained,)] = cursor.fetchall()
    plan = (json.loads(explained) if isinstance(explained, str) else explained)[0]["Plan"]
    return plan_rows(plan)


def plan_rows(node):
    if "ts_rank" in str(node.get("Sort Key")):
        return node["Plans"][0]["Actual Rows"] * node["Plans"][0]["Actual Loops"]
    return max((plan_rows(one) for one in node.get("Plans", ())), default=0)
