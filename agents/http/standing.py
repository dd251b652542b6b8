"""Checks whether the credential of a long connection is still valid, while the connection lasts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.db import DatabaseError
from django.utils import timezone

from agents import roles
from agents.models import ApiKey
from plumbing.threads import in_thread

# seconds between checks: a revoked key or a closed login session ends its sockets and streams within 5 seconds
EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Standing:
    """An API key, or a browser's login session."""

    key_id: int | None = None
    session_key: str | None = None
    rank: int | None = None  # of the person's role when the connection was opened, where it counts

    @classmethod
    def of(cls, key: Any, session: Any, rank: int | None = None) -> "Standing":
        if isinstance(key, ApiKey):
            return cls(key.pk, rank=rank)
        return cls(session_key=getattr(session, "session_key", None), rank=rank)

    def is_good(self) -> bool:
        user = self.user()
        return bool(user and user.is_active and (self.rank is None or roles.rank_of(user) == self.rank))

    def user(self) -> Any:
        """Whose credential it is; None once it is no longer valid."""
        if self.key_id is not None:
            key = ApiKey.objects.select_related("user").filter(pk=self.key_id, revoked_at=None).first()
            return key.user if key and (key.expires_at is None or key.expires_at > timezone.now()) else None
        store = import_module(settings.SESSION_ENGINE).SessionStore
        caller: Any = SimpleNamespace(session=store(self.session_key))
        return get_user(caller) if self.session_key else None

    async def ends(self) -> None:
        """Returns when the credential is no longer valid. While the database is unavailable nothing
        is checked.
        """
        while True:
            await asyncio.sleep(EVERY_S)
            with suppress(DatabaseError):
                if not await in_thread(self.is_good):
                    return


async def while_good(source: AsyncIterator[bytes], standing: Standing) -> AsyncIterator[bytes]:
    """Items of the source, until it ends or the credential becomes invalid."""
    end = asyncio.ensure_future(standing.ends())
    following: Any = None
    try:
        while True:
            following = asyncio.ensure_future(anext(source))
            await asyncio.wait({following, end}, return_when=asyncio.FIRST_COMPLETED)
            if end.done():
                return
            try:
                piece = following.result()
            except StopAsyncIteration:
                return
            yield piece
    finally:
        await put_down(source, end, following)


async def put_down(source: AsyncIterator[bytes], *tasks: Any) -> None:
    for task in tasks:
        if task is not None and not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await task
    with suppress(RuntimeError):
        await source.aclose()  # type: ignore[attr-defined]
