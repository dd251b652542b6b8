"""Warms up the extended profile before the lock-down, because nothing can be loaded lazily
afterwards.
"""

from __future__ import annotations

import asyncio
import codecs
import datetime
import encodings
import importlib
import io
import mimetypes
import pkgutil
import zoneinfo

from . import wrapped
from .channel import Channel
from .loop import JobLoop, run_to_end

_LOADED_LATE = "email.generator email.iterators email.headerregistry xml.dom.expatbuilder"
# The data of all time zones, 0.6 MB.
zones: dict[str, bytes] = {}


def warm_up() -> None:
    """Load codecs and time zones, and run the event loop once."""
    for name in _LOADED_LATE.split():
        importlib.import_module(name)
    for module in pkgutil.iter_modules(encodings.__path__):
        _load_codec(module.name)
    for name in zoneinfo.available_timezones():
        zones[name] = _zone(name)
    zoneinfo._common.load_tzdata = _stored_zone  # type: ignore[assignment]
    mimetypes.init([])
    # For functions without the language layer: a real loop needs descriptors.
    asyncio.run = wrapped.run
    datetime.datetime.strptime("2020-01-01", "%Y-%m-%d").strftime("%A")
    run_to_end(JobLoop(Channel()), _turn())


def _zone(name: str) -> bytes:
    path = zoneinfo._tzpath.find_tzfile(name)
    with open(path, "rb") if path else zoneinfo._common.load_tzdata(name) as file:
        return bytes(file.read())


def _stored_zone(key: str) -> io.BytesIO:
    """The fallback of ZoneInfo, and of its Python version that pandas uses, if they find no file."""
    if key not in zones:
        raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}")
    return io.BytesIO(zones[key])


def _load_codec(name: str) -> None:
    try:
        codecs.lookup(name)
    except LookupError:
        # `aliases` is not a codec; mbcs and oem exist only on Windows.
        pass


async def _turn() -> None:
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0.001))
