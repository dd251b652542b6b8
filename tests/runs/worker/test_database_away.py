"""The database is away or its disk is full: requests are told so, runs go on when it is back."""

from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from agents.tools import ToolResult
from runs.models import Run, Session
from runs.worker import recovery
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db(transaction=True)
on_sqlite = pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the disk is SQLite's own limit of pages")
BIG = {"name": "big", "description": "Much to say.", "system_prompt": "x" * 90_000, "provider": "offline"}


class Disk:
    """What this connection may write to."""

    def fill(self):
        with connection.cursor() as cursor:
            cursor.execute("VACUUM")  # other tests leave free pages
            cursor.execute("PRAGMA page_count")
            (pages,) = cursor.fetchone()
        self.limit(pages)

    def make_room(self):
        self.limit(2**30)

    def limit(self, pages):
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA max_page_count = {pages}")


@pytest.fixture
def disk(db):
    made = Disk()
    yield made
    made.make_room()


@on_sqlite
def test_a_request_on_a_full_disk_is_told_so_and_leaves_nothing(alice_api, offline, disk):
    disk.fill()
    answer = alice_api.post("/api/v1/agents/", BIG)
    assert answer.status_code == 503 and int(answer["Retry-After"]) > 0
    error = answer.json()["error"]
    assert error["code"] == "database_unavailable" and "Idempotency-Key" in error["hint"] and error["request_id"]
    disk.make_room()
    assert alice_api.get("/api/v1/agents/big").status_code == 404
    assert alice_api.post("/api/v1/agents/", BIG).status_code == 201


@on_sqlite
@pytest.mark.parametrize(("effect", "outcome", "asked"), [("read", "ok", 2), ("write", "unknown", 1)])
def test_a_run_on_a_full_disk_goes_on_when_there_is_room(
    worker, alice, make_agent, make_tool, stub_provider, stub, functions, disk, effect, outcome, asked
):
    def fill(call, context):
        disk.fill()
        return ToolResult(ok=True, value="y" * 400_000)

    agent = make_agent(tools=[make_tool(effect=effect)], provider=stub_provider)
    functions.answers.append(fill)
    stub.script(calls(("add", {"a": 1, "b": 2})), says("It is three."))
    run = worker.send_message(alice, "1 + 2?", agent)
    assert (run.status, run.error) == ("running", None)  # not failed: nothing is wrong with it
    disk.make_room()
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    recovery.tick_recovery()
    worker.work()
    run.refresh_from_db()
    assert (run.status, run.attempt, run.tool_calls.get().outcome) == ("succeeded", 2, outcome)
    assert len(functions.asked) == asked


def test_a_tool_that_finds_the_database_away_has_not_failed(worker, alice, make_agent, make_tool, stub, functions):
    agent = make_agent(tools=[make_tool()])
    functions.answers.append(OperationalError("the server closed the connection"))
    run = worker.send_message(alice, "add 1 and 2", agent)
    assert (run.status, run.tool_calls.get().outcome) == ("running", "")


def test_what_nobody_foresaw_is_answered_in_json(alice_api, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(type(Session.objects.all()), "visible_to", broken)
    answer = alice_api.get("/api/v1/sessions/")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (500, "internal_error") and error["request_id"]
    assert "secret" not in answer.content.decode() and "Traceback" not in answer.content.decode()
