"""On PostgreSQL every test of chains also keeps the order of locks (`runs/queue/locks.py`)."""

import re

import pytest
from django.db import connection

RUN = re.compile(r'(UPDATE|INSERT INTO) "runs_run" |FROM "runs_run" .*FOR NO KEY UPDATE', re.DOTALL)
STEP = re.compile(r'(UPDATE|INSERT INTO) "runs_steprun" |FROM "runs_steprun" .*FOR UPDATE', re.DOTALL)


class LockOrder:
    """Notes transactions that lock a step before they lock a run. In a test they are savepoints."""

    def __init__(self):
        self.faults = set()
        self.begin_anew()

    def begin_anew(self):
        self.savepoints, self.step, self.holds_run = 0, "", False

    def __call__(self, execute, sql, values, many, context):
        if sql.startswith("SAVEPOINT"):
            self.savepoints += 1
        elif sql.startswith("RELEASE SAVEPOINT"):
            self.savepoints -= 1
        elif self.savepoints and not self.holds_run:
            self.note(sql)
        if self.savepoints <= 0:
            self.begin_anew()
        return execute(sql, values, many, context)

    def note(self, sql):
        if STEP.search(sql):
            self.step = self.step or sql
        elif RUN.search(sql):
            self.holds_run = True
            if self.step:
                self.faults.add(f"{self.step[:300]}\nbefore\n{sql[:300]}")


@pytest.fixture(autouse=True)
def lock_order(db):
    if connection.vendor != "postgresql":
        yield
        return
    order = LockOrder()
    with connection.execute_wrapper(order):
        yield
    assert order.faults == set(), "\n\n".join(order.faults)
