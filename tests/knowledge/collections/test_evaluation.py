"""Evaluation sets: recall@5 and MRR of a collection's search, kept with its version, and a warning when they fall."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import AuditEvent
from knowledge.collections import evaluation, storage
from knowledge.models import Chunk, Collection, Document, Evaluation, EvaluationQuestion
from tests.knowledge.documents import add, collection_with, index

HANDBOOK = "/api/v1/collections/handbook"
QUESTIONS, EVALUATE, EVALUATIONS = f"{HANDBOOK}/questions/", f"{HANDBOOK}/evaluate", f"{HANDBOOK}/evaluations/"
RETURNS = "# Returns\n\nGoods may be returned within 30 days.\n\n# Shipping\n\nParcels leave on Mondays."
ASKED = {"question": "How are goods returned?", "document": "returns.md", "place": "Returns"}
PARCELS = {"question": "When do parcels leave?", "document": "hours.md"}


@pytest.fixture
def handbook(alice):
    return collection_with(alice, {"returns.md": RETURNS})


def test_the_questions_are_searched_and_the_result_is_kept_with_the_version(alice_api, handbook):
    for body in (ASKED, PARCELS):
        added = alice_api.post(QUESTIONS, body)
        assert added.status_code == 201, added.json()
    assert [one["place"] for one in alice_api.get(QUESTIONS).json()["results"]] == ["", "Returns"]
    answer = alice_api.post(EVALUATE).json()
    assert (answer["version"], answer["recall_at_5"], answer["mrr"], answer["warning"]) == (1, 0.5, 0.5, "")
    assert [one["rank"] for one in answer["ranks"]] == [1, None], "the second names another document"
    assert alice_api.get(EVALUATIONS).json()["results"] == [answer]
    actions = AuditEvent.objects.filter(actor__username="alice").order_by("id").values_list("action", flat=True)
    assert list(actions) == ["evaluationquestion.added"] * 2 + ["evaluation.made"]


def test_a_change_that_lowers_the_figures_is_warned_of(alice_api, handbook):
    alice_api.post(QUESTIONS, ASKED)
    assert alice_api.post(EVALUATE).json()["warning"] == ""
    storage.remove_document(Document.objects.get())
    answer = alice_api.post(EVALUATE).json()
    assert (answer["version"], answer["recall_at_5"]) == (2, 0.0)
    assert (
        "recall@5 from 1.00 to 0.00 and MRR from 1.00 to 0.00" in answer["warning"] and "version 1" in answer["warning"]
    )
    assert alice_api.post(EVALUATE).json()["warning"] == "", "no worse than the time before"


def test_a_document_that_is_still_being_read_is_waited_for(alice_api, handbook):
    alice_api.post(QUESTIONS, PARCELS)
    add(handbook, "hours.md", "Parcels leave on Mondays.")
    refusal = alice_api.post(EVALUATE)
    assert (refusal.status_code, refusal.json()["error"]["code"]) == (409, "document_not_ready")
    assert "hours.md" in refusal.json()["error"]["message"] and not Evaluation.objects.exists()
    index()
    assert alice_api.post(EVALUATE).json()["recall_at_5"] == 1.0
    add(handbook, "hours.md", "Parcels leave on Tuesdays.")
    assert alice_api.post(EVALUATE).json()["recall_at_5"] == 1.0, "its last text is searched meanwhile"


def test_a_new_question_that_is_not_found_is_no_change_for_the_worse(alice_api, handbook):
    alice_api.post(QUESTIONS, ASKED)
    alice_api.post(EVALUATE)
    alice_api.post(QUESTIONS, PARCELS)
    answer = alice_api.post(EVALUATE).json()
    assert (answer["mrr"], answer["warning"]) == (0.5, "")


def test_the_rank_counts_the_pieces_before_the_place(alice, handbook):
    evaluation.add_question(handbook, "goods returned parcels mondays", "returns.md", "shipping")
    [found] = evaluation.evaluate(handbook).ranks
    assert found["rank"] in (1, 2)
    assert evaluation.compute_figures([{"rank": 2}, {"rank": 6}, {"rank": None}]) == (0.3333, 0.2222)
    page = Chunk(document=Document(name="a.pdf"), page=3, heading="")
    assert evaluation.is_answer(page, EvaluationQuestion(document="a.pdf", place="Page 3"))
    assert not evaluation.is_answer(page, EvaluationQuestion(document="a.pdf", place="page 30"))


@pytest.mark.parametrize(
    "body", [{}, {"question": "a"}, {"question": "", "document": "b"}, {**ASKED, "page": 3}, {**ASKED, "place": 3}]
)
def test_a_question_that_cannot_be_meant_is_refused(alice_api, handbook, body):
    answer = alice_api.post(QUESTIONS, body)
    assert answer.status_code == 422, answer.json()
    assert not EvaluationQuestion.objects.exists()


def test_the_same_question_is_changed_and_there_are_not_too_many(alice_api, handbook, monkeypatch):
    monkeypatch.setattr(evaluation, "QUESTIONS", 1)
    assert alice_api.post(EVALUATE).json()["error"]["code"] == "no_questions"
    alice_api.post(QUESTIONS, ASKED)
    assert alice_api.post(QUESTIONS, {**ASKED, "place": ""}).status_code == 201
    answer = alice_api.post(QUESTIONS, PARCELS)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "too_many_questions")
    row = EvaluationQuestion.objects.get()
    assert row.place == "" and alice_api.delete(f"{QUESTIONS}{row.pk}").status_code == 204
    assert not EvaluationQuestion.objects.exists()


def test_only_the_newest_evaluations_are_kept(handbook, monkeypatch):
    monkeypatch.setattr(evaluation, "KEPT", 2)
    evaluation.add_question(handbook, **ASKED)
    made = [evaluation.evaluate(handbook).pk for _ in range(3)]
    assert set(Evaluation.objects.values_list("pk", flat=True)) == set(made[1:])


def test_a_stranger_sees_nothing(charlie_api, handbook):
    row = evaluation.add_question(handbook, **ASKED)
    for answer in (
        charlie_api.get(QUESTIONS), charlie_api.post(QUESTIONS, PARCELS), charlie_api.delete(f"{QUESTIONS}{row.pk}"),
        charlie_api.get(EVALUATIONS), charlie_api.post(EVALUATE),
    ):  # fmt: skip
        assert answer.status_code == 404, answer.json()
    assert EvaluationQuestion.objects.count() == 1 and not Evaluation.objects.exists()


def test_a_team_mate_reads_but_changes_nothing(bob_api, team, handbook):
    row = evaluation.add_question(handbook, **ASKED)
    evaluation.evaluate(handbook)
    Collection.objects.update(team=team)
    assert len(bob_api.get(QUESTIONS).json()["results"]) == len(bob_api.get(EVALUATIONS).json()["results"]) == 1
    for answer in (bob_api.post(QUESTIONS, PARCELS), bob_api.delete(f"{QUESTIONS}{row.pk}"), bob_api.post(EVALUATE)):
        assert answer.status_code == 403, answer.json()
    assert EvaluationQuestion.objects.count() == Evaluation.objects.count() == 1


def test_a_question_of_another_collection_is_not_found(alice, alice_api, handbook):
    other = evaluation.add_question(collection_with(alice, {}, name="other"), **ASKED)
    assert alice_api.delete(f"{QUESTIONS}{other.pk}").status_code == 404 and EvaluationQuestion.objects.exists()


def test_the_lists_need_the_same_queries_for_many_rows(alice_api, handbook):
    counts = []
    alice_api.get(QUESTIONS)
    for number in range(8):
        evaluation.add_question(handbook, f"Question {number}?", "returns.md")
        evaluation.evaluate(handbook)
        if number in (0, 7):
            with CaptureQueriesContext(connection) as queries:
                alice_api.get(QUESTIONS), alice_api.get(EVALUATIONS)
            counts.append(len(queries))
    assert counts[0] == counts[1] <= 14


def test_each_question_is_one_search(handbook):
    add(handbook, "b.md", "# B\n\nGoods go out.")
    index()
    handbook.refresh_from_db()
    counts = []
    for number in range(6):
        evaluation.add_question(handbook, f"goods question {number}", "b.md")
        if number in (0, 5):
            with CaptureQueriesContext(connection) as queries:
                evaluation.evaluate(handbook)
            counts.append(len(queries))
    assert (counts[1] - counts[0]) % 5 == 0 and (counts[1] - counts[0]) // 5 <= 4
