"""What the extended profile touches before the lock-down, because afterwards nothing lazy can be loaded."""

from __future__ import annotations

import asyncio
import codecs
import datetime
import encodings.idna  # noqa: F401 - loaded for str.encode("idna")
import zoneinfo

from . import patched, wrapped
from .channel import Channel
from .loop import JobLoop, finish

_CODECS = """
    utf-8 utf-16 utf-32 latin-1 ascii cp1252 cp437 iso8859-15 idna punycode unicode-escape raw-unicode-escape rot13 hex
    base64 utf-8-sig utf-7 koi8-r shift_jis gb18030 big5 euc-jp euc-kr mac-roman utf-16-le utf-16-be
"""
zones: dict[str, zoneinfo.ZoneInfo] = {}


def warm_up() -> None:
    """Codecs, time zones, and one round of the event loop."""
    patched.apply_to_dataclasses()
    for name in _CODECS.split():
        codecs.lookup(name)
    for name in sorted(zoneinfo.available_timezones()):
        try:
            zones[name] = zoneinfo.ZoneInfo(name)  # kept, so that ZoneInfo's own cache always finds it
        except (OSError, ValueError):
            continue
    asyncio.run = wrapped.run  # for functions that skip the language layer: a real loop needs descriptors
    datetime.datetime.strptime("2020-01-01", "%Y-%m-%d").strftime("%A")
    finish(JobLoop(Channel()), _turn())


async def _turn() -> None:
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0.001))
