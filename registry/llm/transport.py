"""Our connection pool for packages that insist on an httpx2 client of their own (Anthropic's)."""

import httpx2

from .wire import pool_for


class PooledTransport(httpx2.HTTPTransport):
    """httpx2's transport over the shared pool, so that its reads notice a cancelled run as ours do."""

    def __init__(self, base_url: str) -> None:
        self._pool = pool_for(base_url)  # instead of super().__init__, which would only make a pool of its own

    def close(self) -> None:
        """The pool is the process's; nobody closes it."""

    def __exit__(self, *_: object) -> None:
        """As `close`."""
