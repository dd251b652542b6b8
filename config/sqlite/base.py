"""SQLite has one writer, and who finds it busy sleeps a while and tries again, longer each time.

With forty threads most of them sleep while nobody writes, and some sleep for seconds. So the threads of a process take
turns at a lock, which wakes the next one at once; SQLite's own waiting is left for the other processes.
"""

import os
import threading
from typing import Any

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError


class Turn:
    """Whose turn it is to write in this process. A forked child begins with its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.lock = threading.Lock()


TURN = Turn()


class DatabaseWrapper(base.DatabaseWrapper):
    """Takes its turn before BEGIN IMMEDIATE and gives it back with COMMIT, ROLLBACK or the connection's end.

    A transaction begins with its first statement: what Python prepares before that holds nobody up.
    """

    mine: Any = None  # the lock, while it is held
    is_to_begin = False

    def _start_transaction_under_autocommit(self) -> None:
        self.is_to_begin = True

    def create_cursor(self, name: Any = None) -> Any:
        if self.is_to_begin:
            self.begin()
        return super().create_cursor(name)

    def begin(self) -> None:
        lock = TURN.lock
        if not lock.acquire(timeout=self.settings_dict["OPTIONS"].get("timeout", 5)):
            raise OperationalError("database is locked by this very process")
        self.mine, self.is_to_begin = lock, False
        try:
            super()._start_transaction_under_autocommit()
        except BaseException:
            self.give_back()
            self.is_to_begin = True
            raise

    def _commit(self) -> Any:
        if not self.is_to_begin:
            super()._commit()
        self.give_back()  # a commit that failed is followed by a rollback

    def _rollback(self) -> Any:
        try:
            super()._rollback()
        finally:
            self.give_back()

    def _close(self) -> Any:
        try:
            super()._close()
        finally:
            self.give_back()

    def give_back(self) -> None:
        self.is_to_begin = False
        if self.mine is not None:
            lock, self.mine = self.mine, None
            lock.release()
