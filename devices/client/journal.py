"""The journal of calls: written before a tool runs, so that a repeated call never runs twice."""

import json
import time
import uuid
from dataclasses import dataclass
from typing import Any

from devices.protocol import OUTCOME_UNKNOWN, ToolCall, ToolResult, Unfinished

from .store import KEEP_S, Store

JSON = Any
MAX_LISTED = 2000


@dataclass(frozen=True, slots=True)
class Entry:
    state: str
    result: ToolResult


class Journal:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.id = store.meta("journal_id", uuid.uuid4().hex)

    def recover(self) -> int:
        """After a start: settle calls that were running when the client died.

        A call that only reads, or only changes local records, left nothing behind: it is forgotten,
        and the server sends it again. The outcome of any other call is unknown, and the server
        records it so. Returns the number of calls.
        """
        error = json.dumps({"code": OUTCOME_UNKNOWN, "message": "the client stopped while this ran"})
        with self.store.transaction(durable=True) as db:
            forgotten = db.execute("DELETE FROM calls WHERE state = 'running' AND repeatable = 1").rowcount
            unknown = db.execute(
                "UPDATE calls SET state = 'failed', error = ?, finished_at = ? WHERE state = 'running'",
                (error, time.time()),
            ).rowcount
            db.execute("DELETE FROM calls WHERE finished_at < ?", (time.time() - KEEP_S,))
        return forgotten + unknown

    def find(self, id: str) -> Entry | None:
        with self.store.lock:
            row = self.store.db.execute("SELECT * FROM calls WHERE id = ?", (id,)).fetchone()
        if row is None:
            return None
        result = None
        if row["result"]:
            result = json.loads(row["result"])
        error = None
        if row["error"]:
            error = json.loads(row["error"])
        is_ok = row["state"] == "done"
        return Entry(row["state"], ToolResult(id, is_ok, result, error))

    def begin(self, call: ToolCall, *, repeatable: bool) -> None:
        """Record that this call is about to run. A tool whose effect cannot be undone waits until
        the entry is on disk.
        """
        run = str(call.run_context.get("run", ""))
        agent = str(call.run_context.get("agent", ""))
        values = (call.id, call.name, run, agent, "running", int(repeatable), time.time())
        with self.store.transaction(durable=not repeatable) as db:
            db.execute(
                "INSERT INTO calls (id, tool, run, agent, state, repeatable, started_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                values,
            )

    def finish(self, result: ToolResult, *, durable: bool = False) -> None:
        state = "failed"
        value = None
        if result.ok:
            state = "done"
            value = json.dumps(result.result)
        error = None
        if result.error:
            error = json.dumps(result.error)
        values = (state, value, error, time.time(), result.id)
        with self.store.transaction(durable=durable) as db:
            db.execute("UPDATE calls SET state = ?, result = ?, error = ?, finished_at = ? WHERE id = ?", values)

    def unfinished(self) -> tuple[Unfinished, ...]:
        """The calls listed in the hello: running ones, and finished ones that the server has not
        confirmed.
        """
        with self.store.lock:
            rows = self.store.db.execute(
                "SELECT id, state FROM calls WHERE confirmed = 0 ORDER BY finished_at IS NULL DESC, finished_at DESC"
                " LIMIT ?",
                (MAX_LISTED,),
            ).fetchall()
        return tuple(Unfinished(row["id"], row["state"]) for row in rows)

    def confirm(self, listed: tuple[Unfinished, ...], ids: tuple[str, ...]) -> None:
        """The server has processed the hello: finished calls that it does not ask for need not be
        listed again.
        """
        requested = set(ids)
        done = []
        for item in listed:
            if item.state != "running" and item.id not in requested:
                done.append((item.id,))
        with self.store.transaction() as db:
            db.executemany("UPDATE calls SET confirmed = 1 WHERE id = ?", done)

    def close_run(self, run: str, status: str, counts: dict[str, int], summary: str) -> None:
        values = (run, status, json.dumps(counts), summary, time.time())
        with self.store.transaction() as db:
            db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", values)

    def recent_runs(self, limit: int = 10) -> list[dict[str, JSON]]:
        """What was done here, grouped by run, newest first."""
        query = """SELECT calls.run, max(calls.agent) AS agent, count(*) AS calls, max(calls.started_at) AS last,
                          runs.status, runs.counts, runs.summary
                   FROM calls LEFT JOIN runs ON runs.run = calls.run
                   GROUP BY calls.run ORDER BY last DESC LIMIT ?"""
        with self.store.lock:
            return [dict(row) for row in self.store.db.execute(query, (limit,)).fetchall()]
