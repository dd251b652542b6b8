"""Brings the database up to date: migrations and starters, skipped when nothing changed since the
last start.
"""

import hashlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, OperationalError, connection

from agents import tables

from . import postgres, processes, valkey
from .logs import print_if_open

STAMP = "prepared"


def is_done() -> bool:
    """True when this code has already prepared this embedded database."""
    stamp = settings.DATA_DIR / STAMP
    return is_embedded_database() and stamp.exists() and stamp.read_text() == fingerprint()


def prepare_site() -> None:
    """Runs in a child: the supervisor itself never opens a database connection."""
    if settings.EMBEDDED_POSTGRES:
        postgres.make_database(postgres.home(settings.DATA_DIR) / "run")
    connection.settings_dict["OPTIONS"].pop("pool", None)  # one connection is enough; a pool would hide the error
    try:
        connection.ensure_connection()
    except OperationalError as error:
        reason = " ".join(str(error).split())
        raise SystemExit(f"muster: the database cannot be reached ({reason}): check DATABASE_URL and start again.")
    print_if_open("muster: preparing the database (the first time this takes a few seconds)")
    output = StringIO()
    try:
        call_command("init_db", stdout=output)
    except CommandError as error:
        raise SystemExit(f"muster: {error}")
    print_if_open(f"muster: {output.getvalue().strip().splitlines()[-1]}")
    (settings.DATA_DIR / STAMP).write_text(fingerprint())


def check_tables() -> None:
    """For a program that does not prepare its database. Runs in a child. One that does not answer may come."""
    connection.settings_dict["OPTIONS"].pop("pool", None)
    try:
        reason = tables.explain_table_problem()
    except DatabaseError:
        return
    if reason:
        raise SystemExit(f"muster: {reason}")


def is_embedded_database() -> bool:
    """Whether the database is embedded; an external one may have been restored or emptied in the
    meantime.
    """
    if settings.EMBEDDED_POSTGRES:
        return True
    return connection.vendor == "sqlite" and Path(settings.DATABASES["default"]["NAME"]).exists()


def fingerprint() -> str:
    """A hash of the code's migrations and starters, and of the database's address.

    The content of migrations counts: before the first release the first one of an app changes (docs/adr/0034).
    """
    address = f"{settings.DATABASES['default']['NAME']} {settings.EMBEDDED_POSTGRES}"
    digest = hashlib.sha256(address.encode())
    for path in sorted(settings.BASE_DIR.glob("*/migrations/*.py")):
        app = path.parent.parent.name
        digest.update(path.name.encode())
        digest.update(app.encode())
        digest.update(path.read_bytes())
    for path in sorted(settings.BASE_DIR.glob("*/starters/**/*.*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@contextmanager
def database_at_hand() -> Iterator[None]:
    """For a command: one connection instead of a pool, and the embedded PostgreSQL while no `serve` runs it."""
    connection.settings_dict["OPTIONS"].pop("pool", None)
    root = postgres.home(settings.DATA_DIR)
    here = postgres.Cluster(root / "data", root / "run", root)
    if not settings.EMBEDDED_POSTGRES or postgres.is_ready(here):
        yield
        return
    cluster = postgres.prepare_cluster(settings.DATA_DIR)
    (settings.DATA_DIR / "logs").mkdir(exist_ok=True)
    with (settings.DATA_DIR / "logs" / "postgres.log").open("ab") as log:
        child = processes.fork(postgres.command(cluster), output=log.fileno(), death_signal=signal.SIGINT)
    try:
        valkey.wait_until(lambda: postgres.is_ready(cluster), postgres.STARTS_WITHIN)
        postgres.make_database(cluster.sockets)
        yield
    finally:
        connection.close()
        os.kill(child, signal.SIGINT)
        os.waitpid(child, 0)
