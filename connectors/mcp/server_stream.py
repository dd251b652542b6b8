"""What a server of an earlier version sends outside of any answer: it may ask over a stream of its own (GET).

The stream is open as long as the session. A thread reads it, and answers what needs no person; a
question to the person stops the call in progress, which asks it.
"""

import logging
import threading
from collections.abc import Callable
from time import monotonic

from plumbing import waits

from .exceptions import McpFailed, McpRefused
from .http import Broken, HttpTransport, ServerStream
from .messages import Message

log = logging.getLogger(__name__)
# How long the first call waits for the stream: a server may be slow to say that it has one.
OPENS_S = 1.0
LEAST_PAUSE_S = 1.0
REPLY_S = 10.0
# Connections without any message, after which a stream that breaks is given up.
RECONNECTS = 5
OnMessage = Callable[[Message], Message | None]


class ServerStreamReader:
    """Reads the stream of one server. `on_message` gets each message, on a thread of its own, and returns the reply."""

    def __init__(self, transport: HttpTransport, on_message: OnMessage) -> None:
        self._stream = ServerStream(transport)
        self._on_message = on_message
        self._is_stopped = threading.Event()

    def open(self, until: float) -> None:
        """Connect, so that nothing sent after this is missed. A server without such a stream refuses it."""
        ends = min(until, monotonic() + OPENS_S)
        try:
            self._stream.connect(max(0.0, ends - monotonic()))
        except (McpFailed, McpRefused) as error:
            self._stream.close_client()
            if isinstance(error, McpFailed) and error.code == "cancelled":
                raise
            return
        threading.Thread(target=self._run, name="mcp-server-stream", daemon=True).start()

    def stop(self) -> None:
        """May be called by any thread."""
        self._is_stopped.set()
        self._stream.interrupt()

    def _run(self) -> None:
        try:
            self._read_until_stopped()
        except Exception:
            # Nothing stands above this thread that would report it.
            log.exception("The stream of an MCP server is not read any further")
        finally:
            self._stream.close_client()

    def _read_until_stopped(self) -> None:
        without_news = 0
        while not self._is_stopped.is_set() and without_news <= RECONNECTS:
            received = 0
            try:
                for message in self._stream.messages():
                    received += 1
                    self._answer(message)
            except Broken:
                # Servers and proxies close a stream that is silent.
                pass
            except (McpFailed, McpRefused):
                return
            without_news += 1
            if received:
                without_news = 0
            pause_s = max(LEAST_PAUSE_S, self._stream.position.retry_s)
            waits.sleep_until(pause_s, self._is_stopped.is_set)

    def _answer(self, message: Message) -> None:
        reply = self._on_message(message)
        if reply is None:
            return
        try:
            self._stream.reply(reply, REPLY_S)
        except McpFailed:
            # The server asks again, or ends its call.
            pass
