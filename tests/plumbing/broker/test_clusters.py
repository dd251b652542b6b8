"""A real Redis Cluster of three servers and a replica: all keys are on one server, also after it has died."""

import queue
import threading
from contextlib import ExitStack
from functools import partial

import pytest
import redis
from django.conf import settings
from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured

from agents.http import throttles
from config import brokers
from functions import slots
from plumbing.broker import broadcast, clusters
from plumbing.broker.broadcast import name_channel
from plumbing.broker.line import Line
from plumbing.broker.listener import Listener
from plumbing.broker.servers import Servers, make_pool
from runs.queue.carriers.redis_list import RedisList
from tests.clusters import PATIENCE_S, Cluster, goes_on
from tests.live import wait_for


@pytest.fixture
def cluster(tmp_path):
    with ExitStack() as stack:
        yield Cluster(stack, tmp_path)


@pytest.fixture
def site(cluster, monkeypatch):
    """Every address of the site names the cluster."""
    for name in ("CHANNEL_URL", "CACHE_URL", "QUEUE_URL"):
        monkeypatch.setattr(settings, name, cluster.url)
    one = {**settings.CACHES["default"], "LOCATION": [cluster.url]}
    monkeypatch.setattr(caches, "settings", {"default": one})
    kept = (broadcast.server_connection, throttles.cache_connection, slots.connection)
    for each in kept:
        each.cache_clear()
    yield caches.create_connection("default")
    for each in kept:
        each.cache_clear()


def test_everything_that_is_kept_there_works_and_is_on_one_server(cluster, site):
    site.set_many({"one": 1, "two": 2}, 60)
    assert site.get_many(["one", "two"]) == {"one": 1, "two": 2}
    assert throttles.count_in_windows(["k1", "a127.0.0.1"]) == [1, 1] and throttles.count_in_windows(["k1"]) == [2]
    with slots.take_slot_if_free(7, 1, 60) as first, slots.take_slot_if_free(7, 1, 60) as second:
        assert first and not second
    carrier, rung, stopping = RedisList(), queue.Queue(), threading.Event()
    listening = threading.Thread(target=carrier.listen, args=(["default", "gpu"], rung.put, stopping))
    listening.start()
    assert carrier.ring("gpu") and rung.get(timeout=PATIENCE_S) == "gpu"
    stopping.set()
    listening.join()
    keys = cluster.keys()
    assert keys.pop(cluster.owner) > 0 and not any(keys.values())


@pytest.fixture
def heard(site):
    """What is published to "{muster}:from-cluster"; its first None is taken."""
    listener, messages = Listener(), queue.Queue()
    listener.subscribe(name_channel("from-cluster"), messages.put)
    assert messages.get(timeout=PATIENCE_S) is None
    yield messages
    listener.unsubscribe(name_channel("from-cluster"), messages.put)


def test_messages_and_commands_go_on_when_the_server_of_the_keys_has_died(cluster, site, heard):
    line = broadcast.server_connection()
    assert line.ask(("SET", name_channel("kept"), "yes"), ("WAIT", 1, 5000))[1] == 1
    cluster.processes[cluster.owner].kill()
    wait_for(lambda: goes_on(partial(line.ask, ("INCR", name_channel("number")))), PATIENCE_S)
    assert line.ask(("GET", name_channel("kept"))) == [b"yes"]
    assert heard.get(timeout=PATIENCE_S) is None, "it subscribed again"
    assert (
        broadcast.publish_message(name_channel("from-cluster"), b"hello") and heard.get(timeout=PATIENCE_S) == b"hello"
    )
    wait_for(lambda: goes_on(partial(site.set, "new", 1)), PATIENCE_S)
    assert cluster.ask(cluster.replica, "ROLE")[0] == b"master"


def test_commands_follow_the_keys_to_another_server(cluster):
    """An administrator hands the slot over; both servers live."""
    line = Line(cluster.url, timeout_s=2)
    line.ask(("SET", name_channel("kept"), "1"))
    cluster.ask(cluster.replica, "CLUSTER", "FAILOVER")
    wait_for(lambda: cluster.ask(cluster.replica, "ROLE")[0] == b"master", PATIENCE_S)
    wait_for(lambda: goes_on(partial(line.ask, ("INCR", name_channel("kept")))), PATIENCE_S)
    assert line.kept().port == cluster.replica


def test_one_living_server_is_enough_to_find_the_others(cluster):
    url = f"cluster://127.0.0.1:1,127.0.0.1:{cluster.servers[1]}"
    assert redis.Redis(connection_pool=Servers.from_url(url, socket_timeout=2)).set("{muster}:x", 1)
    with pytest.raises(redis.ConnectionError, match="No server of the cluster can be used"):
        Line("cluster://127.0.0.1:1", timeout_s=1).ask(("PING",))


def test_a_single_server_is_no_cluster():
    url = settings.CHANNEL_URL
    assert url.startswith("unix://"), "the tests' own server"
    with pytest.raises(ValueError, match="write cluster://"):
        make_pool("cluster:///tmp/socket")


def test_an_address_is_read():
    servers, options = clusters.read_cluster("clusters://ann:p%40ss@one:7000,two?ssl_ca_certs=/ca.pem")
    assert servers == [("one", 7000), ("two", 6379)]
    assert (options["username"], options["password"], options["ssl_ca_certs"]) == ("ann", "p@ss", "/ca.pem")
    assert isinstance(make_pool("clusters://one").make_connection(), redis.SSLConnection)


@pytest.mark.parametrize("url", ["cluster://", "cluster://one,,two", "cluster://one:x", "cluster://one/3"])
def test_an_address_that_cannot_work_is_refused(url):
    with pytest.raises(ValueError):  # noqa: PT011 (int() words it differently)
        make_pool(url)


def test_the_carrier_list_takes_a_cluster_and_celery_does_not():
    url = brokers.broker_url("cluster://one,two")
    assert (
        brokers.check_carrier_setting("list", queue=brokers.queue_url("", url), broker=url, is_postgres=False) == "list"
    )
    with pytest.raises(ImproperlyConfigured, match="Celery cannot use a Redis Cluster"):
        brokers.check_carrier_setting("celery", queue="", broker=url, is_postgres=False)
