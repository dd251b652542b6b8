"""Vectors of collections: who makes them, what happens without the model, and that search by meaning finds more."""

import random
import socket
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from agents.models import Provider
from benchmarks.retrieval import Corpus
from knowledge.collections import meaning
from knowledge.collections.search import search_collection
from knowledge.models import ChunkVector, Collection, Document
from registry.exceptions import AttemptFailed
from runs.models import Run
from runs.worker import document_vectors
from tests.knowledge.documents import add, collection_with, index

pytestmark = pytest.mark.django_db
TEXTS = {"returns.md": "Goods may be returned within 30 days.", "hours.md": "The shop opens at nine."}


@pytest.fixture(autouse=True)
def no_rest():
    document_vectors._rested.clear()
    yield
    document_vectors._rested.clear()


@pytest.fixture
def mind(alice, stub):
    return Provider.objects.create(owner=alice, name="mind", kind="openai-compatible", base_url=stub.url)


@pytest.fixture
def shop(alice, alice_api, mind):
    collection_with(alice, TEXTS, name="shop")
    return with_model(alice_api, "mind:embed")


def with_model(api, embeddings, status=200):
    answer = api.patch("/api/v1/collections/shop", {"embeddings": embeddings}, content_type="application/json")
    assert answer.status_code == status, answer.json()
    return Collection.objects.get(name="shop")


def names(row, question, **more):
    row.refresh_from_db()
    return [one.chunk.document.name for one in search_collection(row, question, limit=10, **more)]


def due(row):
    Collection.objects.filter(pk=row.pk).update(embed_after=timezone.now() - timedelta(seconds=1))


def script(monkeypatch, vector):
    monkeypatch.setattr(
        document_vectors.vectors.embeddings,
        "embed_and_count",
        lambda provider, model, texts, **more: ([*map(vector, texts)], 1),
    )


def make_vectors():
    """The worker's turns, on this thread; returns how many vectors were made."""
    done = 0
    while collection := meaning.claim_unembedded_collection(document_vectors.LEASE_S):
        done += document_vectors.make(collection)
    return done


def test_vectors_are_made_by_the_worker_and_paid_by_the_owner(alice, shop, stub):
    assert make_vectors() == 2 and make_vectors() == 0
    shop.refresh_from_db()
    assert (shop.dimensions, shop.embed_after, shop.embeddings_error) == (256, None, "")
    assert {len(bytes(one.vector)) for one in ChunkVector.objects.all()} == {1024}
    run = Run.objects.get()
    assert (run.principal, run.status, run.input) == (alice, "succeeded", {"texts": 2})
    assert stub.embedded[0]["input"][0].startswith("returns.md . Goods")
    add(shop, "new.md", "Parcels leave on Mondays.")
    index()
    assert make_vectors() == 1  # only the new piece


def test_a_collection_without_a_model_costs_nothing(alice, stub, django_assert_num_queries):
    row = collection_with(alice, TEXTS)
    is_estimated = connection.vendor == "postgresql"  # its planner is asked first which words are usual
    with django_assert_num_queries(3 + is_estimated):  # how frequent the words are, which pieces have them, the pieces
        search_collection(row, "goods", limit=3)
    with django_assert_num_queries(1):
        assert make_vectors() == 0
    assert not ChunkVector.objects.exists() and stub.embedded == []


def test_words_go_on_while_the_model_is_away(shop, stub, mind):
    Provider.objects.filter(pk=mind.pk).update(base_url="http://127.0.0.1:9/v1")
    assert make_vectors() == 0
    shop.refresh_from_db()
    assert shop.embeddings_error and shop.embed_after > timezone.now() + timedelta(seconds=30)
    assert names(shop, "goods") == ["returns.md"]
    Provider.objects.filter(pk=mind.pk).update(base_url=stub.url)
    due(shop)
    assert make_vectors() == 2
    Provider.objects.filter(pk=mind.pk).update(base_url="http://127.0.0.1:9/v1")
    assert names(shop, "goods") == ["returns.md"] and shop.pk in document_vectors._rested


@pytest.fixture
def silent():
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


def test_words_answer_soon_while_the_model_hangs(shop, mind, silent, settings):
    settings.COLLECTION_QUESTION_S = 0.3
    make_vectors()
    Provider.objects.filter(pk=mind.pk).update(base_url=silent)
    began = time.monotonic()
    assert names(shop, "goods") == ["returns.md"] and shop.pk in document_vectors._rested
    assert time.monotonic() - began < 60  # a model that writes a text may be silent for minutes


def test_a_question_about_nothing_in_the_collection_finds_nothing(alice, alice_api, mind, monkeypatch, settings):
    """Of 120 texts with scripted vectors: what each of two limits finds for 120 questions, and for 60 about nothing in them."""
    corpus, chance = Corpus(), random.Random(3)
    script(monkeypatch, corpus.vector)
    collection_with(alice, corpus.texts, name="shop")
    row = with_model(alice_api, "mind:embed")
    make_vectors()
    strange = [" ".join("".join(chance.choices("qxvz", k=7)) for _ in range(5)) for _ in range(60)]
    figures = {}
    for limit in (0.0, 0.3):
        settings.COLLECTION_NEAR = limit
        junk = sum(len(names(row, question)) for question in strange) / len(strange)
        figures[limit] = (junk, *corpus.measure(lambda question: names(row, question)))
        print(f"least similarity {limit}: {junk:.1f} pieces for nothing, MRR and recall@5 {figures[limit][1:]}")
    assert figures[0.0][0] == 10 and figures[0.3][0] < 1, "256 places cannot keep all words apart"
    assert figures[0.3][1] >= figures[0.0][1] - 0.01 and figures[0.3][2] >= figures[0.0][2] - 0.01


