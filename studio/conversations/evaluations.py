"""The evaluation set on the page of a collection: questions, the last result, and what became worse."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.exceptions import Invalid, MusterError
from agents.models import AuditEvent
from knowledge.collections import evaluation
from knowledge.collections.serializers import NewEvaluationQuestionSerializer
from knowledge.models import Collection

from ..base import signed_in, tell
from ..namesakes import address, opened

WRITES = "collections:write"
SOURCE = "REMOTE_ADDR"
FIELDS = ("question", "document", "place")


def context_of(row: Collection) -> dict[str, Any]:
    """Each question with its rank in the last evaluation: a number, None for not found, or "" for not asked yet."""
    last = row.evaluations.first()
    ranks = {evaluation.key(entry): entry["rank"] for entry in last.ranks} if last else {}
    questions = list(row.questions.all()[: evaluation.QUESTIONS])
    for question in questions:
        question.rank = ranks.get((question.question, question.document, question.place), "")
    return {"questions": questions, "evaluation": last}


@require_POST
@signed_in(writes=WRITES)
def add_question(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    serializer = NewEvaluationQuestionSerializer(data={field: request.POST.get(field, "").strip() for field in FIELDS})
    try:
        if not serializer.is_valid():
            raise Invalid(next(str(errors[0]) for errors in serializer.errors.values()))
        note(request, "added", evaluation.add_question(row, **serializer.validated_data), row)
    except MusterError as error:
        tell(request, error)
    return redirect(address("page:collection", row))


@require_POST
@signed_in(writes=WRITES)
def remove_question(request: HttpRequest, name: str, pk: UUID) -> HttpResponse:
    row = editable(request, name)
    question = row.questions.filter(pk=pk).first()
    if question is None:
        raise Http404("There is no such question in this collection.")
    note(request, "removed", question, row)
    question.delete()
    return redirect(address("page:collection", row))


@require_POST
@signed_in(writes=WRITES)
def evaluate(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    try:
        result = evaluation.evaluate(row)
    except MusterError as error:
        tell(request, error)
    else:
        note(request, "made", result, row, version=result.version)
        if not result.warning:
            messages.success(request, _("The questions were searched."))
    return redirect(address("page:collection", row))


def editable(request: HttpRequest, name: str) -> Collection:
    row: Collection = opened(request, Collection.objects.all(), name)
    row.require_edit(request.user)
    return row


def note(request: HttpRequest, verb: str, row: Any, collection: Collection, **details: Any) -> None:
    action, source = f"{row._meta.model_name}.{verb}", request.META.get(SOURCE, "")
    AuditEvent.record(action, row, actor=request.user, source=source, collection=collection.name, **details)
