"""How a process with a port ends: it closes the port, finishes the requests and runs that it has, and gives the rest
back.
"""

import signal
import threading
import time
from typing import Any

from daphne.http_protocol import WebRequest
from twisted.internet import reactor

LOOK_S = 0.1


def drain_on_stop(server: Any, port: Any, pool: Any, seconds: float) -> None:
    """On SIGTERM: close the listening socket, and let the pool take nothing more. Wait for runs and open requests up
    to `seconds`; then the pool gives its runs back, and who still waits for one is answered 202. WebSockets are closed
    at the end; their clients come back to another server.
    """

    def drain(*_: Any) -> None:
        threading.Thread(target=end, name="drain", daemon=True).start()

    def end() -> None:
        call(port.stopListening)
        until = time.monotonic() + seconds
        if pool is not None:
            pool.stop(seconds)
        call(stop_later, server, until)

    signal.signal(signal.SIGTERM, drain)


def call(work: Any, *arguments: Any) -> None:
    reactor.callFromThread(work, *arguments)  # type: ignore[attr-defined]


def stop_later(server: Any, until: float) -> None:
    """When the open requests are answered, or at that time."""
    if has_requests(server) and time.monotonic() < until:
        reactor.callLater(LOOK_S, stop_later, server, until)  # type: ignore[attr-defined, arg-type]
    else:
        server.stop()


def has_requests(server: Any) -> bool:
    connections = server.connections.items()
    return any(isinstance(one, WebRequest) and "disconnected" not in details for one, details in connections)
