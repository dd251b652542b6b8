"""Runs that an outside program executes: prepared, claimed, kept alive, handed in."""

from datetime import timedelta

import pytest
from django.utils import timezone

from runs.models import Budget, Run
from runs.queue import endings
from runs.worker import external_runs, recovery

pytestmark = pytest.mark.django_db
SCHEMA = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"]}


@pytest.fixture
def prepared(worker, alice_api, make_agent):
    make_agent("tidier", output_schema=SCHEMA)
    answer = alice_api.post("/api/v1/runs/", {"agent": "tidier", "message": "Tidy the repository"})
    assert answer.status_code == 201, answer.content
    worker.work()
    return Run.objects.get(pk=answer.json()["id"])


def claim(client, run, **more):
    return client.post(f"/api/v1/runs/{run.pk}/claim", {"executor": "terminal", **more})


def beat(client, run, token, **more):
    return client.post(f"/api/v1/runs/{run.pk}/heartbeat", {"claim": token, **more})


def finish(client, run, token, **more):
    return client.post(f"/api/v1/runs/{run.pk}/finish", {"claim": token, "status": "succeeded", **more})


def test_a_prepared_run_waits_for_an_executor(prepared, worker):
    assert (prepared.status, prepared.trigger) == ("queued", "external")
    recovery.tick_recovery(timezone.now() + timedelta(minutes=5))
    worker.work()
    prepared.refresh_from_db()
    assert prepared.status == "queued"


def test_an_executor_claims_works_and_hands_in(prepared, alice_api):
    claimed = claim(alice_api, prepared).json()
    assert claimed["messages"][-1]["content"] == "Tidy the repository"
    assert claimed["messages"][0]["role"] == "system" and claimed["output_schema"] == SCHEMA
    assert claimed["run"]["status"] == "running"
    assert beat(alice_api, prepared, claimed["claim"], note="half done").json()["cancel_requested"] is False
    usage = {"input_tokens": 100, "output_tokens": 20, "cost": "0.01"}
    done = finish(alice_api, prepared, claimed["claim"], reply="Tidied.", output={"files": 3}, usage=usage)
    assert done.status_code == 200 and done.json()["status"] == "succeeded"
    assert done.json()["usage"] == {"input_tokens": 100, "output_tokens": 20, "cost": "0.01"}
    prepared.refresh_from_db()
    assert prepared.output == {"files": 3} and prepared.messages.last().text == "Tidied."
    types = list(prepared.events.values_list("type", flat=True))
    assert types == ["run.queued", "run.started", "run.progress", "run.finished"]


def test_of_two_claims_one_wins(prepared, alice_api):
    assert claim(alice_api, prepared).status_code == 200
    second = claim(alice_api, prepared)
    assert (second.status_code, second.json()["error"]["code"]) == (409, "not_claimable")


@pytest.mark.parametrize("call", [beat, finish])
def test_the_wrong_claimant_is_refused(prepared, alice_api, call):
    claim(alice_api, prepared)
    answer = call(alice_api, prepared, "something-else")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "claim_lost")


def test_a_vanished_executor_loses_its_claim_and_another_takes_over(prepared, alice_api):
    first = claim(alice_api, prepared).json()["claim"]
    assert recovery.tick_recovery(timezone.now() + timedelta(seconds=61))["vanished"] == 1
    second = claim(alice_api, prepared)
    assert second.status_code == 200
    assert beat(alice_api, prepared, first).status_code == 409
    assert finish(alice_api, prepared, second.json()["claim"], output={"files": 1}).status_code == 200
    assert "run.recovered" in prepared.events.values_list("type", flat=True)


def test_a_cancelled_run_tells_its_executor(prepared, alice, alice_api):
    token = claim(alice_api, prepared).json()["claim"]
    endings.cancel_run(Run.objects.get(pk=prepared.pk), by=alice, reason="changed my mind")
    assert beat(alice_api, prepared, token).json()["cancel_requested"] is True
    done = finish(alice_api, prepared, token, status="cancelled").json()
    assert (done["status"], done["error"]["message"]) == ("cancelled", "changed my mind")


def test_a_cancelled_run_whose_executor_vanished_ends(prepared, alice, alice_api):
    claim(alice_api, prepared)
    endings.cancel_run(Run.objects.get(pk=prepared.pk), by=alice)
    recovery.tick_recovery(timezone.now() + timedelta(seconds=61))
    prepared.refresh_from_db()
    assert prepared.status == "cancelled"


