"""A server on this machine that lists models, as a provider's does."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agents import available_models


class Server(BaseHTTPRequestHandler):
    answer = (200, {"data": [{"id": "small"}, {"id": "large"}]})
    seen: list = []

    def do_GET(self):
        self.seen.append((self.path, dict(self.headers)))
        status, body = self.answer
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Quiet."""


@pytest.fixture
def model_server(settings):
    """(its handler, its address): the handler lists requests in `seen` and gives `answer`."""
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    available_models._kept.clear()
    made = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Server,), {"answer": Server.answer, "seen": []}))
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made.RequestHandlerClass, f"http://127.0.0.1:{made.server_port}/v1"
    made.shutdown()
    made.server_close()
