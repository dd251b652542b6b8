"""Who decides and who cancels at the same time do not wait for each other: one of them is first."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from agents.exceptions import Conflict
from runs.calls import approvals
from runs.lifecycle import endings
from runs.models import Approval, Run, Session, ToolCallRecord

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
            ready.wait(20)
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
            lambda approval=approval: approvals.decide(approval, "approve", by=alice),
            lambda run=run: endings.cancel(run, by=alice),
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
            lambda child=child: endings.finish(child, "succeeded"),
            lambda parent=parent: endings.cancel(parent, by=alice),
        )
        assert broken == []
