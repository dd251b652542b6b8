"""Coroutines from tests that are none."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_a_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Its result; on a thread of its own, since the browser tests keep a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
