"""A web server that is asked to stop takes no new connections and finishes the requests that it has."""

import signal
import time
from typing import Any

from daphne.http_protocol import WebRequest
from twisted.internet import reactor

LOOK_S = 0.1


def drain_on_stop(server: Any, port: Any, seconds: float) -> None:
    """On SIGTERM: close the listening socket, wait for open requests up to `seconds`, then stop. WebSockets are
    closed then; their clients come back to another server.
    """

    def drain(*_: Any) -> None:
        reactor.callFromThread(begin_draining, server, port, time.monotonic() + seconds)  # type: ignore[attr-defined]

    signal.signal(signal.SIGTERM, drain)


def begin_draining(server: Any, port: Any, until: float) -> None:
    port.stopListening()
    wait_until_drained(server, until)


def wait_until_drained(server: Any, until: float) -> None:
    if has_requests(server) and time.monotonic() < until:
        reactor.callLater(LOOK_S, wait_until_drained, server, until)  # type: ignore[attr-defined, arg-type]
    else:
        server.stop()


def has_requests(server: Any) -> bool:
    connections = server.connections.items()
    return any(isinstance(one, WebRequest) and "disconnected" not in details for one, details in connections)
