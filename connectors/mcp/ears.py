"""What a server of an earlier version says outside of any answer: it may ask over a stream of its own (GET).

The stream is open as long as the session. A thread reads it, and answers what needs no person; a
question to the person stops the call in progress, which asks it.
"""

import logging
import threading
from collections.abc import Callable
from time import monotonic

from plumbing import waits

from .exceptions import McpFailed, McpRefused
from .http import Broken, HttpTransport, OwnStream
from .messages import Message

log = logging.getLogger(__name__)
OPENS_S = 1.0  # how long the first call waits for the stream: a server may be slow to say that it has one
LEAST_PAUSE_S = 1.0
RECONNECTS = 5  # connections without any message, after which a stream that breaks is given up


class Ear:
    """Hears one server. `hear` gets each message, on a thread of its own."""

    def __init__(self, transport: HttpTransport, hear: Callable[[Message], None]) -> None:
        self._stream = OwnStream(transport)
        self._hear = hear
        self._is_stopped = threading.Event()

    def open(self, until: float) -> None:
        """Connect, so that nothing said after this is missed. A server without such a stream refuses it."""
        ends = min(until, monotonic() + OPENS_S)
        try:
            self._stream.connect(max(0.0, ends - monotonic()))
        except (McpFailed, McpRefused) as error:
            if not isinstance(error, McpFailed) or error.code != "cancelled":
                self.stop()
                return
            raise
        threading.Thread(target=self._listen, name="mcp-ear", daemon=True).start()

    def stop(self) -> None:
        self._is_stopped.set()
        self._stream.close()

    def _listen(self) -> None:
        without_news = 0
        while not self._is_stopped.is_set() and without_news <= RECONNECTS:
            heard = 0
            try:
                for message in self._stream.messages():
                    heard += 1
                    self._hear(message)
            except Broken:
                pass  # servers and proxies close a stream that is silent
            except (McpFailed, McpRefused):
                break
            except Exception:
                # A stream that is closed while it is read fails in many ways; then nobody listens any more.
                if not self._is_stopped.is_set():
                    log.warning("The stream of an MCP server cannot be read", exc_info=True)
                break
            without_news = 0 if heard else without_news + 1
            waits.sleep_until(max(LEAST_PAUSE_S, self._stream.position.retry_s), self._is_stopped.is_set)
        self.stop()
