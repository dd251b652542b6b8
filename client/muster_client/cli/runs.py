"""Runs, approvals, and the log of live events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from .._sync.client import Muster
from .._sync.questions import Approval
from .._sync.runs import Run
from ..events import Event
from .app import OBJECT, RUN_FAILED, App, json_option, pass_app, stop
from .output import clean, compact, line, note, print_json, print_table, say
from .shown import format_run_seconds
from .watching import GOOD, Watcher, describe_event

COLUMNS = ("id", "status", "who", "started", "seconds", "cost")
LIVE = "queued,running,waiting"


@click.group()
def runs() -> None:
    """List, watch, cancel and retry runs."""


@runs.command("list")
@click.option("--status", help="For example running, waiting, failed; several with commas.")
@click.option("--agent", help="An agent's name.")
@click.option("--chain", help="A chain's name.")
@click.option("--live", is_flag=True, help="Those that have not ended.")
@click.option("-n", "--limit", default=20, show_default=True, help="At most so many.")
@json_option
@pass_app
def list_runs(app: App, status: str | None, agent: str | None, chain: str | None, live: bool, limit: int) -> None:
    """The newest runs."""
    filters = {"status__in": LIVE if live else status, "agent": agent, "chain": chain}
    newest = app.muster.runs.list(**filters).take(limit)
    if app.json:
        print_json([run.data for run in newest])
    else:
        print_table((build_row(run) for run in newest), COLUMNS)


def build_row(run: Run) -> dict[str, Any]:
    data = run.data
    start = data.get("started_at") or data.get("created_at") or ""
    return {
        "id": run.id,
        "status": run.status,
        "who": data.get("agent") or data.get("chain") or "",
        "started": start[:19].replace("T", " "),  # without parts of a second and the zone, UTC
        "seconds": format_run_seconds(data),
        "cost": data["usage"]["cost"],
    }


@runs.command()
@click.argument("run_id", metavar="RUN")
@json_option
@pass_app
def show(app: App, run_id: str) -> None:
    """One run: status, reply, error, tool calls."""
    run = app.muster.runs.get(run_id)
    calls = list(run.tool_calls())
    if app.json:
        print_json({**run.data, "tool_calls": calls})
        return
    rows = {**build_row(run), "input": run.data.get("input"), "output": run.output}
    for name, value in rows.items():
        if value not in (None, "", {}):
            say(f"{name + ':':10}{compact(value)}")
    for call in calls:
        outcome = call.get("outcome") or "at work"
        say(f"{'call:':10}{call['name']} {compact(call.get('arguments'))} {outcome}")
    if error := run.error:
        say(f"{'error:':10}{error['message']} ({error['code']})", style="red")


@runs.command()
@click.argument("run")
@click.option("--after", default=0, help="Begin after this event number.")
@click.option("--cancel-on-interrupt", is_flag=True, help="Ctrl-C also stops the run.")
@click.option("--no-ask", is_flag=True, help="Do not ask for approvals and answers.")
@json_option
@pass_app
def watch(app: App, run: str, after: int, cancel_on_interrupt: bool, no_ask: bool) -> None:
    """Follow a run to its end. Ctrl-C ends the watching, not the run."""
    watcher = Watcher(app.muster, json=app.json, cancels=cancel_on_interrupt)
    watcher.asks = watcher.asks and not no_ask
    stream = app.muster.runs.get(run).stream(after=after)
    stop(watcher.watch(stream))


@runs.command()
@click.argument("run", nargs=-1, required=True)
@click.option("--reason", default="", help="Shown in the run.")
@pass_app
def cancel(app: App, run: tuple[str, ...], reason: str) -> None:
    """Stop runs and their children."""
    for one in run:
        cancelled = app.muster.runs.get(one).cancel(reason)
        note(f"{cancelled.id}: cancelled")


@runs.command()
@click.argument("run")
@click.option("--step", help="The step from which a chain continues; default: the one that failed.")
@click.option("--input", type=OBJECT, help="Replaces the input; JSON, or @file.")
@click.option("--live", is_flag=True, help="Use the agent's present version.")
@click.option("--watch", "follow", is_flag=True, help="Follow the new run.")
@json_option
@pass_app
def retry(app: App, run: str, step: str | None, input: Any, live: bool, follow: bool) -> None:
    """Start a new run in place of one that has ended, and print its id."""
    new = app.muster.runs.get(run).retry(step=step, input=input, live=live or None)
    if follow:
        watcher = Watcher(app.muster, json=app.json)
        stop(watcher.watch(new.stream()))
    if app.json:
        print_json(new.data)
    else:
        say(new.id)


@runs.command()
@click.argument("run")
@click.option("--timeout", type=float, help="Give up after so many seconds (exit code 4).")
@json_option
@pass_app
def wait(app: App, run: str, timeout: float | None) -> None:
    """Wait for the end of a run, silently. Exit code 0 if it succeeded, else 3."""
    ended = app.muster.runs.get(run).wait(timeout)
    if app.json:
        print_json(ended.data)
    else:
        say(ended.status)
    stop(0 if ended.status in GOOD else RUN_FAILED)


@click.group(invoke_without_command=True)
@click.option("--run", help="Of this run alone.")
@click.option("--all", "every", is_flag=True, help="Decided ones too.")
@json_option
@click.pass_context
def approvals(context: click.Context, run: str | None, every: bool) -> None:
    """Tool calls that wait for a person's decision."""
    if context.invoked_subcommand:
        return
    app = context.ensure_object(App)
    states = ["open", "approved", "denied", "expired"] if every else [None]
    listed: list[Approval] = []
    for status in states:
        listed.extend(app.muster.approvals.list(run=run, status=status))
    if app.json:
        print_json([approval.data for approval in listed])
        return
    columns = ("id", "status", "tool", "arguments", "reason", "expires_at")
    rows = [{**approval.data, "arguments": compact(approval.arguments, 60)} for approval in listed]
    print_table(rows, columns)


