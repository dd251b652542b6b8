"""What a run uses is deleted while it works: the person gets a plain answer, and the run an end that says why."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connections

from agents.models import Agent, Tool
from knowledge.models import Collection
from runs.intake import messages as intake
from runs.models import Run, Session
from runs.queue import carriers, endings
from runs.queue.claims import claim_run
from runs.queue.leases import Lease
from runs.worker import runner
from tests.functions import library

pytestmark = pytest.mark.django_db(transaction=True)
V1 = "/api/v1"
ANSWERS = (204, 404, 409)
ENDS = ("succeeded", "cancelled")
ROUNDS = 8


class Silent:
    """A carrier that rings nobody: these tests start the work themselves."""

    def ring(self, pool):
        return True


@pytest.fixture(autouse=True)
def nobody_else_works(monkeypatch):
    silent = Silent()
    monkeypatch.setattr(carriers, "current", lambda: silent)


def at_once(*works):
    """Their results, in order, if they all began at the same moment."""
    barrier = Barrier(len(works))

    def begin(work):
        barrier.wait(60)
        try:
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(begin, works))


def accept(person, agent, session=None):
    return intake.accept_message(user=person, text="Hello", agent=agent, session=session, on_busy="enqueue")


def test_a_conversation_that_is_deleted_while_its_run_ends(alice, alice_api, make_agent):
    agent = make_agent()
    for _ in range(ROUNDS):
        taken = accept(alice, agent)
        follower = accept(alice, agent, taken.session)
        path = f"{V1}/sessions/{taken.session.pk}"
        answer, _ = at_once(
            lambda path=path: alice_api.delete(path), lambda taken=taken: runner.execute_run(str(taken.run.pk))
        )
        runner.execute_run(str(taken.run.pk))  # a worker that came too early for the claim
        runner.execute_run(str(follower.run.pk))
        assert answer.status_code == 204, answer.content
        ends = Run.objects.filter(pk__in=[taken.run.pk, follower.run.pk])
        assert {run.status for run in ends} <= set(ENDS), [(run.status, run.error) for run in ends]
        assert not Session.objects.exists() and set(ends.values_list("session", flat=True)) == {None}


def test_a_reply_that_comes_after_its_conversation_was_deleted_is_dropped(alice, alice_api, make_agent):
    taken = accept(alice, make_agent())
    run = claim_run(str(taken.run.pk))
    assert run.session is not None
    Session.objects.all().delete()  # as an administrator may: nothing was stopped before
    lease = Lease(run)
    assert endings.finish_run(run, Run.Status.SUCCEEDED, lease=lease, reply="Too late")
    run.refresh_from_db()
    assert (run.status, run.error, run.session) == ("cancelled", endings.SESSION_GONE, None)
    assert run.events.get(type="run.finished").data["status"] == "cancelled"


def test_a_conversation_that_is_gone_before_its_run_begins_to_answer(alice, make_agent):
    taken = accept(alice, make_agent())
    run = claim_run(str(taken.run.pk))
    Session.objects.all().delete()
    runner.carry_out(run)
    run.refresh_from_db()
    assert (run.status, run.error["code"]) == ("cancelled", "cancelled")


def test_messages_that_come_while_their_conversation_is_deleted(alice, alice_api, make_agent):
    agent = make_agent()
    for _ in range(ROUNDS):
        session = Session.objects.create(owner=alice, agent=agent)
        path, body = f"{V1}/sessions/{session.pk}", {"text": "Hi", "session": str(session.pk), "on_busy": "enqueue"}
        deleted, *sent = at_once(
            lambda path=path: alice_api.delete(path),
            *[lambda body=body: alice_api.post(f"{V1}/agents/{agent.name}/messages", body) for _ in range(2)],
        )
        assert deleted.status_code in ANSWERS and {answer.status_code for answer in sent} <= {202, 404, 409, 422}
        assert all(run.is_done or run.cancel_requested_at for run in Run.objects.all()) or deleted.status_code == 409


@pytest.mark.parametrize("path", ["agents/helper", "functions/add", "collections/papers"])
def test_a_thing_that_is_deleted_while_a_run_uses_it(alice, alice_api, make_agent, path):
    for _ in range(3):
        if not Tool.objects.filter(name="add").exists():
            library.publish(alice)
        if not Collection.objects.exists():
            Collection.objects.create(name="papers", owner=alice)
        agent = Agent.objects.filter(name="helper").first() or make_agent(tools=[Tool.objects.get(name="add")])
        taken = accept(alice, agent)
        answer, _ = at_once(
            lambda: alice_api.delete(f"{V1}/{path}"), lambda taken=taken: runner.execute_run(str(taken.run.pk))
        )
        runner.execute_run(str(taken.run.pk))
        run = Run.objects.filter(pk=taken.run.pk).first()
        assert answer.status_code in ANSWERS, answer.content
        assert run is None or run.is_done and (run.error or {}).get("code") != "internal_error"


def test_a_chain_that_is_deleted_while_it_is_started(alice, alice_api, make_agent, make_chain):
    make_agent()
    for number in range(3):
        name = f"digest{number}"
        make_chain({"key": "one", "agent": "helper", "input": {"message": "'Hi'"}}, name=name)
        deleted, started = at_once(
            lambda name=name: alice_api.delete(f"{V1}/chains/{name}"),
            lambda name=name: alice_api.post(f"{V1}/chains/{name}/runs", {"input": {}}),
        )
        assert deleted.status_code in ANSWERS and started.status_code in (202, 404, 409), started.content
        run = Run.objects.filter(chain_version__chain__name=name).first()
        if run is not None:
            runner.execute_run(str(run.pk))
            run.refresh_from_db()
            assert (run.error or {}).get("code") != "internal_error"
