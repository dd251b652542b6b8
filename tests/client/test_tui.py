"""The screen of `muster top`, driven by keys."""

import json
import re

import httpx
import pytest
from textual.widgets import DataTable, RichLog, TextArea

from muster_client import AsyncMuster
from muster_client.retries import Retries
from muster_client.tui.screen import Top
from tests.client.fakes import KEY, URL, delta, error, event, finished, run, sse

USAGE = {"usage": {"cost": "0.02"}, "agent": "careful", "started_at": "2026-01-01T00:00:00Z", "trigger": "message"}
RUN = run("r1", status="waiting", waiting_for="approval", **{**USAGE, "finished_at": None})
OTHER = run("r2", **{**USAGE, "agent": "evil\x1b[2J [red]name[/red]"})
APPROVAL = {"id": "a1", "run": "r1", "tool": "refund", "arguments": {"amount": 20}, "status": "open", "reason": "asks"}


class Muster:
    """Two runs, one of which waits until somebody decides."""

    def __init__(self):
        self.decisions, self.posts, self.refuses = [], [], None

    def __call__(self, request):
        path = request.url.path.removeprefix("/api/v1/")
        if request.method == "POST":
            return self.post(path, json.loads(request.content))
        if path == "runs/":
            live = [] if self.decisions else [RUN]
            return self.page(live if "status__in" in request.url.params else [*live, OTHER])
        if path == "approvals/":
            return self.page([] if self.decisions else [APPROVAL])
        if path.endswith("/stream"):
            called = event(2, "tool.called", name="refund", arguments={"amount": 20})
            return sse(called, delta(0, "Let me [bold]see\x1b[2J"), finished(3, "Let me see. Done."))
        return httpx.Response(200, json=RUN if path == "runs/r1" else OTHER)

    def post(self, path, body):
        self.posts.append(path)
        if self.refuses:
            return self.refuses
        if path.startswith("approvals/"):
            self.decisions.append(body)
            return httpx.Response(200, json={**APPROVAL, "status": "approved"})
        return httpx.Response(200, json=OTHER)

    def page(self, rows):
        return httpx.Response(200, json={"results": rows, "next": None})


@pytest.fixture
def server():
    return Muster()


def screen(server):
    muster = AsyncMuster(URL, KEY, http=httpx.AsyncClient(transport=httpx.MockTransport(server)))
    muster._transport.retries = Retries(limit=0)
    return Top(muster, every=60)


async def settled(app, pilot):
    await pilot.pause()
    await app.workers.wait_for_complete()
    await pilot.pause()


def cells(app, name):
    table = app.query_one(f"#{name}", DataTable)
    return [[cell.plain for cell in table.get_row(key)] for key in table.rows]


def written(app):
    return "\n".join(strip.text.rstrip() for strip in app.query_one("#events", RichLog).lines)


async def test_it_shows_runs_approvals_and_the_events_of_the_chosen_run(server):
    app = screen(server)
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(app, pilot)

        rows = cells(app, "runs")
        assert [row[0] for row in rows] == ["waiting (approval)", "succeeded"] and rows[0][3] == "0.02"
        assert rows[1][1] == "evil[2J [red]name[/red]"
        assert cells(app, "approvals") == [["refund", '{"amount": 20}', "asks"]]
        assert 'refund {"amount": 20}' in written(app) and "succeeded" in written(app)
        assert app.query_one("#reply").content == "Let me see. Done."
        picture = app.export_screenshot()
        assert "Approve" in picture and "\x1b" not in re.sub(r"<[^>]*>", "", picture)


async def test_a_key_approves_the_approval_of_the_chosen_run(server):
    app = screen(server)
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(app, pilot)
        await pilot.press("a")
        await settled(app, pilot)

        assert server.decisions == [{"decision": "approve"}]
        assert cells(app, "approvals") == [] and [row[0] for row in cells(app, "runs")] == ["succeeded"]


async def test_a_denial_asks_for_a_reason_and_escape_leaves_it(server):
    app = screen(server)
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(app, pilot)
        await pilot.press("tab", "tab", "d")
        await pilot.pause()
        await pilot.press("escape")
        await settled(app, pilot)
        assert server.decisions == []
        await pilot.press("d")
        await pilot.pause()
        await pilot.press(*"no", "enter")
        await settled(app, pilot)
        assert server.decisions == [{"decision": "deny", "note": "no"}]


async def test_arguments_can_be_edited_and_must_be_json(server):
    app = screen(server)
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(app, pilot)
        await pilot.press("e")
        await pilot.pause()
        area = app.screen.query_one(TextArea)
        area.text = "{amount"
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert "not JSON" in str(app.screen.query_one("#problem").content) and server.decisions == []
        area.text = '{"amount": 5}'
        await pilot.press("ctrl+s")
        await settled(app, pilot)
        assert server.decisions == [{"decision": "approve", "arguments": {"amount": 5}}]


async def test_a_refused_decision_is_shown_and_nothing_else_changes(server):
    server.refuses = error(403, "forbidden")
    app = screen(server)
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(app, pilot)
        await pilot.press("a")
        await settled(app, pilot)
        assert any("forbidden" in one.message for one in app._notifications)
        assert cells(app, "approvals")


async def test_runs_are_cancelled_and_started_again(server):
    app = screen(server)
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(app, pilot)
        await pilot.press("c")
        await settled(app, pilot)
        await pilot.press("down", "t")
        await settled(app, pilot)
        assert server.posts == ["runs/r1/cancel", "runs/r2/retry"]


async def test_new_runs_come_first_and_the_cursor_stays_on_its_run(server):
    app = screen(server)
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(app, pilot)
        await pilot.press("down")
        await settled(app, pilot)
        assert app.followed == "r2"
        new = run("r0", status="running", **{**USAGE, "finished_at": None})
        server.page = lambda rows: httpx.Response(
            200, json={"results": [new, *rows], "next": None} if rows != [APPROVAL] else {"results": rows, "next": None}
        )
        await pilot.press("f5")
        await settled(app, pilot)
        assert [row[-1] for row in cells(app, "runs")] == ["r0", "r1", "r2"]
        assert app.chosen("runs") == app.followed == "r2"


async def test_a_server_that_is_away_is_said_in_the_title():
    def away(request):
        raise httpx.ConnectError("refused")

    app = screen(away)
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(app, pilot)
        assert "cannot be reached" in app.sub_title
        await pilot.press("a", "d", "c", "t")  # nothing is chosen, and nothing breaks
        await settled(app, pilot)
