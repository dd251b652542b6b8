"""Stand-ins for exports that would reach too far as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_COPIED = ("__name__", "__qualname__", "__doc__", "__module__")


def wraps(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """functools.wraps for names and docs only: the real one copies and updates any attribute it is told to."""

    def mark(wrapper: Callable[..., Any]) -> Callable[..., Any]:
        for name in _COPIED:
            value = getattr(function, name, None)
            if type(value) is str:
                setattr(wrapper, name, value)
        return wrapper

    return mark


def purge(*arguments: Any, **keywords: Any) -> None:
    """re.purge without effect: the cache dies with the process."""


async def to_thread(*arguments: Any, **keywords: Any) -> None:
    """Threads do not exist here; say so instead of failing in the depths of asyncio."""
    raise RuntimeError("functions have no threads: call it directly, or write it as an `async def`")


def run(main: Any, *, debug: bool | None = None) -> Any:
    """asyncio.run in a plain `def`, on the loop that owns no descriptor."""
    from .channel import Channel
    from .loop import JobLoop, finish  # only the extended profile has it

    return finish(JobLoop(Channel()), main)


REPLACED: dict[str, dict[str, Any]] = {
    "functools": {"wraps": wraps},
    "re": {"purge": purge},
    "asyncio": {"to_thread": to_thread, "run": run},
}
