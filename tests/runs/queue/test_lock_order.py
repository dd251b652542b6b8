"""Who decides and who cancels at the same time do not wait for each other: one of them is first."""

import threading
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from agents.exceptions import Conflict
from agents.tools import ToolResult
from runs.calls import approvals
from runs.chains import calls as step_calls
from runs.exceptions import LeaseLost
from runs.intake import messages as intake
from runs.intake import sessions
from runs.models import Approval, Run, Session, StepRun, ToolCallRecord
from runs.queue import claims, endings
from runs.queue.leases import StepLease

pytestmark = pytest.mark.django_db(transaction=True)


def waiting_run(person, agent):
    session = Session.objects.create(owner=person, agent=agent)
    run = Run.objects.create(
        principal=person, agent=agent, version=agent.published, session=session, status="waiting",
        waiting_for="approval", attempt=1,
    )  # fmt: skip
    call = ToolCallRecord.objects.create(run=run, name="send-mail", waiting_for="approval")
    until = timezone.now() + timedelta(hours=1)
    return run, Approval.objects.create(run=run, call=call, tool="send-mail", arguments={}, expires_at=until)


def at_once(*works):
    """Start them together; what they raised, but for refusals that a caller is told of."""
    ready, broken = threading.Barrier(len(works)), []

    def work(one):
        try:
            ready.wait(60)
            one()
        except Conflict:
            pass
        except Exception as error:
            broken.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(one,)) for one in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return broken


def test_approving_and_cancelling_at_the_same_time_never_deadlock(alice, make_agent):
    agent = make_agent()
    for _ in range(15):
        run, approval = waiting_run(alice, agent)
        broken = at_once(
            lambda approval=approval: approvals.decide_approval(approval, "approve", by=alice),
            lambda run=run: endings.cancel_run(run, by=alice),
        )
        assert broken == []
        run.refresh_from_db()
        assert run.status == "cancelled" or run.cancel_requested_at


def test_a_child_that_ends_while_its_parent_is_cancelled_never_deadlocks(alice, make_agent):
    agent = make_agent()
    for _ in range(15):
        parent = Run.objects.create(principal=alice, agent=agent, status="running", attempt=1)
        child = Run.objects.create(
            principal=alice, agent=agent, status="waiting", parent=parent, root=parent, processed=1
        )
        broken = at_once(
            lambda child=child: endings.finish_run(child, "succeeded"),
            lambda parent=parent: endings.cancel_run(parent, by=alice),
        )
        assert broken == []


@pytest.fixture
def meet(monkeypatch):
    """Both works hold their first lock when they meet: one waits for the other there, a second at most."""
    barrier = threading.Barrier(2)

    def wait():
        with suppress(threading.BrokenBarrierError):
            barrier.wait(1)

    def meet_before(owner, name, when=lambda *_: True):
        real = getattr(owner, name)

        def wrapped(*given, **more):
            if when(*given):
                wait()
            return real(*given, **more)

        monkeypatch.setattr(owner, name, wrapped)

    return meet_before


def test_a_run_ends_while_another_message_interrupts_it(alice, make_agent, meet):
    agent = make_agent()
    session = Session.objects.create(owner=alice, agent=agent)
    run = Run.objects.create(
        principal=alice, agent=agent, version=agent.published, session=session, status="running", attempt=1
    )
    meet(Session, "add_message", lambda _, role, *__: role == "assistant")
    meet(sessions, "follow_busy_run")
    broken = at_once(
        lambda: endings.finish_run(run, "succeeded", reply="Done."),
        lambda: intake.accept_message(user=alice, text="Stop", agent=agent, session=session, on_busy="interrupt"),
    )
    assert broken == []
    follower = Run.objects.exclude(pk=run.pk).get()
    assert (follower.after_id, follower.place) == (None, 0)


