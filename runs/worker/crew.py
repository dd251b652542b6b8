"""Who does a worker's work: takes pieces of work while it has room, and finishes them before it
stops.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import close_old_connections

log = logging.getLogger(__name__)


class Crew:
    """At most `size` pieces of work at once."""

    def __init__(self, size: int) -> None:
        self.free = threading.Semaphore(size)
        self.pool = ThreadPoolExecutor(size, thread_name_prefix="run")

    def has_room(self, timeout_s: float = 0) -> bool:
        """Whether one more piece of work can be submitted; waits up to `timeout_s` for that."""
        if not self.free.acquire(timeout=timeout_s):
            return False
        self.free.release()
        return True

    def submit(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Start this soon. Its errors are logged: rows and leases keep what it was."""
        self.free.acquire()
        self.pool.submit(self.do, work, *arguments)

    def do(self, work: Callable[..., Any], *arguments: Any) -> None:
        try:
            close_old_connections()
            work(*arguments)
        except Exception:
            log.exception("%s%s failed", getattr(work, "__name__", work), arguments)
        finally:
            close_old_connections()
            self.free.release()

    def stop(self) -> None:
        """Finish what was submitted."""
        self.pool.shutdown(wait=True)
