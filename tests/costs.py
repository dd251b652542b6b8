"""What a piece of work costs, measured so that a busy machine does not make it look dear."""

import time
from collections.abc import Callable
from typing import Any


def measure_cpu(work: Callable[[], Any], below: float, tries: int = 6) -> float:
    """The least CPU seconds of this thread that one of several tries took; the first one below the bound ends it.

    Whatever else runs on the machine displaces what is in the caches and takes the processor away, for a moment. What
    the work itself costs, it costs each time, so that the least of several tries is above the bound as well.
    """
    least = float("inf")
    for number in range(tries):
        time.sleep(0.1 * number)
        began = time.thread_time()
        work()
        least = min(least, time.thread_time() - began)
        if least < below:
            break
    return least
