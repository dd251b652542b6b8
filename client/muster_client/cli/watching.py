"""Prints the events of a run as they happen, and asks the person what the run waits for."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

import click

from .._sync.client import Muster
from .._sync.stream import Stream
from ..errors import APIError
from ..events import Event, Text
from .app import INTERRUPTED, RUN_FAILED, WAITS
from .output import compact, note, print_json, say

GOOD = frozenset({"succeeded"})
WIDTH = 160


@dataclass
class Watcher:
    """`asks`: whether there is a person at the terminal who can decide and answer."""

    muster: Muster
    json: bool = False
    asks: bool = field(default_factory=lambda: sys.stdin.isatty() and sys.stderr.isatty())
    cancels: bool = False
    is_quiet: bool = False
    text: Text = field(default_factory=Text)
    at_start: bool = True

    def watch(self, opened: Stream) -> int:
        """The exit code. Ctrl-C ends the watching; the run goes on, unless `cancels` is set."""
        with opened as stream:
            try:
                for event in stream:
                    self.show(event)
                    if not self.asks and asks_a_person(event) and self.still_waits(stream):
                        self.end_line()
                        note(f"The run waits for a person: muster approvals; muster runs watch {stream.run}")
                        return WAITS
            except KeyboardInterrupt:
                return self.leave(stream)
        return 0 if stream.status in GOOD else RUN_FAILED

    def still_waits(self, stream: Stream) -> bool:
        """The event may be an old one, since a stream begins with what has happened so far."""
        return self.muster.runs.get(str(stream.run)).status == "waiting"

    def leave(self, stream: Stream) -> int:
        """What Ctrl-C does; the exit code."""
        self.end_line()
        if self.cancels and stream.run:
            self.muster.runs.get(stream.run).cancel("interrupted at the terminal")
            note("The run was cancelled.")
        else:
            note(f"The run goes on. To watch it: muster runs watch {stream.run}")
            note(f"To stop it: muster runs cancel {stream.run}")
        return INTERRUPTED

    def show(self, event: Event) -> None:
        if self.json:
            print_json(asdict(event), lines=True)
        else:
            self.write(event)
        if self.asks and event.type in ("approval.requested", "input.requested"):
            self.end_line()
            ask = self.decide if event.type == "approval.requested" else self.answer
            try:
                ask(event.data)
            except APIError as error:
                note(f"muster: {error}")

    def write(self, event: Event) -> None:
        """Text as it comes; for other events a line on standard error, so that a pipe has the reply alone."""
        if piece := self.text.add(event):
            say(piece, end="")
            self.at_start = piece.endswith("\n")
        elif not self.is_quiet and (words := describe_event(event)):
            self.end_line()
            note(words)
        if event.is_last:
            self.finish(event.data)

    def finish(self, data: dict[str, Any]) -> None:
        """The reply is printed unless the person has read it as it was written; hooks may have changed it."""
        answer = data.get("reply") or {}
        reply = str(answer.get("text") or "")
        if reply and reply.strip() != self.text.written.strip():
            self.end_line()
            say(reply)
            self.at_start = True
        self.end_line()
        if error := data.get("error"):
            note(f"{data.get('status')}: {error.get('message')} ({error.get('code')})")

    def end_line(self) -> None:
        if not self.at_start:
            say()
            self.at_start = True

    def decide(self, data: dict[str, Any]) -> None:
        """Approve, edit, deny, or leave it to somebody else."""
        approval = self.muster.approvals.get(str(data["id"]))
        if approval.status != "open":
            return
        note(f"{approval.tool} {compact(approval.arguments)}")
        if reason := approval.data.get("reason"):
            note(str(reason))
        chosen = click.prompt(
            "Approve? [y]es, [n]o, [e]dit the arguments, [l]ater", type=click.Choice(["y", "n", "e", "l"]),
            show_choices=False, err=True,
        )  # fmt: skip
        if chosen == "y":
            approval.approve()
        elif chosen == "n":
            approval.deny(note=click.prompt("Reason", default="", show_default=False, err=True))
        elif chosen == "e":
            edited = edit_arguments(approval.arguments)
            if edited is not None:
                approval.approve(arguments=edited)

    def answer(self, data: dict[str, Any]) -> None:
        """An empty answer declines."""
        if data.get("kind") != "form":
            return
        request = self.muster.inputs.get(str(data["id"]))
        if request.status != "open":
            return
        note(request.prompt or request.name)
        text = click.prompt("Answer (empty to decline)", default="", show_default=False, err=True)
        if text:
            request.answer(convert_answer(text, request.schema))
        else:
            request.decline()


def asks_a_person(event: Event) -> bool:
    return event.type == "run.waiting" and event.data.get("waiting_for") in ("approval", "input")


def edit_arguments(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """In the editor of the person; None if nothing was saved."""
    text = click.edit(json.dumps(arguments, indent=2, ensure_ascii=False), extension=".json")
    if text is None:
        note("Nothing was changed, so nothing was decided.")
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        note(f"This is not JSON, so nothing was decided: {error}")
        return None
    return value if isinstance(value, dict) else None


def convert_answer(text: str, schema: dict[str, Any]) -> Any:
    """What the schema wants: a text as it is, anything else as JSON."""
    properties = schema.get("properties") or {}
    if schema.get("type") == "object" and len(properties) == 1:
        [(name, property_schema)] = properties.items()
        if not isinstance(property_schema, dict):
            property_schema = {}
        return {name: convert_answer(text, property_schema)}
    if schema.get("type") in (None, "string"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def describe_event(event: Event) -> str:
    """One line for a person; empty for events that say nothing new."""
    data = event.data
    match event.type:
        case "run.routed":
            return f"→ {data.get('agent')}: {data.get('reason')}"
        case "tool.called":
            return f"· {data.get('name')} {compact(data.get('arguments'), WIDTH)}"
        case "tool.finished":
            return f"  {data.get('outcome')}: {compact(data.get('error') or data.get('result'), WIDTH)}"
        case "tool.denied":
            return f"  denied: {data.get('reason')}"
        case "tool.log" | "tool.progress" | "run.progress":
            return f"  {data.get('message')}"
        case "approval.requested":
            return f"? {data.get('tool')} needs approval ({data.get('id')})"
        case "approval.decided":
            reason = f": {data['note']}" if data.get("note") else ""
            return f"  {data.get('status')}{reason}"
        case "input.requested":
            return f"? {data.get('prompt') or data.get('name')} ({data.get('id')})"
        case "child.started":
            return f"· started {data.get('agent') or data.get('chain')} ({data.get('run')})"
        case "step.started" | "step.finished" | "step.waiting":
            return f"· step {data.get('key')} {data.get('status') or event.type.partition('.')[2]}"
        case "model.failed":
            return f"! the model failed: {data.get('message')}"
        case "stuck.warned":
            return f"! {data.get('reason')}"
        case "run.waiting":
            return f"… waits for {data.get('waiting_for')}"
        case "run.recovered":
            return "! a worker died and another one continues"
    return ""