def test_all_questions_of_an_evaluation_are_one_request(shop, alice_api, stub):
    make_vectors()
    for number in range(12):
        question = {"question": f"How are goods {number} returned?", "document": "returns.md"}
        assert alice_api.post("/api/v1/collections/shop/questions/", question).status_code == 201
    stub.embedded.clear()
    answer = alice_api.post("/api/v1/collections/shop/evaluate").json()
    assert answer["recall_at_5"] == 1.0 and [len(one["input"]) for one in stub.embedded] == [12]


def test_two_workers_do_not_make_the_same_vectors(shop):
    assert meaning.claim_unembedded_collection(60).pk == shop.pk and meaning.claim_unembedded_collection(60) is None
    due(shop)  # the first died
    assert make_vectors() == 2


def test_another_model_or_another_dimension_makes_all_vectors_again(shop, alice_api, monkeypatch):
    corpus = Corpus()
    make_vectors()
    with_model(alice_api, "mind:other")
    assert make_vectors() == 2
    script(monkeypatch, lambda text: corpus.vector(text)[:64])
    assert names(shop, "goods") == ["returns.md"]  # the question has another dimension: words alone
    assert make_vectors() == 2
    shop.refresh_from_db()
    assert shop.dimensions == 64 and {len(bytes(one.vector)) for one in ChunkVector.objects.all()} == {256}


def test_a_dimension_that_changes_while_vectors_are_made_loses_none(shop, monkeypatch):
    make_vectors()
    add(shop, "new.md", "Parcels leave on Mondays.")
    index()
    script(monkeypatch, lambda text: Corpus().vector(text)[:64])
    assert make_vectors() == 3
    shop.refresh_from_db()
    assert shop.embed_after is None
    assert set(Document.objects.values_list("vectors_number", flat=True)) == {shop.vectors_number}


def test_a_vector_of_a_document_that_was_erased_meanwhile_is_not_kept(shop):
    chunks = next(iter(meaning.lacking(shop, 10)))
    made = document_vectors.of_chunks(shop, chunks)
    Document.objects.filter(name="hours.md").delete()
    assert meaning.store_chunk_vectors(shop, made) and ChunkVector.objects.count() == 1


def test_a_model_must_be_one_that_the_person_can_use(alice, bob, alice_api, mind):
    collection_with(alice, TEXTS, name="shop")
    Provider.objects.create(owner=bob, name="his", kind="openai-compatible", base_url="http://127.0.0.1:9")
    Provider.objects.create(owner=alice, name="other", kind="anthropic")
    for wrong in ("his:embed", "mind", "other:embed", "nothing:embed"):
        with_model(alice_api, wrong, 422)
    assert with_model(alice_api, "").embed_after is None


def test_a_provider_that_the_owner_lost_is_an_error_of_the_collection(shop, bob, mind):
    Provider.objects.filter(pk=mind.pk).update(owner=bob)
    assert make_vectors() == 0
    shop.refresh_from_db()
    assert "no provider" in shop.embeddings_error


def test_an_earlier_version_is_searched_by_meaning_too(shop, monkeypatch):
    make_vectors()
    add(shop, "new.md", "Goods, goods.")
    index()
    make_vectors()
    assert "new.md" in names(shop, "goods") and "new.md" not in names(shop, "goods", version=1)


def test_meaning_finds_at_least_what_words_find_and_words_what_counting_finds(alice, alice_api, mind, monkeypatch):
    corpus = Corpus()
    script(monkeypatch, corpus.vector)
    row = collection_with(alice, corpus.texts, name="shop")
    naive = corpus.measure(corpus.naive)
    words = corpus.measure(lambda question: names(row, question))
    row = with_model(alice_api, "mind:embed")
    assert make_vectors() == len(corpus.texts)
    both = corpus.measure(lambda question: names(row, question))
    print(f"MRR, recall@5: naive {naive}, words {words}, words and meaning {both}")
    assert naive[0] <= words[0] < both[0] and naive[1] <= words[1] < both[1]
    assert words[0] > 0.63 and words[1] > 0.8, "the weight of a word is its rarity in this collection"


def test_a_model_that_goes_away_in_the_middle_makes_only_what_lacks_when_it_is_back(shop, stub, monkeypatch):
    """Vectors that were made before are kept, and pieces without one are found by their words."""
    monkeypatch.setattr(document_vectors, "BATCH", 1)
    asked = document_vectors.vectors.embeddings.embed_and_count

    def once(provider, model, texts, **more):
        if stub.embedded:
            raise AttemptFailed("unreachable", "The server is away.")
        return asked(provider, model, texts, **more)

    with monkeypatch.context() as fault:
        fault.setattr(document_vectors.vectors.embeddings, "embed_and_count", once)
        assert make_vectors() == 1
    shop.refresh_from_db()
    assert ChunkVector.objects.count() == 1 and shop.embeddings_error and shop.embed_after is not None
    assert "hours.md" in names(shop, "nine") and "returns.md" in names(shop, "goods")
    kept = ChunkVector.objects.get().pk
    stub.embedded.clear()
    document_vectors._rested.clear()
    due(shop)
    assert make_vectors() == 1 and [len(one["input"]) for one in stub.embedded] == [1]
    shop.refresh_from_db()
    assert (ChunkVector.objects.count(), shop.embed_after, shop.embeddings_error) == (2, None, "")
    assert ChunkVector.objects.filter(pk=kept).exists()
