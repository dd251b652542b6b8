"""Nothing slow happens inside a transaction: on SQLite it would keep everybody else from writing.

While a test is in a transaction of the product's (not in the one that pytest-django puts around it), a
connection to a network address, the resolving of a name, the storing of a file, work in a process of the sandbox
and the hashing of a password are recorded. A test of `WATCHED` then fails.
"""

import socket
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import hashers
from django.db import connection

from agents import storage
from functions.sandbox import Pool
from plumbing.http import addresses

slow_work: list[str] = []
# Where the doors are through which people send names to resolve, files and passwords.
WATCHED = (
    "tests/agents/http/", "tests/connectors/", "tests/gateway/a2a/", "tests/config/test_odd_values.py",
    "tests/knowledge/skills/", "tests/studio/authoring/test_skills.py", "tests/attacks/test_write_lock.py",
)  # fmt: skip
# The admin of Django wraps whole requests, and only administrators come there; a database is filled before anybody
# works with it; tests store files for their own rows, and one takes back in a transaction what it did to each row.
KNOWN = (
    "django/contrib/admin/options.py", "management/commands/init_db.py", "tests/files.py",
    "tests/agents/http/test_sent_back.py",
)  # fmt: skip


def is_in_transaction() -> bool:
    """In one of the product's: pytest-django marks its own."""
    return any(not getattr(block, "_from_testcase", False) for block in connection.atomic_blocks)


def note(what: str) -> None:
    if not is_in_transaction():
        return
    calls = traceback.extract_stack()[:-2]
    if any(call.filename.endswith(KNOWN) for call in calls):
        return
    ours = [f"{call.filename}:{call.lineno}" for call in calls if "site-packages" not in call.filename]
    slow_work.append(f"{what} in a transaction: {' '.join(ours[-12:])}")


def noticed(what: str, work: Callable[..., Any], is_meant: Callable[..., bool] = lambda *_: True) -> Callable[..., Any]:
    """The same work, which is recorded if it is done in a transaction."""

    def with_note(*args: Any, **more: Any) -> Any:
        if is_meant(*args):
            note(what)
        return work(*args, **more)

    return with_note


def is_network(one: socket.socket, *_: Any) -> bool:
    return one.family in (socket.AF_INET, socket.AF_INET6)


@pytest.fixture(autouse=True, scope="session")
def slow_work_is_noticed() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(socket.socket, "connect", noticed("a connection", socket.socket.connect, is_network), raising=False)
    patch.setattr(addresses, "resolve", noticed("resolving", addresses.resolve))
    patch.setattr(storage, "store_bytes", noticed("storing a file", storage.store_bytes))
    patch.setattr(Pool, "_ask", noticed("a process of the sandbox", Pool._ask))
    patch.setattr(hashers.MD5PasswordHasher, "encode", noticed("hashing", hashers.MD5PasswordHasher.encode))
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def no_slow_work_in_transactions(request: pytest.FixtureRequest) -> Iterator[None]:
    slow_work.clear()
    yield
    assert slow_work == [] or not request.node.nodeid.startswith(WATCHED)
