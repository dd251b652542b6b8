"""What the extended profile touches before the lock-down, because afterwards nothing lazy can be loaded."""

from __future__ import annotations

import asyncio
import codecs
import datetime
import encodings
import importlib
import mimetypes
import pkgutil
import zoneinfo

from . import wrapped
from .channel import Channel
from .loop import JobLoop, finish

_LOADED_LATE = "email.generator email.iterators email.headerregistry xml.dom.expatbuilder"
zones: dict[str, zoneinfo.ZoneInfo] = {}


def warm_up() -> None:
    """Codecs, time zones, and one round of the event loop."""
    for name in _LOADED_LATE.split():
        importlib.import_module(name)
    for module in pkgutil.iter_modules(encodings.__path__):
        _load_codec(module.name)
    for name in sorted(zoneinfo.available_timezones()):
        try:
            zones[name] = zoneinfo.ZoneInfo(name)  # kept, so that ZoneInfo's own cache always finds it
        except (OSError, ValueError):
            continue
    mimetypes.init([])
    asyncio.run = wrapped.run  # for functions that skip the language layer: a real loop needs descriptors
    datetime.datetime.strptime("2020-01-01", "%Y-%m-%d").strftime("%A")
    finish(JobLoop(Channel()), _turn())


def _load_codec(name: str) -> None:
    try:
        codecs.lookup(name)
    except LookupError:
        pass  # aliases is no codec; mbcs and oem are Windows' own


async def _turn() -> None:
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0.001))
