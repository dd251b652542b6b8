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


def test_every_connection_overwrites_what_it_deletes():
    overwrites = []

    def ask():
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA secure_delete")
            overwrites.append(cursor.fetchone()[0])

    ask()
    in_thread(ask)[0].join()
    assert overwrites == [1, 1]


def write(name):
    with transaction.atomic():
        Team.objects.create(name=name)


def test_the_turn_is_held_from_the_first_statement_to_the_end():
    with transaction.atomic():
        assert not TURN.lock.locked()
        Team.objects.create(name="first")
        assert TURN.lock.locked()
        with transaction.atomic():
            assert TURN.lock.locked()
        assert TURN.lock.locked()
    assert not TURN.lock.locked()


def test_a_read_first_takes_the_turn_too_so_that_nobody_writes_between():
    with transaction.atomic():
        assert not Team.objects.exists()
        assert TURN.lock.locked()


def test_a_transaction_without_a_statement_is_none():
    with transaction.atomic(), transaction.atomic(savepoint=False):
        pass
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        1 / 0  # noqa: B018
    write("after")
    assert not TURN.lock.locked() and Team.objects.count() == 1


def test_what_fails_in_an_inner_transaction_leaves_the_outer_one():
    with transaction.atomic():
        with pytest.raises(IntegrityError), transaction.atomic():
            write("one")
            write("one")
        write("two")
    assert set(Team.objects.values_list("name", flat=True)) == {"two"}


def test_a_transaction_that_fails_gives_it_back():
    write("one")
    with pytest.raises(IntegrityError):
        write("one")
    assert not TURN.lock.locked()


def test_a_connection_that_is_closed_in_the_middle_gives_it_back():
    def leave():
        transaction.set_autocommit(False)
        connection._start_transaction_under_autocommit()
        assert not Team.objects.exists() and TURN.lock.locked()
        connection.close()

    thread, failures = in_thread(leave)
    thread.join(60)
    assert failures == [] and not TURN.lock.locked()


def test_who_waits_too_long_is_told(settings):
    started, end = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            Team.objects.create(name="early")
            started.set()
            end.wait(60)

    def be_impatient():
        connection.ensure_connection()
        connection.settings_dict = {**connection.settings_dict, "OPTIONS": {"timeout": 0.05}}
        write("late")

    holder, _ = in_thread(hold)
    assert started.wait(60)
    waiter, failures = in_thread(be_impatient)
    waiter.join(60)
    end.set()
    holder.join(60)
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
        Team.objects.create(name="parent")
        if (child := os.fork()) == 0:
            os._exit(0 if TURN.lock.acquire(timeout=60) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
