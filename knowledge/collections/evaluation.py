"""Measures the search of a collection with its evaluation set: recall@5 and mean reciprocal rank (MRR)."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict
from knowledge.models import Chunk, Collection, Document, Evaluation, EvaluationQuestion

from .search import MOST, Found, search_each
from .storage import lock_collection

# Questions of a collection: they run within one request.
QUESTIONS = 100
# Evaluations of a collection.
KEPT = 50
FIRST = 5


@transaction.atomic
def add_question(collection: Collection, question: str, document: str, place: str = "") -> EvaluationQuestion:
    """Add a question, or change where the answer of this question is. Raises Conflict."""
    lock_collection(collection)
    rows = build_questions_query(collection)
    row = rows.filter(question=question).first()
    if row is None:
        if rows.count() >= QUESTIONS:
            raise Conflict(
                _("A collection can have %(number)s questions.") % {"number": QUESTIONS},
                code="too_many_questions",
                hint=_("Remove one first."),
            )
        row = EvaluationQuestion(collection=collection, question=question)
    row.document = document
    row.place = place
    row.save()
    return row


def evaluate(collection: Collection) -> Evaluation:
    """Search each question in the present version, and keep the result. Raises Conflict without questions, or if the
    document of one is still being read.
    """
    version = collection.version
    questions = list(build_questions_query(collection)[:QUESTIONS])
    check_documents(collection, {question.document for question in questions})
    texts = [question.question for question in questions]
    results = search_each(collection, texts, limit=MOST, version=version)
    ranks = [build_question_rank(pieces, question) for pieces, question in zip(results, questions, strict=True)]
    if not ranks:
        raise Conflict(
            _("This collection has no questions."), code="no_questions", hint=_("Add some to its questions.")
        )
    evaluations = Evaluation.objects.filter(collection=collection)
    before = evaluations.first()
    recall, mrr = compute_figures(ranks)
    row = Evaluation(collection=collection, version=version, ranks=ranks, recall_at_5=recall, mrr=mrr)
    if before:
        row.warning = describe_lowered_figures(before, ranks)
    row.save()
    kept = list(evaluations.values_list("pk", flat=True)[:KEPT])
    evaluations.exclude(pk__in=kept).delete()
    return row


def check_documents(collection: Collection, names: set[str]) -> None:
    """A document that is read for the first time cannot be found: the figures would say that the search is bad. One
    that is read again is searched as it was.
    """
    current = Document.objects.filter(collection=collection, name__in=names).current()
    searched = current.filter(status=Document.Status.READY).values("name")
    unfinished = current.filter(status__in=(Document.Status.WAITING, Document.Status.INDEXING))
    unsearched = unfinished.exclude(name__in=searched).order_by("name")
    name = unsearched.values_list("name", flat=True).first()
    if name:
        raise Conflict(
            _("The document “%(name)s” is still being read, so no question finds it.") % {"name": name},
            code="document_not_ready", hint=_("Evaluate when its status is ready."),
        )  # fmt: skip


def build_questions_query(collection: Collection) -> QuerySet[EvaluationQuestion]:
    return EvaluationQuestion.objects.filter(collection=collection)


def build_question_rank(pieces: list[Found], question: EvaluationQuestion) -> dict[str, Any]:
    return {
        "question": question.question,
        "document": question.document,
        "place": question.place,
        "rank": find_answer_rank(pieces, question),
    }


def find_answer_rank(pieces: list[Found], question: EvaluationQuestion) -> int | None:
    for rank, piece in enumerate(pieces, 1):
        if is_answer(piece.chunk, question):
            return rank
    return None


def is_answer(chunk: Chunk, question: EvaluationQuestion) -> bool:
    """Whether a piece is where the question expects its answer: a page or a heading, or anywhere in the document."""
    if chunk.document.name != question.document:
        return False
    if not question.place:
        return True
    places = {f"page {chunk.page}", chunk.heading.lower(), chunk.place.lower()}
    return question.place.lower() in places


def compute_figures(ranks: list[dict[str, Any]]) -> tuple[float, float]:
    """Recall@5 and MRR, each between 0 and 1, of at least one question."""
    first_hits = 0
    reciprocals = 0.0
    for row in ranks:
        rank = row["rank"]
        if rank:
            first_hits += rank <= FIRST
            reciprocals += 1 / rank
    recall = first_hits / len(ranks)
    mean_reciprocal_rank = reciprocals / len(ranks)
    return round(recall, 4), round(mean_reciprocal_rank, 4)


def describe_lowered_figures(before: Evaluation, ranks: list[dict[str, Any]]) -> str:
    """A warning if a figure fell, on the questions that both evaluations have; empty if none fell."""
    earlier = {build_key(row): row for row in before.ranks}
    common = [row for row in ranks if build_key(row) in earlier]
    if not common:
        return ""
    old = compute_figures([earlier[build_key(row)] for row in common])
    new = compute_figures(common)
    lowered = []
    for name, was, now in zip(("recall@5", "MRR"), old, new, strict=True):
        if now < was:
            lowered.append(f"{name} from {was:.2f} to {now:.2f}")
    if not lowered:
        return ""
    return f"Since version {before.version} the search lowered {' and '.join(lowered)}."


def build_key(one: dict[str, Any]) -> tuple[str, str, str]:
    """Evaluations keep no ids of questions, which may be deleted and written anew."""
    return one["question"], one["document"], one["place"]