def test_output_that_breaks_the_schema_is_refused_and_may_be_mended(prepared, alice_api):
    token = claim(alice_api, prepared).json()["claim"]
    broken = finish(alice_api, prepared, token, output={"files": "many"})
    assert broken.status_code == 422 and broken.json()["error"]["details"]
    assert finish(alice_api, prepared, token, output={"files": 2}).status_code == 200


def test_a_run_that_has_ended_takes_nothing_more(prepared, alice_api):
    token = claim(alice_api, prepared).json()["claim"]
    finish(alice_api, prepared, token, output={"files": 2})
    for answer in (claim(alice_api, prepared), beat(alice_api, prepared, token), finish(alice_api, prepared, token)):
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "run_finished")


def test_a_run_that_is_executed_here_cannot_be_claimed(worker, alice, alice_api, make_agent):
    run = worker.send_message(alice, "Hello", make_agent())
    Run._base_manager.filter(pk=run.pk).update(status="queued")
    assert claim(alice_api, run).json()["error"]["code"] == "not_claimable"


def test_a_used_up_budget_ends_it_before_it_is_claimed(prepared, alice, alice_api):
    Budget.objects.create(owner=alice, user=alice, period="day", max_runs=0)
    assert claim(alice_api, prepared).json()["error"]["code"] == "run_finished"
    prepared.refresh_from_db()
    assert (prepared.status, prepared.error["code"]) == ("failed", "budget_exhausted")


def test_a_claim_ends_no_run_that_is_executed_here(worker, alice, alice_api, make_agent):
    run = worker.send_message(alice, "Hello", make_agent())
    Run._base_manager.filter(pk=run.pk).update(status="queued")
    Budget.objects.create(owner=alice, user=alice, period="day", max_runs=0)
    assert claim(alice_api, run).json()["error"]["code"] == "not_claimable"
    run.refresh_from_db()
    assert run.status == "queued"


def test_a_claim_ends_no_run_that_another_holds(prepared, alice, alice_api):
    claim(alice_api, prepared)
    Budget.objects.create(owner=alice, user=alice, period="day", max_runs=0)
    assert claim(alice_api, prepared).json()["error"]["code"] == "not_claimable"
    prepared.refresh_from_db()
    assert prepared.status == "running"


def test_a_budget_used_up_meanwhile_stops_the_executor(prepared, alice, alice_api):
    token = claim(alice_api, prepared).json()["claim"]
    Budget.objects.create(owner=alice, user=alice, period="day", max_runs=0)
    assert beat(alice_api, prepared, "somebody-elses").json()["error"]["code"] == "claim_lost"
    assert beat(alice_api, prepared, token).json()["error"]["code"] == "run_finished"
    prepared.refresh_from_db()
    assert prepared.error["code"] == "budget_exhausted"


def test_charlie_sees_none_of_it(prepared, alice_api, charlie_api):
    token = claim(alice_api, prepared).json()["claim"]
    for answer in (
        claim(charlie_api, prepared),
        beat(charlie_api, prepared, token),
        finish(charlie_api, prepared, token),
        charlie_api.post("/api/v1/runs/", {"agent": "tidier", "message": "Tidy"}),
        charlie_api.get("/api/v1/agents/tidier/figures"),
    ):
        assert answer.status_code == 404


@pytest.mark.parametrize(
    "body", [{}, {"executor": ""}, {"executor": "x", "lease": -1}, {"executor": "x", "lease": "z"}]
)
def test_a_malformed_claim_is_refused(prepared, alice_api, body):
    assert alice_api.post(f"/api/v1/runs/{prepared.pk}/claim", body).status_code in (400, 422)


def test_a_result_that_is_handed_in_twice_at_once_is_a_conflict_for_the_second(prepared, alice_api, monkeypatch):
    token, check = claim(alice_api, prepared).json()["claim"], external_runs.check_output

    def let_the_other_be_first(*given):
        monkeypatch.setattr(external_runs, "check_output", check)
        assert finish(alice_api, prepared, token, output={"files": 1}).status_code == 200

    monkeypatch.setattr(external_runs, "check_output", let_the_other_be_first)
    second = finish(alice_api, prepared, token, output={"files": 1})
    assert (second.status_code, second.json()["error"]["code"]) == (409, "run_finished")


def test_a_deadline_ends_it_though_its_executor_is_alive(prepared, alice_api):
    token = claim(alice_api, prepared, lease=3600).json()["claim"]
    Run.objects.filter(pk=prepared.pk).update(deadline=timezone.now() - timedelta(seconds=1))
    assert recovery.tick_recovery()["expired_runs"] == 1
    prepared.refresh_from_db()
    assert (prepared.status, prepared.error["code"]) == ("expired", "deadline")
    assert beat(alice_api, prepared, token).json()["error"]["code"] == "run_finished"
