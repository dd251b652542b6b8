"""A worker is killed at any statement of a message, and right before and after each commit: another one ends the run as
if nothing had happened. What the database forgets of a killed process, an exception that nothing handles makes it forget
here: the open transaction and the hooks of its commit.
"""

import threading
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.db.backends.utils import CursorWrapper
from django.utils import timezone

from runs.intake import messages as intake
from runs.models import Message, ModelCall, Run, RunEvent, ToolCallRecord
from runs.worker import recovery
from runs.worker.dispatcher import Work

pytestmark = pytest.mark.django_db(transaction=True)


class Killed(BaseException):
    """No code handles it, as none runs in a process that was killed."""


class Killer:
    """Counts the moments of a worker, and kills it at one of them."""

    def __init__(self):
        self.thread = threading.get_ident()  # that of the worker: another one renews its leases
        self.moment = 0
        self.last = None  # None: the worker lives

    def begin(self, last):
        self.moment = 0
        self.last = last

    def pass_moment(self):
        if threading.get_ident() != self.thread:
            return
        self.moment += 1
        if self.moment == self.last:
            raise Killed

    def watch_statements(self, execute):
        def watched(cursor, sql, params=None):
            self.pass_moment()
            return execute(cursor, sql, params)

        return watched

    def watch_commits(self, commit):
        def watched(db):
            try:
                self.pass_moment()
            except Killed:
                db._rollback()  # as the database does when the connection ends
                raise
            commit(db)
            self.pass_moment()

        return watched


@pytest.fixture
def killer(monkeypatch):
    made = Killer()
    database = type(connections["default"])
    monkeypatch.setattr(CursorWrapper, "execute", made.watch_statements(CursorWrapper.execute))
    monkeypatch.setattr(database, "_commit", made.watch_commits(database._commit))
    yield made
    made.begin(None)


def start(user, agent):
    return intake.accept_message(user=user, text="Add the numbers a = 40 and b = 2", agent=agent).run


def is_killed(killer, moment):
    """Whether a worker that takes what waits is killed at this moment; False if its work has fewer."""
    killer.begin(moment)
    try:
        Work().do("default", lambda: None)
    except Killed:
        return True
    finally:
        killer.begin(None)
    return False


def bury():
    """What becomes of the process's connection, and of its lease when the time is over."""
    connection.run_on_commit.clear()
    connection.close()
    long_ago = timezone.now() - timedelta(days=1)
    Run.objects.filter(status=Run.Status.RUNNING).update(lease_expires_at=long_ago)
    recovery.tick_recovery()


def check(run, outcomes):
    """The record of the run is whole, whatever it went through."""
    run.refresh_from_db()
    assert (run.status, run.turns) == ("succeeded", 2)
    events = list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", "type"))
    assert [seq for seq, _ in events] == list(range(1, run.last_event + 1))
    types = [type for _, type in events]
    assert types[-1] == "run.finished" and types.count("run.finished") == 1
    assert types.count("tool.called") == types.count("tool.finished") == 1
    assert list(ModelCall.objects.filter(run=run).order_by("turn").values_list("turn", flat=True)) == [1, 2]
    roles = Message.objects.filter(session=run.session_id).order_by("seq").values_list("role", flat=True)
    assert list(roles) == ["user", "assistant"]
    [outcome] = ToolCallRecord.objects.filter(run=run).values_list("outcome", flat=True)
    assert outcome in outcomes


@pytest.mark.parametrize(
    ("effect", "outcomes", "most"), [("read", {"ok"}, 2), ("sends_out", {"ok", "unknown"}, 1)], ids=["read", "send"]
)
def test_a_worker_that_is_killed_at_any_moment_of_a_message_loses_nothing_and_doubles_no_effect(
    effect, outcomes, most, alice, make_agent, make_tool, stub_provider, stub, worker, functions, killer
):
    agent = make_agent(provider=stub_provider, tools=[make_tool(effect=effect)])
    moment, seen = 0, set()
    is_at_an_end = False
    while not is_at_an_end:
        moment += 1
        functions.asked.clear()
        run = start(alice, agent)
        is_at_an_end = not is_killed(killer, moment)
        if not is_at_an_end:
            bury()
            Work().do("default", lambda: None)  # it finds nothing where the end was stored already
        check(run, outcomes)
        assert 0 <= len(functions.asked) <= most
        assert len({call_id for _, _, call_id in functions.asked}) <= 1  # repeated under its own id
        seen.update(ToolCallRecord.objects.filter(run=run).values_list("outcome", flat=True))
    assert moment > 20 and seen == outcomes
