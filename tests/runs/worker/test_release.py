"""What a stopping process gives back: every run that another one can continue, at once and without blame."""

import pytest

from runs.exceptions import LeaseLost
from runs.intake import messages as intake
from runs.models import Run, ToolCallRecord
from runs.queue import claims
from runs.queue.choice import Takes
from runs.queue.leases import KEEPER, Lease
from runs.worker.release import release, release_all

pytestmark = pytest.mark.django_db


@pytest.fixture
def lease(alice, make_agent):
    run = intake.accept_message(user=alice, agent=make_agent(), text="go").run
    return Lease(claims.claim(str(run.pk)))


def row(lease):
    return Run.objects.get(pk=lease.run_id)


def call(lease, effect, **more):
    fields = {"name": "pay", "kind": "http", "effect": effect, "attempt": 1, **more}
    return ToolCallRecord.objects.create(run_id=lease.run_id, **fields)


def test_it_is_queued_again_and_taken_by_anybody_without_blame(lease):
    assert release(lease)
    assert (row(lease).status, row(lease).lease_owner, row(lease).lease_expires_at) == ("queued", "", None)
    run = claims.claim_next("default", takes=Takes.UNSUSPECTED)
    assert (str(run.pk), run.crashes, claims.how_claimed(run)) == (lease.run_id, 0, "run.resumed")


def test_whoever_worked_on_it_writes_nothing_more(lease):
    release(lease)
    assert lease.is_cancelled()
    with pytest.raises(LeaseLost):
        lease.write(turns=7)


def test_it_stands_before_those_that_have_not_had_their_turn(lease, alice):
    waiting = intake.accept_message(user=alice, agent=row(lease).agent, text="next").run
    release(lease)
    assert [str(claims.claim_next("default").pk) for _ in range(2)] == [lease.run_id, str(waiting.pk)]


@pytest.mark.parametrize("effect", ["write", "send", "destructive"])
def test_a_call_under_way_that_must_not_be_made_twice_keeps_it(lease, effect):
    call(lease, effect)
    assert not release(lease)
    assert row(lease).status == "running" and not lease.is_cancelled()
    lease.write(turns=1)


@pytest.mark.parametrize(
    ("effect", "more"),
    [("read", {}), ("idempotent", {}), ("write", {"outcome": "ok"}), ("write", {"attempt": 0}),
     ("write", {"waiting_for": "device"})],
)  # fmt: skip
def test_other_calls_do_not(lease, effect, more):
    call(lease, effect, **more)
    assert release(lease)


def test_a_reading_function_that_has_called_a_writing_tool_keeps_it(lease):
    above = call(lease, "read", kind="function")
    call(lease, "write", parent_call=above, outcome="ok")
    assert not release(lease)


def test_a_run_that_another_process_holds_is_not_touched(lease):
    Run.objects.filter(pk=lease.run_id).update(attempt=2)
    assert not release(lease)
    assert row(lease).status == "running"


def test_all_that_this_process_holds(lease):
    KEEPER.add(lease)
    try:
        release_all()
    finally:
        KEEPER.remove(lease)
    assert row(lease).status == "queued"
