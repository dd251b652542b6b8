"""When a request is sent again, and how long to wait before. No input or output happens here."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx

from .errors import seconds

# The connection was not made, so the server cannot have done anything.
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# The server did nothing, so the request can be sent again whatever it is.
REFUSED = frozenset({429})
# A proxy answers these for a server that may have done the work.
MAYBE_DONE = frozenset({500, 502, 503, 504})


@dataclass(frozen=True)
class Retries:
    """`limit` is the number of repetitions after the first attempt.

    A request that may have had an effect is repeated only if repeating it is safe: it reads,
    replaces or deletes, or it carries an idempotency key.
    """

    limit: int = 3
    first_s: float = 0.5
    longest_s: float = 8.0
    longest_retry_after_s: float = 60.0
    random: random.Random = field(default_factory=random.Random, repr=False, compare=False)

    def after_error(self, error: httpx.TransportError, attempt: int, *, repeatable: bool) -> float | None:
        """Seconds until the next attempt; None to give up. `attempt` counts from 0."""
        if attempt >= self.limit or not (repeatable or isinstance(error, NEVER_SENT)):
            return None
        return self.pause(attempt)

    def after_answer(self, status: int, headers: Mapping[str, str], attempt: int, *, repeatable: bool) -> float | None:
        """The same for an answer. A longer Retry-After than allowed is left to the caller."""
        may_repeat = status in REFUSED or (repeatable and status in MAYBE_DONE)
        if attempt >= self.limit or not may_repeat:
            return None
        delay = seconds(headers.get("retry-after"))
        if delay is None:
            return self.pause(attempt)
        if delay > self.longest_retry_after_s:
            return None
        # All clients were told the same time.
        return delay + self.random.uniform(0, 0.25)

    def pause(self, attempt: int) -> float:
        """Exponential, with jitter, so that clients that failed together do not return together."""
        return min(self.longest_s, self.first_s * 2.0**attempt) * self.random.uniform(0.5, 1.0)
