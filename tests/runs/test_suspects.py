"""A run whose workers keep vanishing is worked on alone, so that it does not take others along."""

import threading

import pytest
from django.db import connections

from runs import endings, intake, runner
from runs.models import Run
from tests.fakes import says
from tests.live import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def suspect(alice, make_agent, stub_provider, stub, monkeypatch):
    """Three workers vanished with it, and it waits for its turn: another suspect is at work."""
    stub.script(says("done"))
    make_agent("librarian", provider=stub_provider)
    monkeypatch.setattr(intake.queue, "enqueue", lambda run_id: True)
    run = intake.accept_message(user=alice, agent="librarian", text="go").run
    Run.objects.filter(pk=run.pk).update(crashes=runner.MAX_CRASHES)
    return run


@pytest.fixture
def work(suspect):
    def execute():
        try:
            runner.execute(str(suspect.pk))
        finally:
            connections.close_all()

    runner.SUSPECTS.acquire()
    thread = threading.Thread(target=execute)
    thread.start()
    yield thread
    thread.join(10)


def crashes(run):
    return Run.objects.get(pk=run.pk).crashes


def test_who_waits_for_its_turn_is_not_blamed_if_the_worker_vanishes_meanwhile(suspect, work):
    try:
        wait_for(lambda: crashes(suspect) == runner.MAX_CRASHES - 1)
    finally:
        runner.SUSPECTS.release()
    work.join(10)
    suspect.refresh_from_db()
    assert suspect.status == "succeeded"
    assert not runner.SUSPECTS.locked()


def test_who_waits_for_its_turn_can_be_cancelled(suspect, work, alice):
    try:
        wait_for(lambda: crashes(suspect) == runner.MAX_CRASHES - 1)
        endings.cancel(Run.objects.get(pk=suspect.pk), by=alice, reason="enough")
        work.join(10)
    finally:
        runner.SUSPECTS.release()
    suspect.refresh_from_db()
    assert (suspect.status, suspect.error["message"]) == ("cancelled", "enough")
