"""The pool of connections hands out the one that was used last, and none twice."""

import os
import select
import socket
import threading
from importlib.metadata import version
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction

from config.postgresql.base import Stack
from supervisor import postgres
from tests.live import wait_for

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="the other database has no server to connect to"),
]

ADDRESS = ("dbname", "host", "port", "user", "password")


def server_process():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


def in_threads(number, work):
    """What `work` returned in threads of their own that all hold a connection at the same time."""
    found, all_there = [], threading.Barrier(number)

    def run():
        try:
            found.append(work())
            all_there.wait(60)
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_the_private_parts_of_the_pool_are_as_they_were_checked():
    """After an upgrade, read config/postgresql/base.py beside psycopg_pool's source, then change this."""
    assert version("psycopg-pool") == "3.3.3", "check config/postgresql/base.py against this version"
    assert isinstance(connection.pool._pool, Stack) and hasattr(connection.pool._lock, "acquire")


def test_what_was_given_back_last_is_handed_out_first():
    connection.close()
    assert len(set(in_threads(4, server_process))) == 4
    used = server_process()
    for _ in range(6):
        connection.close()
        assert server_process() == used


def test_no_two_threads_share_a_connection():
    connection.close()
    for _ in range(5):
        assert len(set(in_threads(6, server_process))) == 6


def test_a_broken_connection_lets_the_pool_look_at_all_others():
    """As after a restart of the server: without that look, each connection that rests would fail a request."""
    connection.close()
    resting = in_threads(5, server_process)
    connection.close()
    lost = lambda: connection.pool.get_stats().get("connections_lost", 0)  # noqa: E731
    before = lost()
    given = {name: value for name, value in connection.get_connection_params().items() if name in ADDRESS}
    with psycopg.connect(**given, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s) pid", [resting])
    with pytest.raises(OperationalError):
        server_process()
    connection.close()
    wait_for(lambda: lost() - before >= 4)
    assert len(set(in_threads(5, server_process))) == 5


def test_the_end_of_a_session_that_stood_still_counts_as_an_unavailable_database():
    """Django calls it an internal error, which would end the run that was at work."""
    with pytest.raises(OperationalError), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '100ms'")
        wait_for(lambda: connection.connection.closed or is_readable(connection.connection))
        server_process()
    connection.close()
    assert server_process()


def is_readable(line):
    """The server has said something unasked."""
    return bool(select.select([line.fileno()], [], [], 0)[0])


def test_the_database_that_serve_makes_ends_such_sessions():
    given = {name: value for name, value in connection.get_connection_params().items() if name in ADDRESS}
    postgres.make_database(Path(given["host"]), "stands_still")
    with psycopg.connect(**given | {"dbname": "stands_still"}) as line:
        assert line.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("1min",)
    with psycopg.connect(**given, autocommit=True) as line:
        line.execute("DROP DATABASE stands_still")


def test_every_connection_notices_soon_that_the_host_is_gone():
    """The pool's and the one that listens have the same settings. On TCP: tests use a unix socket."""
    given = connection.get_connection_params()
    named = {name: str(given[name]) for name in settings.NOTICED}
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = {"host": "127.0.0.1", "port": str(server.getsockname()[1]), "user": "muster"}
        line = psycopg.pq.PGconn.connect_start(psycopg.conninfo.make_conninfo(**address | named).encode())
        line.connect_poll()
        with socket.socket(fileno=os.dup(line.socket)) as ours:
            assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            idle, probes, apart, longest = (
                ours.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPCNT, socket.TCP_KEEPINTVL, socket.TCP_USER_TIMEOUT)
            )
        line.finish()
    assert idle + probes * apart <= 10 < settings.LEASE_S / 2
    assert longest == 10_000
    assert connection.pool.kwargs.items() >= {name: given[name] for name in settings.NOTICED}.items()
