"""One local SQLite file: the user's records and the journal of calls. One transaction can cover
both.

Because a record and the journal entry of its call commit together, a client that is killed has
either done and recorded a call, or neither; in the second case it may run the call again.
"""

import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from .records import (
    CHANGE,
    SET_BY_STORE,
    Record,
    build_untrusted_mark,
    drop_fields,
    is_found,
    refuse_missing,
    refuse_rejected,
)

JSON = Any
# Finished journal entries are deleted after this time.
KEEP_S = 14 * 86_400
TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS records (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, project_id TEXT NOT NULL DEFAULT '', data TEXT NOT NULL,
    isAiSuggested INTEGER NOT NULL, isApproved INTEGER NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS records_by_kind ON records (kind, updated_at);
CREATE TABLE IF NOT EXISTS calls (
    id TEXT PRIMARY KEY, tool TEXT NOT NULL, run TEXT NOT NULL, agent TEXT NOT NULL, state TEXT NOT NULL,
    repeatable INTEGER NOT NULL, result TEXT, error TEXT, started_at REAL NOT NULL, finished_at REAL,
    confirmed INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS calls_open ON calls (finished_at) WHERE confirmed = 0;
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, status TEXT NOT NULL, counts TEXT NOT NULL, summary TEXT NOT NULL, finished_at REAL NOT NULL);
"""

NOT_REJECTED = "json_extract(data, '$.isRejected') IS NULL"
UNDECIDED = f"(isAiSuggested = 1 AND isApproved = 0 AND {NOT_REJECTED}) OR json_extract(data, '$.{CHANGE}') IS NOT NULL"


class Store:
    """Thread-safe: one connection, one lock. As the records of the tools, it is the person's own."""

    author = "you"

    def __init__(self, path: Path | str) -> None:
        self.lock = threading.RLock()
        self.db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=20)
        self.db.row_factory = sqlite3.Row
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=NORMAL")
        self.db.executescript(TABLES)
        self.depth = 0
        if isinstance(path, Path):
            path.chmod(0o600)

    def close(self) -> None:
        with self.lock:
            self.db.close()

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """Commits at the end, rolls back on any exception. `durable` waits for the disk, so it
        survives a power cut.
        """
        with self.lock:
            # A transaction inside of another one is a part of it: it commits, or fails, with the whole.
            if self.depth:
                yield self.db
                return
            self.db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self.db.execute("BEGIN IMMEDIATE")
            self.depth += 1
            try:
                yield self.db
                self.db.execute("COMMIT")
            except BaseException:
                if self.db.in_transaction:
                    # SQLite has ended it by itself where the disk is full.
                    self.db.execute("ROLLBACK")
                raise
            finally:
                self.depth -= 1

    def meta(self, name: str, otherwise: str) -> str:
        """A stored value; if there is none, `otherwise` is stored."""
        with self.transaction() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, otherwise))
            row = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0])

    # -- records (the tools' side; see records.py) ---------------------------------------------------------------

    def add(self, kind: str, values: dict[str, JSON], *, by_agent: bool = True) -> Record:
        now = format_now()
        id = uuid.uuid4().hex
        project = values.get("project_id", "")
        # What an agent adds is a suggestion; what the person adds is approved.
        is_suggested = int(by_agent)
        is_approved = int(not by_agent)
        row = (id, kind, project, json.dumps(values), is_suggested, is_approved, now, now)
        with self.transaction() as db:
            db.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        return self.get(kind, id)

    def change(self, kind: str, id: str, values: dict[str, JSON]) -> Record:
        with self.transaction():
            data = drop_fields(self.get(kind, id), SET_BY_STORE)
            self.put(id, data | values)
            return self.get(kind, id)

    def get(self, kind: str, id: str) -> Record:
        with self.lock:
            row = self.db.execute("SELECT * FROM records WHERE kind = ? AND id = ?", (kind, id)).fetchone()
        if row is None:
            raise refuse_missing(kind, id)
        return build_record(row)

    def all(
        self, kind: str, *, limit: int, search: str | None = None, assignee: str | None = None, **equal: JSON
    ) -> list[Record]:
        """Records whose fields have these values, the last changed first. Words are searched here, not in SQL: all
        texts of a record count.
        """
        where = f"kind = ? AND {NOT_REJECTED}"
        values = [kind]
        for name, value in equal.items():
            where += " AND json_extract(data, ?) = ?"
            values += [f"$.{name}", value]
        with self.lock:
            rows = self.db.execute(
                f"SELECT * FROM records WHERE {where} ORDER BY updated_at DESC, rowid DESC",  # noqa: S608
                values,
            )
            records = map(build_record, rows)
            matching = (record for record in records if is_found(record, search, assignee))
            return list(islice(matching, limit))

    def for_agent(self, agent: str, *, is_untrusted: bool = False) -> "AgentsRecords":
        """The same records, for a call of this agent."""
        return AgentsRecords(self, agent, is_untrusted=is_untrusted)

    # -- what its person decides ---------------------------------------------------------------------------------

    def suggestions(self) -> list[Record]:
        """What agents created and the person has not decided, and approved records with a suggested
        change; oldest first.
        """
        with self.lock:
            rows = self.db.execute(
                f"SELECT * FROM records WHERE {UNDECIDED} ORDER BY created_at, rowid"  # noqa: S608
            ).fetchall()
        return [build_record(row) for row in rows]

    def approve(self, id: str) -> bool:
        """Approve a suggestion, or carry out a suggested change."""
        return self.decide(id, is_approved=True)

    def reject(self, id: str, reason: str = "") -> bool:
        """Keep a suggestion as rejected, or forget a suggested change; an approved record stays."""
        return self.decide(id, is_approved=False, reason=reason)

    def decide(self, id: str, *, is_approved: bool, reason: str = "") -> bool:
        """False if there is nothing to decide about."""
        with self.transaction() as db:
            row = db.execute(f"SELECT * FROM records WHERE id = ? AND ({UNDECIDED})", (id,)).fetchone()  # noqa: S608
            if row is None:
                return False
            data = json.loads(row["data"])
            change = data.pop(CHANGE, None)
            # A suggested change is carried out or dropped. Without one the record itself is the suggestion.
            if change is not None:
                data |= change if is_approved else {}
            elif not is_approved:
                data |= {"isRejected": 1, "reason": reason}
            self.put(id, data)
            if is_approved:
                db.execute("UPDATE records SET isApproved = 1 WHERE id = ?", (id,))
            return True

    def put(self, id: str, data: dict[str, JSON]) -> None:
        """Replace the content of a record."""
        project = data.get("project_id", "")
        values = (json.dumps(data), project, format_now(), id)
        with self.transaction() as db:
            db.execute("UPDATE records SET data = ?, project_id = ?, updated_at = ? WHERE id = ?", values)


