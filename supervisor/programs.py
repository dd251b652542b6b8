"""Our own programs, web server and worker, each as a function that runs in a forked child."""

import gc
import signal
import socket
from queue import SimpleQueue

from django.conf import settings
from django.urls import get_resolver
from django.utils.module_loading import import_string

from . import heartbeat, processes
from .supervision import Notify

# Rows and JSON make many short-lived objects and few cycles: collecting after every 700 took a sixth of the CPU.
GARBAGE = (50_000, 20, 50)
M_ARENA_MAX, ARENAS = -8, 2  # of mallopt(3)
HANDSHAKE_S = 12  # seconds until a WebSocket handshake must be accepted; clients wait a little longer


def spare_memory() -> None:
    """Fewer collections, and few arenas: glibc makes eight for each core, and threads leave them half
    empty. The interpreter's lock lets one thread allocate at a time anyway.
    """
    gc.set_threshold(*GARBAGE)
    if hasattr(processes.libc, "mallopt"):
        processes.libc.mallopt(M_ARENA_MAX, ARENAS)


def serve_web(line: socket.socket, notify: Notify) -> None:
    """Daphne on a socket that is already listening."""
    from .backpressure import PacedServer  # Twisted installs its reactor on import: in this process only

    from twisted.internet import reactor  # isort: skip

    from .body_limits import limit_bodies
    from .connections import limit_connections
    from .draining import drain_on_stop
    from .frames import spare_twisted, speak_shortly
    from .heads import answer_bad_heads

    spare_memory()
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
        if settings.DRAIN_S:
            drain_on_stop(server, port, settings.DRAIN_S)
        notify()

    reactor.callWhenRunning(adopt)  # type: ignore[attr-defined]
    server.run()


def run_worker(notify: Notify) -> None:
    """The worker, until SIGTERM; it then finishes what it has begun. The main thread only waits for the signal."""
    spare_memory()
    requests: SimpleQueue[None] = SimpleQueue()  # unlike an Event, a signal handler may interrupt it
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: requests.put(None))
    worker = import_string(settings.WORKER_APPLICATION)()
    heartbeat.keep_alive()
    worker.start()
    notify()
    requests.get()
    worker.stop()
