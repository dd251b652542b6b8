"""Collections: how fast texts are indexed, and how long a search takes among 10,000 documents.

`python -m benchmarks.knowledge --db sqlite` (or postgres), with `--documents 10000`. The texts are made of 20,000
invented words that are as unevenly frequent as those of a language (Zipf).
"""

import argparse
import bisect
import itertools
import os
import random
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.retrieval import Corpus
from supervisor import postgres, processes

PIECES = 20  # of each document
WORDS = 170  # of each piece
BATCH = 50
SEARCHES = 300


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--db", choices=["sqlite", "postgres"], default="sqlite")
    options.add_argument("--documents", type=int, default=10_000)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "config.settings", "MUSTER_DATA_DIR": folder}
        child = start_postgres(Path(folder)) if arguments.db == "postgres" else None
        try:
            measure(arguments.documents)
        finally:
            if child:
                os.kill(child, signal.SIGINT)


def start_postgres(folder: Path) -> int:
    folder.chmod(0o755)  # as root, PostgreSQL runs as another user
    cluster = postgres.prepare_cluster(folder)
    with (folder / "postgres.log").open("wb") as output:
        child = processes.fork(postgres.command(cluster), output=output.fileno(), death_signal=signal.SIGINT)
    while not postgres.is_ready(cluster):
        time.sleep(0.1)
    postgres.make_database(cluster.sockets)
    os.environ["DB"] = "postgres"
    return child


class Language:
    """Words of a vocabulary, each as often as its rank says."""

    def __init__(self) -> None:
        self.random = random.Random(7)  # noqa: S311
        syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
        self.words = ["".join(self.random.choices(syllables, k=4)) for _ in range(20_000)]
        self.weights = list(itertools.accumulate(1 / rank for rank in range(8, 20_008)))

    def text(self, count: int) -> str:
        picks = (self.random.random() * self.weights[-1] for _ in range(count))
        return " ".join(self.words[bisect.bisect(self.weights, pick)] for pick in picks)

    def question(self) -> str:
        """Two usual words and two that are rarer, such as a person asks."""
        usual = [self.words[self.random.randrange(0, 300)] for _ in range(2)]
        return " ".join([*usual, *(self.words[self.random.randrange(300, 10_000)] for _ in range(2))])


def measure(documents: int) -> None:
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connection

    from knowledge.models import Collection

    call_command("migrate", verbosity=0)
    users: Any = get_user_model()
    collection = Collection.objects.create(owner=users.objects.create_user("reader"), name="books")
    language = Language()
    rate = index(collection, language, documents)
    collection.refresh_from_db()
    print(f"indexed                     {rate:8.0f} documents/s of {PIECES} pieces   (goal 50)")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # PostgreSQL does it by itself within a minute
    took = searches(collection, language)
    print(f"search p50                  {statistics.median(took):8.1f} ms   (goal 30 SQLite, 20 PostgreSQL)")
    print(f"search p95                  {sorted(took)[int(len(took) * 0.95)]:8.1f} ms")
    quality(collection.owner)


def quality(owner: Any) -> None:
    """Of texts whose subjects have several words, with vectors that know which words mean the same."""
    from django.conf import settings

    from knowledge.collections import meaning, storage
    from knowledge.collections.pieces import Piece
    from knowledge.collections.search import search_collection
    from knowledge.models import Collection

    corpus = Corpus()
    row = Collection.objects.create(owner=owner, name="subjects")
    for name, text in corpus.texts.items():
        storage.add_content(row, owner.pk, name, text.encode(), declared="text/plain", untrusted=False, source="text")
    read = [storage.Read(one, [Piece(corpus.texts[one.name])]) for one in storage.claim_waiting_documents(1000, 60)]
    storage.finish_read_documents(read)
    row.refresh_from_db()

    def find(question: str) -> list[str]:
        return [one.chunk.document.name for one in search_collection(row, question, limit=10)]

    show("counting equal words", *corpus.measure(corpus.naive))
    show("words", *corpus.measure(find))
    meaning.choose_embedding_model(row, "scripted:vectors")
    row.save()
    row.refresh_from_db()
    for chunks in meaning.lacking(row, 1000):
        meaning.store_chunk_vectors(row, {chunk.pk: corpus.vector(chunk.text).tobytes() for chunk in chunks})
    row.refresh_from_db()
    settings.COLLECTION_VECTORS = "benchmarks.knowledge.vectors_of_questions"
    show("words and meaning", *corpus.measure(find))


def vectors_of_questions(collection: Any, texts: Any) -> list[bytes]:
    corpus = Corpus()
    return [corpus.vector(text).tobytes() for text in texts]


def show(name: str, reciprocal: float, recall: float) -> None:
    print(f"{name:24}    MRR {reciprocal:.3f}   recall@5 {recall:.3f}")


def index(collection: Any, language: Language, documents: int) -> float:
    """Documents a second: cut, stemmed, stored and indexed in the steps of a worker, without making the texts."""
    from knowledge.collections import storage
    from knowledge.indexing import work
    from knowledge.indexing.parsing import read_document_text
    from knowledge.models import Document

    spent = 0.0
    for start in range(0, documents, BATCH):
        names = [f"book-{number}" for number in range(start, start + BATCH)]
        Document.objects.bulk_create([Document(collection=collection, name=name, source="text") for name in names])
        texts = ["\n\n".join(language.text(WORDS) for _ in range(PIECES)).encode() for _ in names]
        began = time.perf_counter()
        claimed = storage.claim_waiting_documents(BATCH, work.LEASE_S)
        group = work.Group()
        for row, text in zip(claimed, texts, strict=True):
            group.add(
                storage.Read(row, work.cut_pieces(read_document_text(str(row.pk), row.name, "text/plain", text).parts))
            )
        group.store()
        spent += time.perf_counter() - began
    return documents / spent


def searches(collection: Any, language: Language) -> list[float]:
    from knowledge.collections.search import search_collection

    took = []
    for _ in range(SEARCHES):
        question = language.question()
        began = time.perf_counter()
        search_collection(collection, question, limit=10)
        took.append((time.perf_counter() - began) * 1000)
    return took


if __name__ == "__main__":
    main()
