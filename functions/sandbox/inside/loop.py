"""An asyncio event loop without descriptors: it waits on the job socket, which only receives the
host's answers.

A real event loop creates an epoll object and a socket pair (0.8 ms in each child, and three
forbidden descriptors).
"""

from __future__ import annotations

import asyncio
import time
from asyncio import base_events
from collections.abc import Callable
from typing import Any

from .channel import CALLS, NOTICE, Channel
from .quota import CallFailed, Quota
from .unconnected import refuse_loop_methods

_IDLE_S = 3600.0


class _Answers:
    """The selector of BaseEventLoop: it sends queued requests and waits for answers.

    Stored code can reach it through any task, so its names are ones that source may not read.
    """

    __slots__ = ("__channel__", "__quota__", "__waiting__", "__unsent__", "__count__")

    def __init__(self, channel: Channel, quota: Quota) -> None:
        self.__channel__ = channel
        self.__quota__ = quota
        self.__waiting__: dict[int, tuple[asyncio.Future[Any], Callable[[Any], Any]]] = {}
        self.__unsent__: list[bytes] = []
        self.__count__ = 0

    def select(self, timeout: float | None) -> list[Any]:
        if self.__unsent__:
            for frame in self.__quota__.batches(self.__unsent__):
                self.__channel__.send(CALLS, frame)
            self.__unsent__ = []
        if self.__waiting__:
            self.__settle__(self.__channel__.answers(_IDLE_S if timeout is None else timeout))
        elif timeout is None:
            raise RuntimeError("the function waits for something that can never happen")
        elif timeout > 0:
            time.sleep(timeout)
        return []

    def __ask__(self, operation: str, payload: dict[str, Any], shape: Callable[[Any], Any]) -> asyncio.Future[Any]:
        """Queue a request. When the loop becomes idle, all queued requests are sent to the host
        together.
        """
        self.__count__ += 1
        request = self.__quota__.request(self.__count__, operation, payload)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.__waiting__[self.__count__] = (future, shape)
        self.__unsent__.append(request)
        return future

    def __tell__(self, operation: str, payload: dict[str, Any]) -> None:
        notice = self.__quota__.notice(operation, payload)
        if notice is not None:
            self.__channel__.send(NOTICE, notice)

    def __settle__(self, answers: list[Any]) -> None:
        for number, succeeded, value in answers:
            future, shape = self.__waiting__.pop(number)
            if future.done():
                continue
            if succeeded:
                future.set_result(shape(value))
            else:
                future.set_exception(CallFailed(str(value)))

    def close(self) -> None:
        self.__waiting__.clear()


class JobLoop(base_events.BaseEventLoop):
    """BaseEventLoop over `_Answers`; it has no transports, signals, subprocesses or threads."""

    def __init__(self, channel: Channel, quota: Quota | None = None) -> None:
        super().__init__()
        self._selector = self.__requester__ = _Answers(channel, quota or Quota({}))

    def _process_events(self, event_list: list[Any]) -> None:
        return

    def _write_to_self(self) -> None:
        return


refuse_loop_methods(JobLoop)


def run_to_end(loop: JobLoop, main: Any) -> Any:
    """Run the coroutine to its end and cancel remaining tasks, like asyncio.run."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
