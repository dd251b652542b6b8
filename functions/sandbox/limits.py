"""The limits of one call."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field

# Seconds between the soft alarm in the child and the host's SIGKILL.
GRACE_S = 0.25
# Part of every cache key of compiled code; raise it when the language layer changes.
POLICY_VERSION = 4


# Settings that a child must know, sent only if they differ from the defaults; inside/context.py has the same defaults.
_KEPT_S = 60.0
_ASKING = {"max_calls": 1000, "call_kb": 256, "max_depth": 64, "max_notices": 2000, "traffic_kb": 16 * 1024}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits in seconds, MB (of address space beyond an idle child's) and kB. There is no upper
    bound: the host may pass any value.
    """

    timeout_s: float = 30.0
    memory_mb: int = 512
    output_kb: int = 256
    # None: as long as the timeout.
    cpu_s: float | None = None
    printed_kb: int = 64
    input_kb: int = 1024
    max_calls: int = 1000
    call_kb: int = 256
    max_depth: int = 64
    # The size of one answer to a call, as it is sent: 1 MB of text, much of it escaped.
    answer_kb: int = 8 * 1024
    # Log lines and progress reports; the child drops those above the limit.
    max_notices: int = 2000
    # The size of all requests of a call to the host.
    traffic_kb: int = 16 * 1024
    # A process that is kept for several calls ends after this time.
    kept_s: float = _KEPT_S
    # The part that is sent to a child: JSON without braces.
    order: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.timeout_s <= 0 or self.memory_mb <= 0 or self.output_kb <= 0:
            raise ValueError("limits must be positive")
        order = {
            "timeout_s": self.timeout_s,
            "cpu_s": self.cpu_seconds,
            "memory_bytes": self.memory_mb << 20,
            "output_bytes": self.output_kb << 10,
            "printed_chars": self.printed_kb << 10,
        }
        # Only what differs from the child's own limits, because each call sends it.
        for name, usual in _ASKING.items():
            value = getattr(self, name)
            if value != usual:
                order[name] = value
        if self.kept_s != _KEPT_S:
            order["kept_s"] = self.kept_s
        object.__setattr__(self, "order", json.dumps(order)[1:-1].encode())

    @property
    def bytes_in_all(self) -> int:
        """The maximum a child may send in one call, including its reply; our own child code stops
        well before.
        """
        return (self.traffic_kb + self.output_kb + self.printed_kb * 12 + 1024) * 1024

    @property
    def cpu_seconds(self) -> int:
        """Whole seconds, the unit of RLIMIT_CPU."""
        seconds = self.cpu_s
        if seconds is None:
            seconds = self.timeout_s + 1
        return max(1, math.ceil(seconds))