@approvals.command()
@click.argument("approval", nargs=-1, required=True)
@click.option("--arguments", type=OBJECT, help="Call with these arguments instead; JSON, or @file.")
@click.option("--note", "words", default="", help="Kept with the decision.")
@json_option
@pass_app
def approve(app: App, approval: tuple[str, ...], arguments: Any, words: str) -> None:
    """Let tool calls be made. The key needs the scope approvals:decide."""
    if arguments is not None and len(approval) > 1:
        raise click.UsageError("--arguments belong to one approval.")
    for one in approval:
        decided = app.muster.approvals.get(one).approve(arguments=arguments, note=words)
        print_decision(app, decided)


@approvals.command()
@click.argument("approval", nargs=-1, required=True)
@click.option("--note", "words", default="", help="The reason, which the agent is given.")
@json_option
@pass_app
def deny(app: App, approval: tuple[str, ...], words: str) -> None:
    """Refuse tool calls; the agents continue without them."""
    for one in approval:
        decided = app.muster.approvals.get(one).deny(note=words)
        print_decision(app, decided)


def print_decision(app: App, approval: Approval) -> None:
    if app.json:
        print_json(approval.data, lines=True)
    else:
        note(f"{approval.tool}: {approval.status}")


@click.command()
@click.option("--agent", help="Of this agent's runs alone.")
@click.option("--run", help="Of this run alone.")
@click.option("--once", is_flag=True, help="Print what there is and end.")
@click.option("--every", default=1.0, show_default=True, help="Seconds between two looks at the runs.")
@json_option
@pass_app
def logs(app: App, agent: str | None, run: str | None, once: bool, every: float) -> None:
    """The events of your live runs, as they happen, until Ctrl-C."""
    seen: dict[str, int] = {}
    while True:
        for one, event in news(app.muster, seen, {"agent": agent}, run):
            print_event(app, one, event)
        if once or (run and run not in seen):
            return
        time.sleep(max(0.2, every))


def news(
    muster: Muster, seen: dict[str, int], filters: dict[str, Any], only: str | None
) -> Iterator[tuple[Run, Event]]:
    """Events that were not read yet, of live runs and of those that ended since the last look."""
    if only:
        current = [muster.runs.get(only)]
    else:
        current = muster.runs.list(status__in=LIVE, **filters).take(100)
    live = {run.id: run for run in current}
    # A run that has ended since is not in the list; its last events are still to be read.
    gone = [muster.runs.get(id) for id in seen if id not in live]
    for run in [*live.values(), *gone]:
        after = seen.get(run.id, 0)
        for event in run.events(after=after):
            after = event.seq or after
            yield run, event
        seen[run.id] = after
        if run.is_finished:
            del seen[run.id]


def print_event(app: App, run: Run, event: Event) -> None:
    if app.json:
        row = {"run": run.id, "seq": event.seq, "type": event.type, "at": event.at, "data": event.data}
        print_json(row, lines=True)
        return
    who = run.data.get("agent") or run.data.get("chain") or ""
    words = clean(describe_event(event)).strip() or describe_ending(event)
    time_of_day = (event.at or "")[11:19]
    say(f"{time_of_day} {run.id[:13]} {who:20.20} {event.type:18} {line(words)}".rstrip())


def describe_ending(event: Event) -> str:
    """What a run or a turn of its model ended with; empty for other events."""
    data = event.data
    if event.is_last:
        error = data.get("error") or {}
        return str(error.get("message") or data.get("status"))
    if event.type == "model.finished":
        return compact(data.get("text") or "", 100)
    return ""


COMMANDS = (runs, approvals, logs)
