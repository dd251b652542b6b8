"""Commands over one connection a thread: errors leave it clean, a broken one is made anew."""

import os
import threading

import pytest
import redis
from django.conf import settings

from plumbing.broker import broadcast
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


@pytest.fixture
def listener():
    """A subscriber of the channel “line:heard”."""
    client = redis.Redis.from_url(settings.CACHE_URL)
    subscription = client.pubsub(ignore_subscribe_messages=True)
    subscription.subscribe("line:heard")
    subscription.get_message(timeout=60)
    yield subscription
    subscription.close()
    client.close()


def texts_heard(listener, number):
    """So many messages, in their order."""
    heard = []
    while len(heard) < number:
        message = listener.get_message(timeout=60)
        assert message is not None, heard
        heard.append(message["data"])
    return heard


def test_what_is_sent_needs_no_reply_and_later_replies_stay_in_order(line, listener):
    for number in range(200):  # more than the number of unread replies that a connection keeps
        line.send(("PUBLISH", "line:heard", number))
    assert line.ask(("SET", "line:a", "1"), ("GET", "line:a")) == [b"OK", b"1"]
    assert texts_heard(listener, 200) == [str(number).encode() for number in range(200)]


def test_an_error_of_what_was_sent_is_nobody_elses(line):
    line.ask(("SET", "line:a", "text"))
    line.send(("INCR", "line:a"))
    assert line.ask(("GET", "line:a")) == [b"text"]


def test_what_was_sent_into_a_cut_connection_is_sent_again(line, listener):
    (mine,) = line.ask(("CLIENT", "ID"))
    Line(settings.CACHE_URL, timeout_s=30).ask(("CLIENT", "KILL", "ID", mine))
    line.send(("PUBLISH", "line:heard", "once"))
    line.ask(("PING",))
    assert texts_heard(listener, 1) == [b"once"]


def test_a_server_that_stands_still_leaves_nothing_behind_for_the_next_command(line):
    """Its late replies belong to nobody: the next command has a connection of its own."""
    slow = Line(settings.CACHE_URL, timeout_s=0.2)
    slow.send(("SET", "line:a", "1"))
    with pytest.raises(redis.TimeoutError):
        slow.ask(("BRPOP", "line:none", 2))
    slow.timeout_s = 0  # what was sent before is too old to be sent again
    assert slow.ask(("GET", "line:a")) == [b"1"]


def test_a_publication_that_is_confirmed_arrives_though_the_connection_was_cut(listener, monkeypatch):
    """A device would wait for a call that was reported as sent and that the broker never had."""
    mine = Line(settings.CACHE_URL, timeout_s=30)
    monkeypatch.setattr(broadcast, "server_connection", lambda: mine)
    (connection,) = mine.ask(("CLIENT", "ID"))
    Line(settings.CACHE_URL, timeout_s=30).ask(("CLIENT", "KILL", "ID", connection))
    assert broadcast.publish_message(b"line:heard", b"a call") is True
    assert texts_heard(listener, 1) == [b"a call"]
