"""Measures the search of a collection with its evaluation set: recall@5 and mean reciprocal rank (MRR)."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict
from knowledge.models import Chunk, Collection, Evaluation, EvaluationQuestion

from .search import MOST, Found, search_each
from .storage import hold

QUESTIONS = 100  # of a collection: they run within one request
KEPT = 50  # evaluations of a collection
FIRST = 5


@transaction.atomic
def add_question(collection: Collection, question: str, document: str, place: str = "") -> EvaluationQuestion:
    """Add a question, or change where the answer of this question is. Raises Conflict."""
    hold(collection)
    row = questions_of(collection).filter(question=question).first()
    if row is None and questions_of(collection).count() >= QUESTIONS:
        raise Conflict(
            _("A collection can have %(number)s questions.") % {"number": QUESTIONS}, code="too_many_questions"
        )
    row = row or EvaluationQuestion(collection=collection, question=question)
    row.document, row.place = document, place
    row.save()
    return row


def evaluate(collection: Collection) -> Evaluation:
    """Search each question in the present version, and keep the result. Raises Conflict without questions."""
    version = collection.version
    questions = list(questions_of(collection)[:QUESTIONS])
    each = search_each(collection, [one.question for one in questions], limit=MOST, version=version)
    ranks = [ranked(found, one) for found, one in zip(each, questions, strict=True)]
    if not ranks:
        raise Conflict(
            _("This collection has no questions."), code="no_questions", hint=_("Add some to its questions.")
        )
    earlier = Evaluation.objects.filter(collection=collection)
    before = earlier.first()
    recall, mrr = figures(ranks)
    row = Evaluation(collection=collection, version=version, ranks=ranks, recall_at_5=recall, mrr=mrr)
    row.warning = lowered(before, ranks) if before else ""
    row.save()
    kept = list(earlier.values_list("pk", flat=True)[:KEPT])
    earlier.exclude(pk__in=kept).delete()
    return row


def questions_of(collection: Collection) -> QuerySet[EvaluationQuestion]:
    return EvaluationQuestion.objects.filter(collection=collection)


def ranked(found: list[Found], asked: EvaluationQuestion) -> dict[str, Any]:
    rank = next((number for number, one in enumerate(found, 1) if answers(one.chunk, asked)), None)
    return {"question": asked.question, "document": asked.document, "place": asked.place, "rank": rank}


def answers(chunk: Chunk, asked: EvaluationQuestion) -> bool:
    places = {f"page {chunk.page}", chunk.heading.lower(), chunk.place.lower()}
    return chunk.document.name == asked.document and (not asked.place or asked.place.lower() in places)


def figures(ranks: list[dict[str, Any]]) -> tuple[float, float]:
    """Recall@5 and MRR, each between 0 and 1, of at least one question."""
    found = [one["rank"] for one in ranks if one["rank"]]
    recall = sum(rank <= FIRST for rank in found) / len(ranks)
    return round(recall, 4), round(sum(1 / rank for rank in found) / len(ranks), 4)


def lowered(before: Evaluation, ranks: list[dict[str, Any]]) -> str:
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
