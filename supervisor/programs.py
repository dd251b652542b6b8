"""Muster's own processes are of one kind: a run pool, and a web server beside it if there is a port. `serve` runs in
a forked child.
"""

import gc
import signal
import socket
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from django.conf import settings
from django.urls import get_resolver
from django.utils.module_loading import import_string

from . import alive, processes
from .supervision import Notify, call_rescue

# Rows and JSON make many short-lived objects and few cycles: collecting after every 700 took a sixth of the CPU.
GARBAGE = (50_000, 20, 50)
M_ARENA_MAX, ARENAS = -8, 2  # of mallopt(3)
HANDSHAKE_S = 12  # seconds until a WebSocket handshake must be accepted; clients wait a little longer


def serve(role: str, line: socket.socket | None, notify: Notify) -> None:
    """One process, until SIGTERM. The roles: “web” with a port, “worker” without one, “rescue” without one for suspects
    alone (`runs/worker/process.py`), which ends when none are left.
    """
    spare_memory()
    if line is not None:
        serve_web(line, make_pool(role, call_rescue), notify)
        return
    requests: SimpleQueue[None] = SimpleQueue()  # unlike an Event, a signal handler may interrupt it
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: requests.put(None))
    pool = make_pool(role, lambda: requests.put(None))
    if role == "worker":
        alive.keep_alive()
    pool.start()
    notify()
    requests.get()
    pool.stop(finishing_s())


def spare_memory() -> None:
    """Fewer collections, and few arenas: glibc makes eight for each core, and threads leave them half
    empty. The interpreter's lock lets one thread allocate at a time anyway.
    """
    gc.set_threshold(*GARBAGE)
    if hasattr(processes.libc, "mallopt"):
        processes.libc.mallopt(M_ARENA_MAX, ARENAS)


def make_pool(role: str, tell: Callable[[], None]) -> Any:
    """What takes runs in this process. A web server without pools only serves."""
    if role == "web" and not settings.WORKER_POOLS:
        return None
    return import_string(settings.WORKER_APPLICATION)(role, tell)


def limit_s() -> float:
    """How long a process may take to end."""
    return max(settings.DRAIN_S, 1.0)


def finishing_s() -> float:
    """How long it finishes what it has begun; the last second is for giving back what it cannot finish."""
    return limit_s() - 1.0


def serve_web(line: socket.socket, pool: Any, notify: Notify) -> None:
    """Daphne on a socket that is already listening, and the pool on threads beside it."""
    from .pace import PacedServer  # Twisted installs its reactor on import: in this process only

    from twisted.internet import reactor  # isort: skip

    from .bodies import limit_bodies
    from .connections import limit_connections
    from .draining import drain_on_stop
    from .frames import spare_twisted, speak_shortly
    from .heads import answer_bad_heads

    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # whitenoise complains if it is missing
    get_resolver().url_patterns  # noqa: B018  (imports every view now, not in somebody's first request)
    server = PacedServer(
        import_string(settings.ASGI_APPLICATION),
        endpoints=["adopted"],
        websocket_timeout=-1,  # a device stays connected for weeks
        websocket_connect_timeout=HANDSHAKE_S,
        # autobahn's own time-out, which closes the connection without an answer
        websocket_handshake_timeout=HANDSHAKE_S + 5,
        server_name="muster",
        verbosity=0,
    )
    server.endpoints = []  # required at construction; ours is adopted below

    def adopt() -> None:
        spare_twisted(server)
        speak_shortly(server.ws_factory)
        answer_bad_heads(server.http_factory)
        limit_bodies(server.http_factory)
        port = reactor.adoptStreamPort(line.fileno(), line.family, server.http_factory)  # type: ignore[attr-defined]
        limit_connections(server.http_factory, port)
        drain_on_stop(server, port, pool, finishing_s())
        threading.Thread(target=start_pool, name="pool", daemon=True).start()

    def start_pool() -> None:
        """Requests are answered while it starts."""
        if pool is not None:
            pool.start()
        notify()

    reactor.callWhenRunning(adopt)  # type: ignore[attr-defined]
    server.run()
