"""`manage.py serve`: starts everything Muster needs under one supervisor, until Ctrl-C."""

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from supervisor import greeting, options, postgres, preparation, programs, refusals, valkey
from supervisor.logs import say
from supervisor.supervision import Child, Notify, StartFailed, Supervision


class Command(BaseCommand):
    help = "Start web server and worker, and embedded servers where no others are configured."
    requires_system_checks = []  # `make check` runs them; here they would take a third of the start-up time

    def add_arguments(self, parser: CommandParser) -> None:
        options.add_to(parser)

    def handle(self, *args: Any, **given: Any) -> None:
        started = time.monotonic()
        try:
            refusals.check_machine()
            refusals.check_host(settings.HOST)
            runs_as_nobody = settings.EMBEDDED_POSTGRES and os.geteuid() == 0
            refusals.check_data_dir(settings.DATA_DIR, for_nobody=runs_as_nobody)
            refusals.raise_descriptor_limit()
            address = f"http://{settings.HOST}:{settings.PORT}"
            if given["only"]:
                refusals.check_external(embedded=settings.EMBEDDED_VALKEY or settings.EMBEDDED_POSTGRES)
            if not settings.EMBEDDED_VALKEY:
                queue = {"QUEUE_URL": settings.QUEUE_URL} if settings.CARRIER == "list" else {}
                refusals.check_no_cluster(**queue, CHANNEL_URL=settings.CHANNEL_URL, CACHE_URL=settings.CACHE_URL)
            lock = 0 if given["only"] else refusals.lock(settings.DATA_DIR, address)
            line = None if given["only"] == "worker" else refusals.listen(settings.HOST, settings.PORT)
        except refusals.Refusal as refusal:
            sys.exit(f"muster: {refusal}")
        gc.collect()
        gc.freeze()  # forked children share the loaded memory as long as it is not written to
        supervision = Supervision(None if given["only"] else settings.DATA_DIR / "logs")
        try:
            if given["only"]:
                supervision.start(program(given["only"], line))
                say(f"muster: {given['only']} is ready" + (f" at {address}" if line else ""))
                supervision.watch()
            else:
                start_all(supervision, line, lock)
            if not supervision.stopping:
                took = time.monotonic() - started
                supervision.do(partial(greeting.greet, address, took, speak=not given["no_greeting"]))
                supervision.watch()
            say("muster: stopping")
        except StartFailed as failure:
            sys.exit(f"muster: {failure}")
        finally:
            if line:
                line.close()  # a proxy then sends new requests to another web server
            supervision.stop()


def start_all(supervision: Supervision, line: Any, lock: int) -> None:
    """Servers first, then the database's preparation, then the programs that use both."""
    supervision.start(*embedded_servers(lock))
    if supervision.stopping or preparation.is_done():
        pass
    elif code := supervision.do(preparation.prepare):
        sys.exit(code)
    if not supervision.stopping:
        supervision.start(program("worker", line), program("web", line))


def program(name: str, line: Any) -> Child:
    """One of ours. A stopping worker finishes what it has begun, and a web server its requests, for DRAIN_S."""
    if name == "worker":
        return Child(name, programs.work, patience=1.2 + settings.DRAIN_S)
    work = partial(programs.serve_web, line)
    return Child(name, work, patience=0.6 + settings.DRAIN_S, title="muster web (daphne)")


def embedded_servers(lock: int) -> list[Child]:
    """The embedded servers in use. They hold the lock: no other `serve` may start while one of them
    still writes.
    """
    servers = []
    if settings.EMBEDDED_VALKEY:
        at = settings.VALKEY_SOCKET
        become = valkey.command(settings.DATA_DIR / "valkey", at)
        servers.append(server("valkey", become, partial(valkey.is_ready, at), signal.SIGTERM, lock))
    if settings.EMBEDDED_POSTGRES:
        cluster = postgres.prepare(settings.DATA_DIR)
        become = postgres.command(cluster)
        servers.append(server("postgres", become, partial(postgres.is_ready, cluster), signal.SIGINT, lock))
    return servers


def server(name: str, become: Callable[[], None], answers: Callable[[], bool], stop_signal: int, lock: int) -> Child:
    def become_with_lock(_notify: Notify) -> None:
        os.set_inheritable(lock, True)
        become()

    return Child(name, become_with_lock, stop_signal=stop_signal, death_signal=stop_signal, answers=answers)
