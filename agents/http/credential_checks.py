"""Checks whether the credential of a long connection is still valid, while the connection lasts."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.db import Error

from agents import roles
from agents.models import ApiKey, BrowserSession
from plumbing.threads import in_thread

# seconds between checks: a revoked key or a closed login session ends its sockets and streams within 5 seconds
EVERY_S = 2.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CredentialCheck:
    """An API key, or a browser's login session."""

    key_id: int | None = None
    session_key: str | None = None
    # Of the person's role when the connection was opened, where it counts.
    rank: int | None = None

    @classmethod
    def of(cls, key: Any, session: Any, rank: int | None = None) -> "CredentialCheck":
        if isinstance(key, ApiKey):
            return cls(key.pk, rank=rank)
        return cls(session_key=getattr(session, "session_key", None), rank=rank)

    @classmethod
    def named(cls, name: str, person: int) -> "CredentialCheck":
        """Of this person's key or login, from its `name`."""
        if name.isascii() and name.isdigit() and len(name) < 20:
            return cls(key_id=int(name))
        for login in BrowserSession.objects.filter(user_id=person):
            if login.handle == name:
                return cls(session_key=login.session_key)
        return cls()

    @property
    def name(self) -> str:
        """It opens nothing, and a client may see it; empty for none."""
        if self.key_id is not None:
            return str(self.key_id)
        if not self.session_key:
            return ""
        return BrowserSession(session_key=self.session_key).handle

    def is_good(self) -> bool:
        user = self.user()
        if not user or not user.is_active:
            return False
        return self.rank is None or roles.find_rank(user) == self.rank

    def user(self) -> Any:
        """The user of the credential; None once the credential is no longer valid."""
        if self.key_id is not None:
            key = ApiKey.objects.select_related("user").filter(pk=self.key_id, revoked_at=None).first()
            if key is None or not key.is_live():
                return None
            return key.user
        if not self.session_key:
            return None
        store = import_module(settings.SESSION_ENGINE).SessionStore
        caller: Any = SimpleNamespace(session=store(self.session_key))
        return get_user(caller)

    async def ends(self) -> None:
        """Returns when the credential is no longer valid, or cannot be checked for another reason than that the
        database is unavailable.
        """
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                if not await in_thread(self.is_good):
                    return
            except Error:  # checked again when the database answers
                continue
            except Exception:
                log.exception("A credential cannot be checked, so its connection ends")
                return


async def while_good(source: AsyncIterator[bytes], standing: CredentialCheck) -> AsyncIterator[bytes]:
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
