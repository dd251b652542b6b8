"""Search by meaning: vectors of a collection's pieces, compared one by one with that of a question.

Who asks the embedding model is named by the setting COLLECTION_VECTORS, because it stands above this app. Vectors
belong to the number that the collection had when they were made; another model or another dimension is a new number.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, Sum
from django.utils.module_loading import import_string

from agents.models import SiteHold
from knowledge.models import Chunk, ChunkVector, Collection, Document
from plumbing import clock
from plumbing.fair import of_others

# Pieces; in a larger collection only those that words find are compared by meaning.
COMPARED = 50_000
# Vectors in memory at once.
BLOCK = 2000
# Documents whose vectors are made together.
DOCUMENTS = 50
# Of one number of a vector.
BYTES = 4
# Columns that change with the model.
CHOSEN = ("vectors_number", "dimensions", "embed_after", "embeddings_error")


# -- searching ---------------------------------------------------------------------------------------------------------


def find_nearest_chunks(
    collection: Collection, version: int, texts: Sequence[str], limit: int, among: Sequence[Sequence[int]]
) -> list[list[int]] | None:
    """For each text the pieces nearest in meaning, best first; None if there are no vectors of the texts.

    `among` are the pieces that words found for each.
    """
    if collection.dimensions is None:
        return None
    ask_model = import_string(settings.COLLECTION_VECTORS)
    vectors: list[bytes] | None = ask_model(collection, texts)
    if vectors is None:
        return None
    # Vectors of another length come from another model than those that are stored.
    sizes = {len(vector) for vector in vectors}
    if sizes != {collection.dimensions * BYTES}:
        return None
    documents = Document.objects.filter(collection=collection).of_version(version)
    rows = ChunkVector.objects.filter(number=collection.vectors_number, chunk__document__in=documents)
    total = documents.aggregate(count=Sum("chunk_count"))
    count = total["count"] or 0
    if count <= COMPARED:
        return find_nearest_rows(vectors, iterate_stored_vectors(rows), limit)
    nearest = []
    for vector, few in zip(vectors, among, strict=True):
        few_rows = iterate_stored_vectors(rows.filter(pk__in=few))
        nearest += find_nearest_rows([vector], few_rows, limit)
    return nearest


def iterate_stored_vectors(rows: Any) -> Iterator[tuple[int, Any]]:
    vectors: Iterator[tuple[int, Any]] = rows.values_list("pk", "vector").iterator(chunk_size=BLOCK)
    return vectors


def find_nearest_rows(vectors: Sequence[bytes], rows: Iterable[tuple[int, Any]], limit: int) -> list[list[int]]:
    """For each vector the nearest rows that are near enough. All vectors are compared in one pass over the rows."""
    # Importing it takes 0.1 s, and only collections with vectors need it.
    import numpy

    questions = numpy.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1).T
    nearest_rows: list[list[tuple[float, int]]] = [[] for _ in vectors]
    iterator = iter(rows)
    while block := list(islice(iterator, BLOCK)):
        pks = [pk for pk, _ in block]
        joined = b"".join(vector for _, vector in block)
        matrix = numpy.frombuffer(joined, dtype="<f4").reshape(len(block), -1)
        # One row of scores for each question.
        all_scores = (matrix @ questions).T.tolist()
        for number, scores in enumerate(all_scores):
            candidates = nearest_rows[number]
            for score, pk in zip(scores, pks, strict=True):
                # Negative, so that sorting puts the nearest first, then the oldest.
                if score >= settings.COLLECTION_NEAR:
                    candidates.append((-score, pk))
            nearest_rows[number] = sorted(candidates)[:limit]
    return [list_ranked_ids(pairs) for pairs in nearest_rows]


def list_ranked_ids(pairs: list[tuple[float, int]]) -> list[int]:
    return [pk for _, pk in pairs]


# -- making vectors ----------------------------------------------------------------------------------------------------


def choose_embedding_model(collection: Collection, embeddings: str) -> None:
    """Set the model before the row is saved; vectors of another are made again."""
    if collection.embeddings == embeddings:
        return
    collection.embeddings = embeddings
    collection.embeddings_error = ""
    collection.vectors_number += 1
    collection.dimensions = None
    collection.embed_after = clock.Now() if embeddings else None


def claim_unembedded_collection(lease_s: float, without: Sequence[int | None] = ()) -> Collection | None:
    """Claim a collection that lacks vectors, for so many seconds; None if there is none. Collections of the owners in
    `without` are passed over.
    """
    due = Collection.objects.filter(SiteHold.absent(), embed_after__lte=clock.Now()).select_related("owner")
    row = of_others(due, "owner", without).order_by("embed_after").first()
    if row is None:
        return None
    # Only one worker finds the row as it was.
    unclaimed = due.filter(pk=row.pk, embed_after=row.embed_after)
    if not unclaimed.update(embed_after=clock.Now(lease_s)):
        return None
    row.refresh_from_db(fields=["embed_after"])
    return row


def lacking(collection: Collection, limit: int) -> Iterator[list[Chunk]]:
    """Pieces without a vector, in batches that belong together; their documents are done after each batch.

    Two workers never make the vectors of one collection: whoever asks has claimed it.
    """
    number = collection.vectors_number
    is_outdated = ~Q(vectors_number=number) | Q(vectors_number=None)
    rows = Document.objects.filter(is_outdated, collection=collection, status=Document.Status.READY).order_by("id")
    vectors = ChunkVector.objects.filter(chunk=OuterRef("pk"), number=number)
    without_vector = Chunk.objects.filter(~Exists(vectors)).select_related("document").defer("words").order_by("id")
    while documents := list(rows.values_list("pk", flat=True)[:DOCUMENTS]):
        chunks = without_vector.filter(document__in=documents)
        # Whoever takes a batch stores its vectors, so that the next query finds the rest.
        while batch := list(chunks[:limit]):
            yield batch
        Document.objects.filter(pk__in=documents).update(vectors_number=number)


def passage(chunk: Chunk) -> str:
    """A piece as the model reads it: a question often names the document."""
    texts = [chunk.document.name, chunk.heading, chunk.text]
    return " . ".join(filter(None, texts))


@transaction.atomic
def store_chunk_vectors(collection: Collection, vectors: dict[int, bytes]) -> bool:
    """Store vectors of chunks that are still there. False if the collection has another model or dimension since."""
    row = Collection.objects.select_for_update().filter(pk=collection.pk).first()
    if row is None or row.vectors_number != collection.vectors_number:
        return False
    dimensions = {len(vector) // BYTES for vector in vectors.values()}
    most = max(dimensions)
    if dimensions != {row.dimensions or most}:
        # The model answers with another dimension than before: all vectors are made again.
        row.vectors_number += 1
        row.dimensions = None
        row.embed_after = clock.Now()
        row.save(update_fields=["vectors_number", "dimensions", "embed_after"])
        return False
    Collection.objects.filter(pk=row.pk).update(dimensions=most, embeddings_error="")
    # A piece may have been erased while the model was asked: its vector must not come back.
    there = Chunk.objects.filter(pk__in=vectors).values_list("pk", flat=True)
    chunk_vectors = [ChunkVector(chunk_id=pk, number=row.vectors_number, vector=vectors[pk]) for pk in there]
    ChunkVector.objects.bulk_create(
        chunk_vectors, update_conflicts=True, unique_fields=["chunk"], update_fields=["number", "vector"]
    )
    return True


def finish_embedding(collection: Collection) -> None:
    """Note that no vector is lacking, unless a document was added meanwhile."""
    rows = Collection.objects.filter(pk=collection.pk, embed_after=collection.embed_after)
    rows.update(embed_after=None)


def resume_embedding(collection: Collection) -> None:
    """Let the next worker go on at once: this one stops, and its claim would last for a while."""
    rows = Collection.objects.filter(pk=collection.pk, embed_after=collection.embed_after)
    rows.update(embed_after=clock.Now())


def pause_embedding(collection: Collection, error: str, seconds: float) -> None:
    """The model cannot be asked: try again later."""
    rows = Collection.objects.filter(pk=collection.pk, vectors_number=collection.vectors_number)
    rows.update(embed_after=clock.Now(seconds), embeddings_error=error[:300])


def restart_embedding(collection: Collection) -> None:
    """Make all vectors again, because the model answers with another dimension than before."""
    rows = Collection.objects.filter(pk=collection.pk, vectors_number=collection.vectors_number)
    rows.update(vectors_number=collection.vectors_number + 1, dimensions=None, embed_after=clock.Now())
