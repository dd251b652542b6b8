"""A server of the zoo on loopback, for a real proxy that stands in front of it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .acts import Reply
from .pool import ZooPool


class Stage:
    """`pool` is the server that answers, chosen by each test."""

    def __init__(self) -> None:
        self.pool: ZooPool | None = None
        self.foreign: list[str] = []  # what the proxy wanted from other hosts


@contextmanager
def staged() -> Iterator[tuple[Stage, str]]:
    """(the stage, its address). As a proxy of the web it refuses everything and writes it down."""
    stage = Stage()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.is_foreign() or stage.pool is None:
                self.refuse()
            else:
                self.send(stage.pool.answer(self.path, json.loads(body)))

        def is_foreign(self) -> bool:
            return self.command == "CONNECT" or self.path.startswith("http")

        def send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in (reply.headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Type", reply.kind)
            # The connection of a longer answer breaks before its end.
            self.send_header("Content-Length", str(len(reply.content) + reply.is_cut))
            self.end_headers()
            self.wfile.write(reply.content)
            self.close_connection = reply.is_cut

        def refuse(self) -> None:
            """There is no list of models either, which LiteLLM asks for at times."""
            if self.is_foreign():
                stage.foreign.append(f"{self.command} {self.path}")
            self.send_error(404)

        do_CONNECT = do_GET = refuse

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield stage, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
