"""A server whose answer never ends: it prints its port, and for each reader that left how many pieces were sent."""

import os
import sys
import threading

import daphne.server  # noqa: F401  (installs the reactor of asyncio)
from twisted.internet import reactor

from supervisor import backpressure

PIECE = b"x" * 65536
MANY = 2000  # pieces: more than any buffer on the way holds


async def application(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        reply = {"type": "websocket.send", "bytes": PIECE}
    else:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        reply = {"type": "http.response.body", "body": PIECE, "more_body": True}
    sent = 0
    while sent < MANY:
        await send(reply)
        sent += 1
        if server.is_gone():
            break
    print("sent", sent, flush=True)
    if scope["type"] == "http":
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class OneReader(backpressure.PacedServer):
    def is_gone(self):
        return any(details.get("disconnected") for details in self.connections.values())


server = OneReader(application, endpoints=["tcp:0:interface=127.0.0.1"], signal_handlers=False)


def tell_port():
    if server.listening_addresses:
        print("port", server.listening_addresses[0][1], flush=True)
    else:
        reactor.callLater(0.02, tell_port)


if __name__ == "__main__":
    backpressure.STALLED_S = float(sys.argv[1])
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()  # it ends with its parent
    reactor.callWhenRunning(tell_port)
    server.run()
