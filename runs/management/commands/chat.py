"""Talk to an agent from the terminal."""

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from agents.exceptions import MusterError
from agents.names import normal_name
from plumbing.broker import broadcast
from runs.events import stream
from runs.events.frames import Frame
from runs.events.stored import iterate_stored_events
from runs.intake import messages as intake
from runs.models import Session
from runs.worker import runner


class Command(BaseCommand):
    help = (
        "Talk to an agent; each line is a message, Ctrl-D ends. Runs are executed in this process: no worker is needed."
    )

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("agent", help="Its name.")
        parser.add_argument(
            "--user", help="User whose devices, accounts and budgets are used; default: the first administrator."
        )
        parser.add_argument("--message", help="Send this one message, print the reply, and stop.")
        parser.add_argument("--session", help="Continue this session.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not broadcast.is_reachable():
            # A missing broker does not matter here.
            logging.getLogger("runs.queue").setLevel(logging.ERROR)
        user = self.person(options["user"])
        session = options["session"]
        if options["message"]:
            self.exchange(user, options["agent"], options["message"], session)
            return
        self.stdout.write(f"Talking to {options['agent']}. Ctrl-D ends.")
        while (line := self.read_line()) is not None:
            if line.strip():
                session = self.exchange(user, options["agent"], line, session)

    def person(self, name: str | None) -> Any:
        users = get_user_model().objects.filter(is_active=True)
        if name:
            candidates = users.filter(normal_name=normal_name(name))
            problem = f"There is no user “{name}”."
        else:
            candidates = users.filter(is_superuser=True).order_by("pk")
            problem = "There is no administrator yet; name one with --user."
        user = candidates.first()
        if user is None:
            raise CommandError(problem)
        return user

    def read_line(self) -> str | None:
        try:
            if sys.stdin.isatty():
                return input("> ")
            return next(sys.stdin, None)
        except (EOFError, KeyboardInterrupt):
            return None

    def exchange(self, user: Any, agent: str, text: str, session: Session | str | None) -> Session:
        """One message and its reply; tool calls are shown as they happen."""
        try:
            acceptance = intake.accept_message(
                user=user, text=text, agent=agent, session=session, trigger="manual", is_watched=True
            )
        except MusterError as error:
            raise CommandError(f"{error} {error.hint}".strip())
        run_id = str(acceptance.run.pk)
        if broadcast.is_reachable():
            # The events are shown here while another thread makes them.
            work = threading.Thread(target=execute_run_here, args=(run_id,))
            work.start()
            asyncio.run(self.show(stream.in_batches(acceptance.run)))
            work.join()
        else:
            # Nothing is served here: execute first, then print what happened.
            runner.execute_run(run_id)
            asyncio.run(self.show(iterate_stored_events(acceptance.run.pk, 0)))
        return acceptance.session

    async def show(self, batches: AsyncIterator[list[Frame]]) -> None:
        # Characters of the reply that were printed as it was written.
        wrote = 0
        async for frame in (frame async for batch in batches for frame in batch):
            data = frame.data
            match frame.type:
                case "message.delta":
                    wrote += len(data["text"])
                    self.stdout.write(data["text"], ending="")
                    self.stdout.flush()
                case "tool.called":
                    self.stdout.write(f"\n[{data['name']} {data['arguments']}]")
                    wrote = 0
                case "tool.finished" | "tool.denied":
                    outcome = data.get("result") or data.get("error") or data.get("reason")
                    self.stdout.write(f"[→ {outcome}]")
                case "run.waiting":
                    self.stdout.write(f"\n[waits for {data['waiting_for']}]")
                    return
                case "run.finished":
                    self.show_end(data, is_written=bool(wrote))

    def show_end(self, data: dict[str, Any], *, is_written: bool) -> None:
        """The reply, unless it was printed as it was written, and what went wrong."""
        reply = (data.get("reply") or {}).get("text", "")
        # An empty text ends the line of a reply that was printed piece by piece.
        self.stdout.write("" if is_written else reply)
        if data.get("error"):
            self.stdout.write(f"[{data['status']}: {data['error']['message']}]")


def execute_run_here(run_id: str) -> None:
    """The claim decides: if a worker was faster, nothing happens here."""
    try:
        runner.execute_run(run_id)
    finally:
        connections.close_all()
