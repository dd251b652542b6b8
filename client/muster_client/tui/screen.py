"""Live runs, the events of one of them, and the approvals that wait, on one screen."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from rich.text import Text as Line
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Footer, Header, RichLog, Static

from .._async.client import AsyncMuster
from .._async.questions import AsyncApproval
from .._async.runs import AsyncRun
from ..cli.output import STYLES, clean, compact, line
from ..cli.watching import describe_event
from ..errors import MusterError
from ..events import Text
from .questions import Arguments, Reason
from .rows import APPROVALS, RUNS, approval_cells, run_cells

LIVE = "queued,running,waiting"
MOST = 100


class Top(App[None]):
    """Reads the lists every few seconds, and follows the chosen run's events as they happen."""

    TITLE = "muster"
    CSS = """
    #runs { height: 1fr; border: round $primary; }
    #below { height: 1fr; }
    #detail { width: 3fr; border: round $primary; }
    #events { height: 1fr; }
    #reply { height: auto; max-height: 8; padding: 0 1; color: $success; }
    #approvals { width: 2fr; height: 1fr; border: round $warning; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "approve", "Approve"),
        Binding("d", "deny", "Deny"),
        Binding("e", "edit", "Edit and approve"),
        Binding("c", "cancel", "Cancel run"),
        Binding("t", "retry", "Retry run"),
        Binding("f5", "look", "Refresh"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, muster: AsyncMuster, *, every: float = 1.0) -> None:
        super().__init__()
        self.muster = muster
        self.every = max(0.2, every)
        self.runs: dict[str, AsyncRun] = {}
        self.approvals: dict[str, AsyncApproval] = {}
        self.followed: str | None = None

    def compose(self) -> ComposeResult:
        yield Header()
        yield DataTable(id="runs", cursor_type="row")
        with Horizontal(id="below"):
            with Vertical(id="detail"):
                yield RichLog(id="events", wrap=True, max_lines=2000)
                yield Static("", id="reply", markup=False)
            yield DataTable(id="approvals", cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        self.sub_title = self.muster.url
        for name, columns, title in (("runs", RUNS, "Runs"), ("approvals", APPROVALS, "Waiting for you")):
            table = self.table(name)
            table.border_title = title
            for key in columns:
                table.add_column(key, key=key)
        self.query_one("#detail").border_title = "Events"
        self.table("runs").focus()
        self.action_look()
        self.set_interval(self.every, self.action_look)

    def table(self, name: str) -> DataTable[Line]:
        return self.query_one(f"#{name}", DataTable)

    # Looking

    @work(exclusive=True, group="look")
    async def action_look(self) -> None:
        """Live runs first, then the newest ones."""
        try:
            live = await self.muster.runs.list(status__in=LIVE).take(MOST)
            newest = await self.muster.runs.list().take(20)
            waiting = await self.muster.approvals.list().take(MOST)
        except MusterError as error:
            self.sub_title = f"{self.muster.url}: {line(error, 120)}"
            return
        self.sub_title = self.muster.url
        finished = [run for run in newest if run.is_finished]
        self.runs = {run.id: run for run in live + finished}
        self.approvals = {approval.id: approval for approval in waiting}
        fill(self.table("runs"), {id: run_cells(run) for id, run in self.runs.items()})
        fill(self.table("approvals"), {id: approval_cells(one) for id, one in self.approvals.items()})
        if self.followed is None and self.runs:
            self.show_run(next(iter(self.runs)))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """The chosen run, or the run of the chosen approval, is followed."""
        if event.row_key.value is None:
            return
        key = event.row_key.value
        run = key
        if event.data_table.id == "approvals":
            run = self.approvals[key].run
        if event.data_table.has_focus and run != self.followed:
            self.show_run(run)

    def show_run(self, run: str) -> None:
        self.followed = run
        self.follow(run)

    @work(exclusive=True, group="follow")
    async def follow(self, run: str) -> None:
        log = self.query_one("#events", RichLog)
        reply = self.query_one("#reply", Static)
        log.clear()
        reply.update("")
        self.query_one("#detail").border_title = f"Events of {run}"
        text = Text()
        try:
            async with (await self.muster.runs.get(run)).stream() as stream:
                async for event in stream:
                    if text.add(event):
                        reply.update(clean(text.written)[-2000:])
                    words = describe_event(event).strip()
                    if words:
                        time_of_day = (event.at or "")[11:19]
                        log.write(Line(f"{time_of_day} {clean(words)}"))
                log.write(Line(str(stream.status), style=STYLES.get(str(stream.status), "")))
                if stream.reply:
                    reply.update(clean(stream.reply)[-2000:])
        except MusterError as error:
            log.write(Line(clean(error), style="red"))

    # Deciding

    def chosen(self, name: str) -> str | None:
        """The id in the row under the cursor."""
        table = self.table(name)
        if not table.row_count:
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    def approval(self) -> AsyncApproval | None:
        """The one under the cursor of the approvals; else the first one of the chosen run."""
        if self.table("approvals").has_focus:
            return self.approvals.get(self.chosen("approvals") or "")
        run = self.chosen("runs")
        return next((one for one in self.approvals.values() if one.run == run), None)

    def action_approve(self) -> None:
        if approval := self.find_needed_approval():
            self.carry_out(lambda: approval.approve(), f"{approval.tool}: approved")

    def action_deny(self) -> None:
        if approval := self.find_needed_approval():

            def decide(reason: str | None) -> None:
                if reason is not None:
                    self.carry_out(lambda: approval.deny(note=reason), f"{approval.tool}: denied")

            self.push_screen(Reason(f"Deny {line(approval.tool)} {compact(approval.arguments, 200)}"), decide)

    def action_edit(self) -> None:
        if approval := self.find_needed_approval():

            def decide(arguments: dict[str, Any] | None) -> None:
                if arguments is not None:
                    self.carry_out(lambda: approval.approve(arguments=arguments), f"{approval.tool}: approved")

            self.push_screen(Arguments(approval.tool, approval.arguments), decide)

    def find_needed_approval(self) -> AsyncApproval | None:
        approval = self.approval()
        if approval is None:
            self.notify("No approval is chosen, and the chosen run waits for none.", severity="warning")
        return approval

    def action_cancel(self) -> None:
        if run := self.runs.get(self.chosen("runs") or ""):
            self.carry_out(lambda: run.cancel(), f"{run.id}: cancelled")

    def action_retry(self) -> None:
        if run := self.runs.get(self.chosen("runs") or ""):
            self.carry_out(lambda: run.retry(), f"{run.id}: started again")

    @work(group="act")
    async def carry_out(self, call: Callable[[], Coroutine[Any, Any, Any]], done: str) -> None:
        try:
            await call()
        except MusterError as error:
            self.notify(line(error), severity="error", markup=False)
        else:
            self.notify(line(done), markup=False)
        self.action_look()


def fill(table: DataTable[Line], rows: dict[str, list[Line]]) -> None:
    """The rows in this order. The cursor stays on its row, and nothing is followed anew."""
    present = [key.value for key in table.rows]
    if present != list(rows):
        replace_rows(table, rows)
        return
    for key, cells in rows.items():
        for column, cell in zip(list(table.columns), cells, strict=True):
            if table.get_cell(key, column) != cell:
                table.update_cell(key, column, cell, update_width=True)


def replace_rows(table: DataTable[Line], rows: dict[str, list[Line]]) -> None:
    chosen = None
    if table.row_count:
        chosen = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
    with table.prevent(DataTable.RowHighlighted):
        table.clear()
        for key, cells in rows.items():
            table.add_row(*cells, key=key)
        if chosen in rows:
            table.move_cursor(row=list(rows).index(chosen))
