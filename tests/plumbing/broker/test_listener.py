"""One thread hears all channels: subscriptions stand, come back after the broker was away, and end."""

import asyncio
import os
import queue
import socket
import threading

import pytest
import redis
from django.conf import settings

from plumbing.broker import broadcast
from plumbing.broker.announcements import Announcements, Waiter, format_line
from plumbing.broker.broadcast import name_channel
from plumbing.broker.listener import Listener

PATIENCE_S = 60


@pytest.fixture
def listener():
    return Listener()


@pytest.fixture
def heard(listener):
    """A subscriber to "{muster}:test": `heard.get()` is the next message; its first None is taken."""
    messages = queue.Queue()
    listener.subscribe(name_channel("test"), messages.put)
    assert messages.get(timeout=PATIENCE_S) is None
    yield lambda: messages.get(timeout=PATIENCE_S)
    listener.unsubscribe(name_channel("test"), messages.put)


def subscribers(channel):
    return broadcast.server_connection().ask(("PUBSUB", "NUMSUB", channel))[0][1]


def test_the_private_part_of_redis_py_is_as_it_was_checked():
    """After an upgrade, read `Listener.listen` beside redis/connection.py, then change this."""
    assert redis.__version__.split(".")[:2] == ["7", "4"], (
        "check plumbing/broker/listener.py against this version of redis-py"
    )
    connection = redis.ConnectionPool.from_url(settings.CHANNEL_URL).make_connection()
    connection.connect()
    assert isinstance(connection._sock, socket.socket)
    connection.disconnect()


def test_a_message_reaches_every_subscriber_of_its_channel(listener, heard):
    second = queue.Queue()
    listener.subscribe(name_channel("test"), second.put)
    assert second.get(timeout=PATIENCE_S) is None
    assert broadcast.publish_message(name_channel("test"), {"number": 1}) and broadcast.publish_message(
        name_channel("test"), b"two"
    )
    assert [heard(), heard()] == [b'{"number":1}', b"two"]
    assert [second.get(timeout=PATIENCE_S) for _ in range(2)] == [b'{"number":1}', b"two"]
    assert subscribers(name_channel("test")) == 1


def test_channels_share_one_thread(listener, heard):
    before = set(threading.enumerate())
    for number in range(50):
        listener.subscribe(name_channel("test", number), lambda message: None)
    assert listener.wait_until_standing(name_channel("test", 49), PATIENCE_S)
    assert set(threading.enumerate()) <= before


def test_a_channel_without_subscribers_is_given_up(listener, heard):
    messages = queue.Queue()
    listener.subscribe(name_channel("other"), messages.put)
    assert messages.get(timeout=PATIENCE_S) is None
    listener.unsubscribe(name_channel("other"), messages.put)
    while subscribers(name_channel("other")):
        pass
    assert not listener.is_standing(name_channel("other"))


def test_after_a_break_all_subscribers_learn_that_they_may_have_missed_something(listener, heard, monkeypatch):
    monkeypatch.setattr("plumbing.broker.listener.AGAIN_S", 0)
    broadcast.server_connection().ask(("CLIENT", "KILL", "TYPE", "pubsub"))
    assert heard() is None
    broadcast.publish_message(name_channel("test"), b"again")
    assert heard() == b"again"


def test_a_subscriber_that_fails_does_not_stop_the_others(listener, heard, caplog):
    def fails(message):
        raise ValueError(message)

    listener.subscribe(name_channel("test"), fails)
    broadcast.publish_message(name_channel("test"), b"one")
    broadcast.publish_message(name_channel("test"), b"two")
    assert [heard(), heard()] == [b"one", b"two"]
    assert "could not be read" in caplog.text


async def test_a_loop_hears_in_its_own_thread(listener):
    messages = asyncio.Queue()

    def hear(message):
        messages.put_nowait((message, threading.current_thread()))

    listener.subscribe(name_channel("test"), hear, loop=asyncio.get_running_loop())
    async with asyncio.timeout(PATIENCE_S):
        assert await messages.get() == (None, threading.current_thread())
        broadcast.publish_message(name_channel("test"), b"hello")
        assert await messages.get() == (b"hello", threading.current_thread())


def test_a_forked_child_hears_with_a_thread_of_its_own(listener, heard):
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        messages = queue.Queue()
        listener.subscribe(name_channel("child"), messages.put)
        messages.get(timeout=PATIENCE_S)
        broadcast.publish_message(name_channel("child"), b"hello")
        os.write(writing, messages.get(timeout=PATIENCE_S))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 32) == b"hello"


# -- announcements -----------------------------------------------------------------------------------------------------


def test_a_waiter_gets_the_news_of_its_own_key():
    news = Announcements("test-news")
    assert news.listen()
    with news.waiter("a", Waiter) as mine, news.waiter("a", Waiter) as too, news.waiter("b", Waiter) as other:
        broadcast.publish_message(news.channel, b"\n".join([format_line("x", {}), format_line("a", {"text": "é\n"})]))
        assert mine.wait(PATIENCE_S) and too.wait(PATIENCE_S)
        assert mine.news == too.news == {"text": "é\n"}
        assert not other.wait(0)
    assert not news.waiters


def test_news_that_is_long_is_read_from_its_row():
    news = Announcements("test-long-news")
    news.listen()
    with news.waiter("a", Waiter) as mine:
        broadcast.publish_message(news.channel, format_line("a", {"text": "x" * 100_000}))
        assert mine.wait(PATIENCE_S) and mine.news is None


def test_the_latest_news_is_kept_for_a_waiter_that_comes_late():
    news = Announcements("test-late-news", remembered=2)
    for key in "abc":
        news.hear(format_line(key, {"key": key}))
    with news.waiter("a", Waiter) as first, news.waiter("c", Waiter) as last:
        assert not first.wait(0) and last.wait(0)
        assert last.news == {"key": "c"}
