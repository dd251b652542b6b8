"""A thumb and a note on a run: written, replaced, taken back, found by a filter; only by the run's own person."""

import pytest

from agents.models import AuditEvent
from runs.models import Feedback

pytestmark = pytest.mark.django_db
JSON = "application/json"


@pytest.fixture
def path(alice, make_run):
    return f"/api/v1/runs/{make_run().pk}/feedback"


def test_it_is_written_replaced_read_and_taken_back(path, alice_api):
    assert alice_api.get(path).status_code == 404
    assert alice_api.put(path, {"rating": "down", "note": "Wrong shelf."}, JSON).status_code == 200
    assert alice_api.put(path, {"rating": "up"}, JSON).json()["note"] == ""
    assert alice_api.get(path).json()["rating"] == "up"
    assert alice_api.delete(path).status_code == 204
    assert alice_api.delete(path).status_code == 404 and not Feedback.objects.exists()
    said = list(AuditEvent.objects.filter(action__startswith="run.").order_by("pk").values_list("action", flat=True))
    assert said == ["run.rated", "run.rated", "run.unrated"]


@pytest.mark.parametrize(
    "body", [{}, {"rating": "good"}, {"rating": 1}, {"rating": "up", "note": "x" * 1001}, {"rating": "up", "stars": 5}]
)
def test_what_is_no_rating_is_refused(path, body, alice_api):
    assert alice_api.put(path, body, JSON).status_code == 422
    assert not Feedback.objects.exists()


def test_others_neither_read_nor_write_it(path, alice_api, bob_api, charlie_api):
    alice_api.put(path, {"rating": "up", "note": "Between us."}, JSON)
    for other in (bob_api, charlie_api):
        assert other.get(path).status_code == 404
        assert other.put(path, {"rating": "down"}, JSON).status_code == 404
        assert other.delete(path).status_code == 404
    assert Feedback.objects.get().rating == "up"


def test_runs_are_found_by_their_rating(path, alice_api, make_run):
    make_run(1)
    alice_api.put(path, {"rating": "down"}, JSON)
    found = alice_api.get("/api/v1/runs/?rating=down").json()["results"]
    assert [f"/api/v1/runs/{run['id']}/feedback" for run in found] == [path]
    assert alice_api.get("/api/v1/runs/?rating=up").json()["results"] == []
    assert alice_api.get("/api/v1/runs/?rating=fine").status_code == 422


def test_a_session_is_pinned_and_found(alice_api, charlie_api, make_run):
    session = make_run().session_id
    make_run(1)
    assert alice_api.patch(f"/api/v1/sessions/{session}", {"pinned": True}, JSON).json()["pinned"] is True
    assert [one["id"] for one in alice_api.get("/api/v1/sessions/?pinned=true").json()["results"]] == [str(session)]
    assert charlie_api.patch(f"/api/v1/sessions/{session}", {"pinned": False}, JSON).status_code == 404
    assert alice_api.patch(f"/api/v1/sessions/{session}", {"forked_before": 1}, JSON).status_code in (200, 422)
