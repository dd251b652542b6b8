"""A worker in the test's own process: what is queued waits until the test lets it work."""

import threading
from collections import deque

import pytest
from django.db import connection, connections

from agents.tools import ToolResult
from registry import toolsets
from runs.intake import messages as intake
from runs.models import Run, RunEvent
from runs.queue import carriers
from runs.worker.dispatcher import Work

DATABASES = {"db", "transactional_db"}


class Silent:
    """A carrier that wakes nobody."""

    def ring(self, pool):
        return True


class Threads(Silent):
    """A carrier whose every wake-up is answered by a worker on a thread of its own."""

    def __init__(self):
        self.threads = []

    def ring(self, pool):
        self.threads.append(threading.Thread(target=self.look, args=(pool,)))
        self.threads[-1].start()
        return True

    def look(self, pool):
        try:
            Work().do(pool, lambda: None)
        finally:
            connections.close_all()

    def join(self):
        for thread in self.threads:
            thread.join(60)


class InlineWorker:
    """A carrier and its worker: each wake-up is answered by one look, and so is what a look learns of others."""

    def __init__(self, capture):
        self.capture = capture
        self.sent = deque()
        self.hand = Work()

    def ring(self, pool):
        self.sent.append(pool)
        return True

    def work(self, limit=50):
        """Work until nothing is queued; commits happen as they would outside a test's transaction."""
        for _ in range(limit):
            if not self.sent:
                return
            pool = self.sent.popleft()
            with self.capture(execute=True):
                self.hand.do(pool, lambda pool=pool: self.sent or self.ring(pool))

    def send_message(self, user, text, agent, **more):
        """Through the one door, then to work: the run as it stands afterwards."""
        with self.capture(execute=True):
            taken = intake.accept_message(user=user, text=text, agent=agent, **more)
        self.work()
        return Run.objects.get(pk=taken.run.pk)


@pytest.fixture(autouse=True)
def no_honest_run_is_suspected(request):
    """Every test's runs are honest work but those of a test that is marked `circles`: no warning, so no stop either."""
    uses_database = request.node.get_closest_marker("django_db") or DATABASES & set(request.fixturenames)
    if request.node.get_closest_marker("circles") or not uses_database:
        yield
        return
    request.getfixturevalue("db")  # so that its end comes after ours
    yield
    if not connection.needs_rollback:
        assert list(RunEvent.objects.filter(type="stuck.warned").values_list("run", "data")) == []


@pytest.fixture
def worker(monkeypatch, django_capture_on_commit_callbacks, db):
    made = InlineWorker(django_capture_on_commit_callbacks)
    monkeypatch.setattr(carriers, "current", lambda: made)
    return made


class Recorder:
    """A toolset with the real interface that answers from a list and remembers what it was asked."""

    def __init__(self):
        self.asked = []
        self.answers = deque()

    def call(self, tool, call, context):
        self.asked.append((tool.name, call.arguments, call.id))
        answer = self.answers.popleft() if self.answers else ToolResult(ok=True, value={"sum": 42})
        if isinstance(answer, BaseException):
            raise answer
        return answer(call, context) if callable(answer) else answer


@pytest.fixture
def functions(monkeypatch):
    """Stands where stored functions are called."""
    recorder = Recorder()
    monkeypatch.setitem(toolsets.TOOLSETS, "function", recorder)
    return recorder
