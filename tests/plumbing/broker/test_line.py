"""Commands over one connection a thread: errors leave it clean, a broken one is made anew."""

import os
import threading

import pytest
import redis
from django.conf import settings

from plumbing.broker.line import Line


@pytest.fixture
def line():
    made = Line(settings.CACHE_URL, timeout_s=30)
    yield made
    made.ask(("DEL", "line:a", "line:b"))


def test_replies_come_in_order(line):
    assert line.ask(("SET", "line:a", "1"), ("INCR", "line:a"), ("GET", "line:a")) == [b"OK", 2, b"2"]


def test_a_refused_command_does_not_spoil_the_next(line):
    with pytest.raises(redis.ResponseError):
        line.ask(("SET", "line:a", "text"), ("INCR", "line:a"), ("SET", "line:b", "after"))
    assert line.ask(("GET", "line:a"), ("GET", "line:b")) == [b"text", b"after"]


def test_a_connection_that_was_cut_is_made_anew(line):
    (mine,) = line.ask(("CLIENT", "ID"))
    Line(settings.CACHE_URL, timeout_s=30).ask(("CLIENT", "KILL", "ID", mine))
    (other,) = line.ask(("CLIENT", "ID"))
    assert other != mine


def test_each_thread_has_its_own(line):
    found = set(line.ask(("CLIENT", "ID")))
    thread = threading.Thread(target=lambda: found.update(line.ask(("CLIENT", "ID"))))
    thread.start()
    thread.join()
    assert len(found) == 2


def test_a_forked_child_does_not_use_its_parents(line):
    (mine,) = line.ask(("CLIENT", "ID"))
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, str(line.ask(("CLIENT", "ID"))[0]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reading, 32)) != mine
    assert line.ask(("CLIENT", "ID")) == [mine]


def test_a_server_that_is_away_is_a_typed_error():
    away = Line("unix:///nowhere/valkey.sock", timeout_s=1)
    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            away.ask(("PING",))
