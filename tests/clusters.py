"""A real Redis Cluster, of the binary that Muster brings."""

import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis

from plumbing.broker import clusters
from supervisor import valkey
from tests.live import wait_for
from tests.servers import free_port

PATIENCE_S = 60


def goes_on(work: Callable[[], Any]) -> bool:
    """Whether this works again, after a server has died."""
    try:
        work()
    except (redis.RedisError, OSError):
        time.sleep(0.1)
        return False
    return True


class Cluster:
    """Three servers with a third of the slots each, and a replica of the one that has Muster's slot."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.stack = stack
        self.folder = folder
        self.processes: dict[int, Any] = {}
        self.servers = [self.start() for _ in range(3)]
        third = 16384 // 3
        for place, port in enumerate(self.servers):
            last = 16383 if place == 2 else (place + 1) * third - 1
            self.ask(port, "CLUSTER", "ADDSLOTSRANGE", place * third, last)
        self.owner = self.servers[min(clusters.SLOT // third, 2)]
        self.replica = self.start()
        first = self.servers[0]
        for port in (*self.servers[1:], self.replica):
            self.ask(port, "CLUSTER", "MEET", "127.0.0.1", first, self.processes[first].bus)
        wait_for(lambda: all(self.knows(port) for port in self.processes), PATIENCE_S)
        owner_id = self.ask(self.owner, "CLUSTER", "MYID").decode()
        self.ask(self.replica, "CLUSTER", "REPLICATE", owner_id)
        wait_for(self.is_copied, PATIENCE_S)
        self.url = "cluster://" + ",".join(f"127.0.0.1:{port}" for port in self.servers)

    def start(self) -> int:
        port = free_port()
        bus = free_port()
        home = self.folder / str(port)
        home.mkdir()
        options = {
            "port": port, "cluster-port": bus, "cluster-enabled": "yes", "cluster-node-timeout": 1000, "save": "",
            "dir": home,
        }  # fmt: skip
        command = [str(valkey.find_binary())]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        process: Any = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        process.bus = bus
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        self.processes[port] = process
        wait_for(lambda: self.answers(port), PATIENCE_S)
        return port

    def ask(self, port: int, *command: Any) -> Any:
        with redis.Redis(port=port, socket_timeout=2) as line:
            line.response_callbacks.clear()
            return line.execute_command(*command)

    def answers(self, port: int) -> Any:
        try:
            return self.ask(port, "PING")
        except redis.RedisError:
            return False

    def knows(self, port: int) -> bool:
        said = self.ask(port, "CLUSTER", "INFO")
        return b"cluster_state:ok" in said and b"cluster_known_nodes:4" in said

    def is_copied(self) -> bool:
        return b"master_link_status:up" in self.ask(self.replica, "INFO", "replication")

    def keys(self) -> dict[int, int]:
        """The number of keys on each server."""
        return {port: int(self.ask(port, "DBSIZE")) for port in self.servers}
