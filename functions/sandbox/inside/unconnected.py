"""Takes network, processes and threads from asyncio's own loop, which classes derived from a job's loop reach."""

from __future__ import annotations

import asyncio
from asyncio import base_events
from collections.abc import Callable
from typing import Any

from .names import split_words

_SERVED = frozenset(
    split_words("""
    run_forever run_until_complete stop is_running is_closed close shutdown_asyncgens call_soon call_later call_at time
    create_future create_task get_debug set_debug get_exception_handler set_exception_handler call_exception_handler
    default_exception_handler get_task_factory call_soon_threadsafe
""")
)
# Modules that only methods not served use.
_UNUSED = ("concurrent", "socket", "ssl", "subprocess")


def refuse_connections() -> None:
    """In the zygote, which has no other loops."""
    refuse_loop_methods(base_events.BaseEventLoop)
    base_events.BaseEventLoop._do_shutdown = _refused("_do_shutdown")  # type: ignore[attr-defined]
    for name in _UNUSED:
        vars(base_events)[name] = None


def refuse_loop_methods(loop: type) -> None:
    """Replace all methods of this loop that need network, files, processes or threads."""
    for name in vars(asyncio.AbstractEventLoop):
        if not name.startswith("_") and name not in _SERVED:
            setattr(loop, name, _refused(name))


def _refused(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *arguments: Any, **keywords: Any) -> Any:
        raise RuntimeError(f"{name} is not available in a function: it has no network, files, processes or threads")

    return refuse