class AgentsRecords:
    """The records as one agent's call may use them. After untrusted text was read, what it writes is
    marked, and a change of an approved record waits for the person.
    """

    def __init__(self, store: Store, agent: str, *, is_untrusted: bool) -> None:
        self.store = store
        self.author = agent
        self.mark = build_untrusted_mark(is_untrusted)
        # Reading is the same for agents and for the person.
        self.get = store.get
        self.all = store.all

    def add(self, kind: str, values: dict[str, JSON]) -> Record:
        return self.store.add(kind, {**values, **self.mark})

    def change(self, kind: str, id: str, values: dict[str, JSON]) -> Record:
        values = {**values, **self.mark}
        with self.store.transaction():
            record = self.store.get(kind, id)
            if record.get("isRejected"):
                raise refuse_rejected(record)
            if self.mark and record["isApproved"]:
                # What the person approved stays as it is until the person approves the change.
                values = {CHANGE: {**record.get(CHANGE, {}), **values}}
            return self.store.change(kind, id, values)


def build_record(row: sqlite3.Row) -> Record:
    """The fields that are columns, and those in the JSON of the row, which cannot replace a column."""
    record: Record = {"id": row["id"], "kind": row["kind"]}
    record |= json.loads(row["data"])
    for name in SET_BY_STORE:
        record[name] = row[name]
    return record


def format_now() -> str:
    now = datetime.fromtimestamp(time.time(), UTC)
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
