"""An asyncio event loop that owns no descriptor: it sleeps on the job socket, whose only news are the host's answers.

A real loop makes an epoll object and a socket pair (0.8 ms in each child, and three descriptors too many).
"""

from __future__ import annotations

import asyncio
import time
from asyncio import base_events
from collections.abc import Callable
from typing import Any

from .channel import NOTICE, Channel, write_json
from .context import CallFailed

_IDLE_S = 3600.0


class _Answers:
    """What BaseEventLoop takes for a selector: it sends what was asked since, and waits for answers."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._waiting: dict[int, tuple[asyncio.Future[Any], Callable[[Any], Any]]] = {}
        self._unsent: list[Any] = []
        self._count = 0

    def select(self, timeout: float | None) -> list[Any]:
        if self._unsent:
            self._channel.call(self._unsent)
            self._unsent = []
        if self._waiting:
            self._settle(self._channel.answers(_IDLE_S if timeout is None else timeout))
        elif timeout is None:
            raise RuntimeError("the function waits for something that can never happen")
        elif timeout > 0:
            time.sleep(timeout)
        return []

    def ask(self, operation: str, payload: dict[str, Any], shape: Callable[[Any], Any]) -> asyncio.Future[Any]:
        """Queue a request. All that are queued when the loop comes to rest go to the host together."""
        self._count += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._count] = (future, shape)
        self._unsent.append([self._count, operation, payload])
        return future

    def tell(self, operation: str, payload: dict[str, Any]) -> None:
        self._channel.send(NOTICE, write_json([operation, payload]))

    def _settle(self, answers: list[Any]) -> None:
        for number, succeeded, value in answers:
            future, shape = self._waiting.pop(number)
            if future.done():
                continue
            if succeeded:
                future.set_result(shape(value))
            else:
                future.set_exception(CallFailed(str(value)))

    def close(self) -> None:
        self._waiting.clear()


class JobLoop(base_events.BaseEventLoop):
    """BaseEventLoop over `_Answers`; there are no transports, signals, subprocesses or threads to serve."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._selector = _Answers(channel)
        self.requester = self._selector

    def _process_events(self, event_list: list[Any]) -> None:
        return

    def _write_to_self(self) -> None:
        return


def finish(loop: JobLoop, main: Any) -> Any:
    """Run the coroutine to its end and drop what it left behind, as asyncio.run does."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
