"""Asks a collection's embedding model: for the vectors of its pieces, a few seconds at a time, and for a question's.

The collection's owner pays, within budgets. While the model is away, words go on and the worker tries again later.
"""

import logging
import time
from collections.abc import Sequence
from functools import partial

from django.conf import settings

from agents.exceptions import Invalid, MusterError
from agents.models import Provider
from knowledge.collections import meaning
from knowledge.models import Chunk, Collection
from plumbing.fair import FairQueue
from registry.exceptions import AttemptFailed, ModelFailed
from registry.routing import embeddings
from runs.calls import vectors
from runs.intake.options import has_price

log = logging.getLogger(__name__)
# Pieces of one request.
BATCH = 128
# Longer than the slowest request.
LEASE_S = 180.0
TURN_S = 5.0
# Whose embedding server hangs delays nobody else.
QUEUE = FairQueue("vectors", at_once=8, each=1)
# After a refusal or a failure.
AGAIN_S = 60.0
# In which questions do not wait for a model that failed.
REST_S = 15.0
# For the questions of an evaluation, in one request.
SEVERAL_S = 10.0
# Collection → until when, on the monotonic clock.
_rested: dict[int, float] = {}


def start_due() -> int:
    """Begin to make vectors for the collections that lack them, at most one of each person. Returns for how many."""
    claim = partial(meaning.claim_unembedded_collection, LEASE_S)
    return QUEUE.fill(claim, lambda collection: collection.owner_id, make)


def make(collection: Collection) -> int:
    """Make vectors for a few seconds. Returns how many."""
    end = time.monotonic() + TURN_S
    done = 0
    try:
        for chunks in meaning.lacking(collection, BATCH):
            vectors_of_chunks = of_chunks(collection, chunks)
            if not meaning.store_chunk_vectors(collection, vectors_of_chunks):
                return done
            done += len(chunks)
            if time.monotonic() >= end:
                meaning.resume_embedding(collection)
                return done
    except MusterError as error:
        log.warning("The collection %s has no new vectors: %s", collection.pk, error)
        meaning.pause_embedding(collection, str(error), AGAIN_S)
        return done
    meaning.finish_embedding(collection)
    return done


def of_chunks(collection: Collection, chunks: Sequence[Chunk]) -> dict[int, bytes]:
    texts = [embeddings.limit_text(meaning.passage(chunk)) for chunk in chunks]
    packed_vectors = embed_chunks(collection, texts)
    return {chunk.pk: vector for chunk, vector in zip(chunks, packed_vectors, strict=True)}


def of_questions(collection: Collection, texts: Sequence[str]) -> list[bytes] | None:
    """None if the model cannot be asked now, or takes so long that words should answer."""
    if time.monotonic() < _rested.get(collection.pk, 0.0):
        return None
    limited = [embeddings.limit_text(text) for text in texts]
    limit_s = settings.COLLECTION_QUESTION_S if len(texts) == 1 else SEVERAL_S
    try:
        packed_vectors = embed_chunks(collection, limited, limit_s)
    except MusterError as error:
        log.warning("The collection %s is searched by words only: %s", collection.pk, error)
        _rested[collection.pk] = time.monotonic() + REST_S
        return None
    _rested.pop(collection.pk, None)
    # Vectors of another length cannot be compared with those that are stored.
    size = (collection.dimensions or 0) * meaning.BYTES
    if {len(vector) for vector in packed_vectors} != {size}:
        meaning.restart_embedding(collection)
    return packed_vectors


def embed_chunks(collection: Collection, texts: list[str], limit_s: float | None = None) -> list[bytes]:
    """Raises MusterError."""
    provider, model = find_embedding_model(collection)
    if collection.owner:
        numbers = vectors.embed_texts(collection.owner, None, provider, model, texts, limit_s=limit_s)[0]
    else:
        # A collection of the site is paid by nobody's budget.
        numbers = of_site(provider, model, texts, limit_s)
    return [vector.tobytes() for vector in numbers]


def of_site(provider: Provider, model: str, texts: list[str], limit_s: float | None) -> vectors.Vectors:
    try:
        return embeddings.embed_and_count(provider, model, texts, limit_s=limit_s)[0]
    except (ModelFailed, AttemptFailed) as error:
        raise vectors.describe_embedding_failure(error)


def find_embedding_model(collection: Collection) -> tuple[Provider, str]:
    """The provider must be one that the collection's owner may use. Raises Invalid."""
    name, _, model = collection.embeddings.partition(":")
    named = Provider.objects.filter(name=name, enabled=True)
    if collection.owner:
        provider = named.usable_by(collection.owner).nearest_first(collection.owner).first()
    else:
        provider = named.filter(owner=None).first()
    if provider is None:
        raise Invalid(f"The collection's owner can use no provider “{name}”.", code="unknown_provider")
    if not has_price(provider, model):
        raise Invalid(f"“{model}” has no price, so budgets could not count it.", code="unknown_model")
    return provider, model
