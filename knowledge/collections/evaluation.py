"""Measures the search of a collection with its evaluation set: recall@5 and mean reciprocal rank (MRR)."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict
from knowledge.models import Chunk, Collection, Document, Evaluation, EvaluationQuestion

from .search import MOST, Found, search_each
from .storage import lock_collection

QUESTIONS = 100  # of a collection: they run within one request
KEPT = 50  # evaluations of a collection
FIRST = 5


@transaction.atomic
def add_question(collection: Collection, question: str, document: str, place: str = "") -> EvaluationQuestion:
    """Add a question, or change where the answer of this question is. Raises Conflict."""
    lock_collection(collection)
    row = build_questions_query(collection).filter(question=question).first()
    if row is None and build_questions_query(collection).count() >= QUESTIONS:
        raise Conflict(
            _("A collection can have %(number)s questions.") % {"number": QUESTIONS},
            code="too_many_questions",
            hint=_("Remove one first."),
        )
    row = row or EvaluationQuestion(collection=collection, question=question)
    row.document, row.place = document, place
    row.save()
    return row


def evaluate(collection: Collection) -> Evaluation:
    """Search each question in the present version, and keep the result. Raises Conflict without questions, or if the
    document of one is still being read.
    """
    version = collection.version
    questions = list(build_questions_query(collection)[:QUESTIONS])
    check_documents(collection, {question.document for question in questions})
    each = search_each(collection, [question.question for question in questions], limit=MOST, version=version)
    ranks = [build_question_rank(pieces, question) for pieces, question in zip(each, questions, strict=True)]
    if not ranks:
        raise Conflict(
            _("This collection has no questions."), code="no_questions", hint=_("Add some to its questions.")
        )
    earlier = Evaluation.objects.filter(collection=collection)
    before = earlier.first()
    recall, mrr = figures(ranks)
    row = Evaluation(collection=collection, version=version, ranks=ranks, recall_at_5=recall, mrr=mrr)
    row.warning = describe_lowered_figures(before, ranks) if before else ""
    row.save()
    kept = list(earlier.values_list("pk", flat=True)[:KEPT])
    earlier.exclude(pk__in=kept).delete()
    return row


def check_documents(collection: Collection, names: set[str]) -> None:
    """A document that is read for the first time cannot be found: the figures would say that the search is bad. One
    that is read again is searched as it was.
    """
    current = Document.objects.filter(collection=collection, name__in=names).current()
    searched = current.filter(status=Document.Status.READY).values("name")
    reading = current.filter(status__in=(Document.Status.WAITING, Document.Status.INDEXING)).exclude(name__in=searched)
    if name := reading.order_by("name").values_list("name", flat=True).first():
        raise Conflict(
            _("The document “%(name)s” is still being read, so no question finds it.") % {"name": name},
            code="document_not_ready", hint=_("Evaluate when its status is ready."),
        )  # fmt: skip


def build_questions_query(collection: Collection) -> QuerySet[EvaluationQuestion]:
    return EvaluationQuestion.objects.filter(collection=collection)


def build_question_rank(pieces: list[Found], question: EvaluationQuestion) -> dict[str, Any]:
    ranks = (number for number, piece in enumerate(pieces, 1) if answers(piece.chunk, question))
    return {
        "question": question.question,
        "document": question.document,
        "place": question.place,
        "rank": next(ranks, None),
    }


def answers(chunk: Chunk, question: EvaluationQuestion) -> bool:
    if chunk.document.name != question.document:
        return False
    places = {f"page {chunk.page}", chunk.heading.lower(), chunk.place.lower()}
    return not question.place or question.place.lower() in places


def figures(ranks: list[dict[str, Any]]) -> tuple[float, float]:
    """Recall@5 and MRR, each between 0 and 1, of at least one question."""
    hit_ranks = [row["rank"] for row in ranks if row["rank"]]
    recall = sum(rank <= FIRST for rank in hit_ranks) / len(ranks)
    reciprocal = sum(1 / rank for rank in hit_ranks) / len(ranks)
    return round(recall, 4), round(reciprocal, 4)


def describe_lowered_figures(before: Evaluation, ranks: list[dict[str, Any]]) -> str:
    """A warning if a figure fell, on the questions that both evaluations have; empty if none fell."""
    was = {key(one): one for one in before.ranks}
    both = [one for one in ranks if key(one) in was]
    if not both:
        return ""
    old, new = figures([was[key(one)] for one in both]), figures(both)
    names = [
        f"{name} from {a:.2f} to {b:.2f}" for name, a, b in zip(("recall@5", "MRR"), old, new, strict=True) if b < a
    ]
    return f"Since version {before.version} the search lowered {' and '.join(names)}." if names else ""


def key(one: dict[str, Any]) -> tuple[str, str, str]:
    return one["question"], one["document"], one["place"]
