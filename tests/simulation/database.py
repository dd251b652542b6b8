"""A database in memory that goes back to its first rows after each seed.

A whole seed is one transaction that is rolled back; the transactions in it are savepoints. So the tables stay the
same, and SQLite prepares each statement once in this process and not once a seed.
"""

import sqlite3
from typing import Any

from django.conf import settings
from django.db import connection

BEGIN = "SAVEPOINT work"  # in place of BEGIN


class Rewindable(sqlite3.Connection):
    # Django sets it after each transaction, and Python would then commit.
    isolation_level = property(lambda _: None, lambda _, level: None)  # type: ignore[assignment]

    def commit(self) -> None:
        self.execute("RELEASE work")

    def rollback(self) -> None:
        self.execute("ROLLBACK TO work")
        self.execute("RELEASE work")


def create() -> None:
    """The empty tables."""
    settings.DATABASES["default"]["TEST"] |= {"NAME": ":memory:", "MIGRATE": False}
    connection.creation.create_test_db(verbosity=0, serialize=False)


def keep() -> None:
    """The rows of now are those that each seed begins with."""
    rows = raw().serialize()
    connection.connection = None
    known: dict[str, Any] = connection.settings_dict
    known["NAME"] = ":memory:"
    known["OPTIONS"] |= {"factory": Rewindable, "isolation_level": None, "cached_statements": 4096}
    connection.connect()
    raw().deserialize(rows)
    raw().execute("SAVEPOINT seed")


def rewind() -> None:
    raw().execute("ROLLBACK TO seed")


def raw() -> sqlite3.Connection:
    return connection.connection
