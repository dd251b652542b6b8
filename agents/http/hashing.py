"""How passwords and the secrets of programs are hashed, and how many passwords are at the same time."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.utils.translation import gettext_noop as _

from agents.exceptions import Unavailable

# sign-ins that may wait for their turn; each of them holds a thread of the web process.
WAITERS = 16
PATIENCE_S = 10.0
cores = threading.BoundedSemaphore(os.cpu_count() or 1)
places = threading.BoundedSemaphore((os.cpu_count() or 1) + WAITERS)


class RandomSecretHasher(PBKDF2PasswordHasher):
    """For secrets that we made from random characters: nobody guesses them, so a slow hash would protect nothing,
    and anybody could make the server compute it.
    """

    algorithm = "random_secret"
    iterations = 1


@contextmanager
def password_turn() -> Iterator[None]:
    """Checking a password costs half a second of CPU on purpose: at most one per core at a time. Raises Unavailable
    when too many wait.
    """
    busy = Unavailable(hint=_("Try again in a few seconds."), headers={"Retry-After": "5"})
    if not places.acquire(blocking=False):
        raise busy
    try:
        if not cores.acquire(timeout=PATIENCE_S):
            raise busy
        try:
            yield
        finally:
            cores.release()
    finally:
        places.release()
