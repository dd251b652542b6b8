"""Python starts with this on a host whose clock is wrong: libfaketime cannot sleep until a monotonic time."""

import select
import time


def sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = sleep
