"""Addresses of Redis servers, and a real failover that Sentinel decides."""

import subprocess
from contextlib import ExitStack

import pytest
import redis
from django.core.exceptions import ImproperlyConfigured

from config import brokers
from plumbing.broker.line import Line
from plumbing.broker.servers import Servers, is_clustered, make_pool, read_sentinel
from supervisor import refusals, valkey
from tests.clusters import goes_on
from tests.live import wait_for
from tests.servers import free_port

URL = "sentinel://ann:p%40ss@one:1,two/main?db=3"


def test_an_address_of_sentinels_is_read():
    hosts, service, login = read_sentinel(URL)
    assert hosts == [("one", 1), ("two", 26379)] and service == "main"
    assert login == {"db": 3, "username": "ann", "password": "p@ss"}


@pytest.mark.parametrize("url", ["sentinel://", "sentinel://one:1", "sentinel:///main", "sentinel://one:x/main"])
def test_an_address_without_host_or_service_is_refused(url):
    with pytest.raises(ValueError):  # noqa: PT011 (int() words it differently)
        make_pool(url)


def test_celery_gets_the_sentinels_in_its_own_words():
    url, options = brokers.for_celery(URL)
    assert url == "sentinel://ann:p%40ss@one:1/3;sentinel://ann:p%40ss@two:26379/3"
    assert options["master_name"] == "main" and options["visibility_timeout"]
    assert brokers.for_celery("redis://one/0")[0] == "redis://one/0"
    with pytest.raises(ImproperlyConfigured, match="BROKER_URL cannot be read"):
        brokers.for_celery("sentinel://one")


def test_the_list_takes_sentinels():
    assert brokers.check_carrier_setting("list", queue=brokers.queue_url("", URL), is_postgres=False) == "list"


@pytest.fixture
def servers(tmp_path):
    """(the address, the master's process); a replica and one Sentinel stand beside it."""
    master, replica, sentinel = free_port(), free_port(), free_port()
    with ExitStack() as stack:
        first = run(stack, tmp_path / "master", "--port", str(master))
        wait_for(lambda: answers(master))
        run(stack, tmp_path / "replica", "--port", str(replica), "--replicaof", "127.0.0.1", str(master))
        wait_for(lambda: answers(replica) and ask(replica, "INFO", "replication")["master_link_status"] == "up")
        config = tmp_path / "sentinel.conf"
        config.write_text(
            f"port {sentinel}\nsentinel monitor main 127.0.0.1 {master} 1\n"
            "sentinel down-after-milliseconds main 300\nsentinel failover-timeout main 3000\n"
        )
        run(stack, tmp_path / "sentinel", str(config), "--sentinel")
        wait_for(lambda: answers(sentinel) and ask(sentinel, "SENTINEL", "REPLICAS", "main"))
        yield f"sentinel://127.0.0.1:{sentinel}/main?db=1", first


def run(stack, folder, *arguments):
    folder.mkdir()
    quiet = () if "--sentinel" in arguments else ("--save", "", "--dir", str(folder))
    process = subprocess.Popen([str(valkey.find_binary()), *arguments, *quiet], cwd=folder, stdout=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def ask(port, *command):
    with redis.Redis(port=port, socket_timeout=2) as line:
        return line.execute_command(*command)


def answers(port):
    try:
        return ask(port, "PING")
    except redis.RedisError:
        return False


def test_commands_go_on_at_the_new_master_after_a_failover(servers):
    url, master = servers
    line, cache = Line(url, timeout_s=1), redis.Redis(connection_pool=Servers.from_url(url, socket_timeout=1))
    assert line.ask(("SET", "kept", "yes"), ("WAIT", 1, 5000))[1] == 1
    assert cache.get("kept") == b"yes"
    master.kill()
    wait_for(lambda: goes_on(lambda: line.ask(("LPUSH", "list", "1"))), 60)
    wait_for(lambda: goes_on(lambda: cache.set("new", "1")), 60)
    assert line.ask(("GET", "kept")) == [b"yes"]


@pytest.mark.parametrize("mode", ["yes", "no"])
def test_a_server_of_a_cluster_is_named_as_such(tmp_path, mode):
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    with ExitStack() as stack:
        # Its second port would be 10,000 above the first, which may be beyond the last port.
        ports = ("--port", str(port), "--cluster-port", str(free_port()))
        run(stack, tmp_path / "server", *ports, "--cluster-enabled", mode)
        wait_for(lambda: answers(port))
        assert is_clustered(url) is (mode == "yes")
        if mode == "no":
            return refusals.check_clusters(CACHE_URL=url)
        with pytest.raises(
            refusals.Refusal, match="^CACHE_URL: this server belongs to a Redis Cluster; write cluster://"
        ):
            refusals.check_clusters(CACHE_URL=url, CHANNEL_URL="redis://127.0.0.1:1/0")
