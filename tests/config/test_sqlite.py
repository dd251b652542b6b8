"""The threads of a process take turns to write to SQLite, and nobody keeps the turn."""

import os
import threading

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from agents.models import Team
from config.sqlite.base import TURN

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the other database has many writers"),
]


def in_thread(work):
    """What it raised, or None."""
    failures = []

    def run():
        try:
            work()
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, failures


def write(name):
    with transaction.atomic():
        Team.objects.create(name=name)


def test_the_turn_is_held_as_long_as_the_transaction():
    with transaction.atomic():
        assert TURN.lock.locked()
        with transaction.atomic():
            assert TURN.lock.locked()
        assert TURN.lock.locked()
    assert not TURN.lock.locked()


def test_a_transaction_that_fails_gives_it_back():
    write("one")
    with pytest.raises(IntegrityError):
        write("one")
    assert not TURN.lock.locked()


def test_a_connection_that_is_closed_in_the_middle_gives_it_back():
    def leave():
        transaction.set_autocommit(False)
        connection._start_transaction_under_autocommit()
        connection.close()

    thread, failures = in_thread(leave)
    thread.join(10)
    assert failures == [] and not TURN.lock.locked()


def test_who_waits_too_long_is_told(settings):
    started, end = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            started.set()
            end.wait(10)

    def be_impatient():
        connection.ensure_connection()
        connection.settings_dict = {**connection.settings_dict, "OPTIONS": {"timeout": 0.05}}
        write("late")

    holder, _ = in_thread(hold)
    assert started.wait(5)
    waiter, failures = in_thread(be_impatient)
    waiter.join(10)
    end.set()
    holder.join(10)
    assert [type(error) for error in failures] == [OperationalError]
    write("after")


def test_many_writers_all_get_their_turn():
    threads = [
        in_thread(lambda number=number: [write(f"team-{number}-{one}") for one in range(10)]) for number in range(8)
    ]
    for thread, failures in threads:
        thread.join(60)
        assert failures == []
    assert Team.objects.filter(name__startswith="team-").count() == 80


def test_a_child_forked_in_the_middle_of_a_write_has_its_own_turn():
    with transaction.atomic():
        if (child := os.fork()) == 0:
            os._exit(0 if TURN.lock.acquire(timeout=1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
