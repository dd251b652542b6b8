"""Our connection pool for packages that bring their own client (Anthropic's)."""

import httpx2

from .wire import pool_for


class PooledTransport(httpx2.HTTPTransport):
    """httpx2's transport on the shared pool, so that its reads notice a cancelled run."""

    def __init__(self, base_url: str) -> None:
        self._pool = pool_for(base_url)  # instead of super().__init__, which would create a second pool

    def close(self) -> None:
        """Does nothing: the pool belongs to the process."""

    def __exit__(self, *_: object) -> None:
        """Does nothing, as `close`."""