def test_a_run_and_its_parent_are_cancelled_at_the_same_time(alice, make_agent, meet):
    agent = make_agent()
    parent = Run.objects.create(principal=alice, agent=agent, status="waiting", waiting_for="child", attempt=1)
    child = Run.objects.create(principal=alice, agent=agent, status="waiting", parent=parent, root=parent, attempt=1)
    meet(endings, "close_open_work", lambda run: run.pk == parent.pk)
    meet(endings, "finish_run", lambda run, *_: run.pk == child.pk)
    broken = at_once(lambda: endings.cancel_run(child, by=alice), lambda: endings.cancel_run(parent, by=alice))
    assert broken == []
    assert set(Run.objects.values_list("status", flat=True)) == {"cancelled"}


def test_two_runs_of_a_deep_tree_are_cancelled_while_one_below_them_waits_for_a_person(alice, make_agent, meet):
    """The deadlines of all above it are moved back."""
    agent, until = make_agent(), timezone.now() + timedelta(hours=1)
    fields = {"principal": alice, "agent": agent, "status": "waiting", "attempt": 1, "deadline": until}
    tree = [Run.objects.create(waiting_for="child", **fields)]
    for depth in (1, 2):
        tree.append(Run.objects.create(waiting_for="child", parent=tree[-1], root=tree[0], depth=depth, **fields))
    Run.objects.create(waiting_for="approval", parent=tree[-1], root=tree[0], depth=3, paused_until=until, **fields)
    top, _, lower = tree
    meet(endings, "close_open_work", lambda run: run.pk in (top.pk, lower.pk))
    broken = at_once(lambda: endings.cancel_run(lower, by=alice), lambda: endings.cancel_run(top, by=alice))
    assert broken == []
    assert set(Run.objects.values_list("status", flat=True)) == {"cancelled"}


def test_a_run_goes_on_after_an_answer_while_its_parent_is_cancelled(alice, make_agent, meet):
    """The time of the wait is taken back from both deadlines."""
    agent, until = make_agent(), timezone.now() + timedelta(hours=1)
    parent = Run.objects.create(
        principal=alice, agent=agent, status="waiting", waiting_for="child", attempt=1, deadline=until
    )
    child = Run.objects.create(
        principal=alice, agent=agent, parent=parent, root=parent, attempt=1, place=0, paused_until=until, deadline=until
    )
    meet(endings, "close_open_work", lambda run: run.pk == parent.pk)
    meet(claims, "start_claimed_run")
    broken = at_once(lambda: claims.claim_run(str(child.pk)), lambda: endings.cancel_run(parent, by=alice))
    assert broken == []
    child.refresh_from_db()
    assert child.paused_until is None and (child.status == "cancelled" or child.cancel_requested_at)


def test_a_call_of_a_step_ends_while_its_chain_is_cancelled(alice, make_chain, functions, meet):
    chain = make_chain({"key": "a", "tool": "one"})
    run = intake.start_chain(user=alice, chain=chain, input={})
    Run._base_manager.filter(pk=run.pk).update(status="waiting", place=None)
    spec = run.chain_version.read_spec()
    record = ToolCallRecord.objects.create(run=run, name="one", kind="function", attempt=1)
    row = StepRun.objects.create(run=run, key="a", status="running", attempt=1, call=record)
    tool = step_calls.find_step_tool(run, spec, spec.steps[0])
    executor = step_calls.open_step_executor(run, spec, spec.steps[0], tool, StepLease(run, [row.pk]))
    executor.settle(record, ToolResult(ok=True, value=1))

    def end_call():
        with suppress(LeaseLost):
            step_calls.after_call(run, spec.steps[0], row, record, executor)

    meet(step_calls, "settle_call")
    meet(endings, "close_open_work")
    assert at_once(end_call, lambda: endings.cancel_run(run, by=alice)) == []
    run.refresh_from_db()
    assert run.status == "cancelled"
    assert not StepRun.objects.filter(finished_at=None).exists()
