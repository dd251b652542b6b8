"""`manage.py serve`: starts everything Muster needs under one supervisor, until Ctrl-C."""

import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from supervisor import greeting, handover, options, postgres, preparation, programs, refusals
from supervisor.logs import print_if_open
from supervisor.supervision import Child, StartFailed, Supervision


class Command(BaseCommand):
    help = "Start web server and worker, and embedded servers where no others are configured."
    requires_system_checks = []  # `make check` runs them; here they would take a third of the start-up time

    def add_arguments(self, parser: CommandParser) -> None:
        options.add_serve_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        started = time.monotonic()
        try:
            refusals.check_machine()
            refusals.check_host(settings.HOST)
            runs_as_nobody = settings.EMBEDDED_POSTGRES and os.geteuid() == 0
            refusals.check_data_dir(settings.DATA_DIR, for_nobody=runs_as_nobody)
            refusals.raise_descriptor_limit()
            address = f"http://{settings.HOST}:{settings.PORT}"
            if options["only"]:
                refusals.check_external(embedded=settings.EMBEDDED_VALKEY or settings.EMBEDDED_POSTGRES)
            if not settings.EMBEDDED_VALKEY:
                queue = {"QUEUE_URL": settings.QUEUE_URL} if settings.CARRIER == "list" else {}
                refusals.check_clusters(**queue, CHANNEL_URL=settings.CHANNEL_URL, CACHE_URL=settings.CACHE_URL)
            lock = 0 if options["only"] else refusals.lock_data_directory(settings.DATA_DIR, address)
            line = None if options["only"] == "worker" else refusals.listen(settings.HOST, settings.PORT)
        except refusals.Refusal as refusal:
            sys.exit(f"muster: {refusal}")
        gc.collect()
        gc.freeze()  # forked children share the loaded memory as long as it is not written to
        place = describe_place(line, lock, only=options["only"])
        supervision = Supervision(Path(place.logs) if place.logs else None)
        try:
            if options["only"]:
                do_first(supervision, preparation.check_tables)
                supervision.start(program(options["only"], line))
                print_if_open(f"muster: {options['only']} is ready" + (f" at {address}" if line else ""))
            else:
                start_all(supervision, place, line)
            if not supervision.stopping and not options["only"]:
                took = time.monotonic() - started
                supervision.do(partial(greeting.greet, address, took, speak=not options["no_greeting"]))
            supervision.watch(until=supervision.is_settled)
            handover.become_small(supervision, place)
            supervision.watch()
            print_if_open("muster: stopping")
        except StartFailed as failure:
            sys.exit(f"muster: {failure}")
        finally:
            if line:
                line.close()  # a proxy then sends new requests to another web server
            supervision.stop()


def describe_place(line: Any, lock: int, *, only: str | None) -> handover.Place:
    """What the small supervisor needs of the settings."""
    return handover.Place(
        line=line.fileno() if line else -1,
        lock=lock,
        logs="" if only else str(settings.DATA_DIR / "logs"),
        data_dir=str(settings.DATA_DIR),
        valkey=str(settings.VALKEY_SOCKET) if settings.EMBEDDED_VALKEY else "",
        drain_s=settings.DRAIN_S,
    )


def start_all(supervision: Supervision, place: handover.Place, line: Any) -> None:
    """Servers first, then the database's preparation, then the programs that use both."""
    supervision.start(*embedded_servers(place))
    if not supervision.stopping and not preparation.is_done():
        do_first(supervision, preparation.prepare_site)
    if not supervision.stopping:
        supervision.start(program("worker", line), program("web", line))


def do_first(supervision: Supervision, work: Callable[[], None]) -> None:
    """What the programs need. Its failure is that of the start, and it has said why."""
    if code := supervision.do(work):
        sys.exit(code)


def program(name: str, line: Any) -> Child:
    """One of ours, forked with what this process has loaded."""
    return handover.program(
        name, programs.run_worker if name == "worker" else partial(programs.serve_web, line), settings.DRAIN_S
    )


def embedded_servers(place: handover.Place) -> list[Child]:
    """The embedded servers in use."""
    if settings.EMBEDDED_POSTGRES:
        postgres.prepare_cluster(settings.DATA_DIR)
    names = {"valkey": settings.EMBEDDED_VALKEY, "postgres": settings.EMBEDDED_POSTGRES}
    return [handover.server(name, place) for name, is_ours in names.items() if is_ours]
