"""SQLite has a single writer; a connection that finds it busy sleeps and retries, longer each time.

With forty threads most of them sleep while nobody writes, some for seconds. So the threads of a
process take turns at a lock, which wakes the next one at once; SQLite's own waiting only matters
between processes.
"""

import os
import threading
from functools import lru_cache
from typing import Any

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError


class Turn:
    """The write lock of this process. A forked child starts with its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.lock = threading.Lock()


TURN = Turn()


@lru_cache(maxsize=1000)
def with_question_marks(query: str) -> str:
    """A statement with SQLite's placeholders in place of Django's."""
    return base.FORMAT_QMARK_REGEX.sub("?", query).replace("%%", "%")


class Cursor(base.SQLiteCursorWrapper):
    """Django looks for the placeholders each time a statement is executed."""

    def convert_query(self, query: str, *, param_names: Any = None) -> str:
        return super().convert_query(query, param_names=param_names) if param_names else with_question_marks(query)


class DatabaseWrapper(base.DatabaseWrapper):
    """Acquires the lock before BEGIN IMMEDIATE and releases it with COMMIT, ROLLBACK or when the
    connection closes.

    A transaction begins with its first statement, so work in Python before it blocks nobody.
    """

    mine: Any = None  # the lock, while it is held
    is_to_begin = False

    def _start_transaction_under_autocommit(self) -> None:
        self.is_to_begin = True

    def create_cursor(self, name: Any = None) -> Any:
        if self.is_to_begin:
            self.begin()
        return self.connection.cursor(factory=Cursor)

    def begin(self) -> None:
        lock = TURN.lock
        if not lock.acquire(timeout=self.settings_dict["OPTIONS"].get("timeout", 5)):
            raise OperationalError("database is locked by this process")
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
