"""Hosts on this machine: network namespaces joined by a bridge. Everything lives in namespaces of the one program that
made them, so nothing of it can be seen or reached from outside, and all of it ends with that program.
"""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field

NEEDED = ("unshare", "nsenter", "ip", "tc")
NETWORK = "10.77.0"
OUTSIDE = f"{NETWORK}.1"  # the bridge: what is not Muster listens here
INSIDE = "MUSTER_TEST_HOSTS"
# A network, host name and process table of its own, which end with the first process in them.
APART = ["unshare", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
AS_WE_ARE = ["--user", "--map-current-user", "--keep-caps"]
PROBE = """ip link add probe type bridge && ip link set probe up && ip link add left type veth peer name right &&
ip link set left master probe && ip link set dev left type bridge_slave isolated on"""


def apart() -> list[str]:
    """The words before a command that is to have namespaces of its own."""
    return APART if os.geteuid() == 0 else [*APART, *AS_WE_ARE]


def refusal() -> str:
    """Why hosts cannot be made on this machine, in a sentence; empty if they can."""
    if missing := [name for name in NEEDED if not shutil.which(name)]:
        return f"{', '.join(missing)} not installed: apt-get install iproute2 util-linux"
    tried = subprocess.run([*apart(), "sh", "-c", PROBE], capture_output=True, text=True)
    if tried.returncode:
        return f"network namespaces and bridges are not allowed here: {tried.stderr.strip()[-200:]}"
    return ""


def is_apart() -> bool:
    return INSIDE in os.environ


def go_apart(module: str) -> None:
    """Execute this program again with namespaces of its own."""
    command = [*apart(), sys.executable, "-m", module, *sys.argv[1:]]
    os.execvpe(command[0], command, os.environ | {INSIDE: "1"})


@dataclass(eq=False)
class Host:
    name: str
    address: str
    holder: subprocess.Popen = field(repr=False)  # it sleeps, and so keeps the namespaces

    @property
    def link(self) -> str:
        return f"to-{self.name}"

    def command(self, *words: str) -> list[str]:
        """The same command on this host."""
        return ["nsenter", "--target", str(self.holder.pid), "--net", "--uts", "--", *words]

    def run(self, *words: str) -> None:
        do(*self.command(*words))


class Network:
    """`add` hosts; `cut` them from each other, make their lines slow, take them down."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        do("ip", "link", "set", "lo", "up")
        do("ip", "link", "add", "bridge", "type", "bridge")
        do("ip", "address", "add", f"{OUTSIDE}/24", "dev", "bridge")
        do("ip", "link", "set", "bridge", "up")

    def add(self, name: str) -> Host:
        holder = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", "echo; exec sleep infinity"],
                                  stdout=subprocess.PIPE)  # fmt: skip
        assert holder.stdout is not None
        holder.stdout.readline()  # written after the process has entered its own namespaces
        host = Host(name, f"{NETWORK}.{len(self.hosts) + 2}", holder)
        self.hosts[name] = host
        do("ip", "link", "add", host.link, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        do("ip", "link", "set", host.link, "master", "bridge", "up")
        host.run("hostname", f"host-{name}")
        host.run("ip", "link", "set", "lo", "up")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        return host

    def cut(self, *hosts: Host) -> None:
        """These no longer reach each other, in silence; they reach everybody else, and the world outside."""
        for host in hosts:
            do("ip", "link", "set", "dev", host.link, "type", "bridge_slave", "isolated", "on")

    def take_down(self, host: Host) -> None:
        do("ip", "link", "set", host.link, "down")

    def bring_up(self, host: Host) -> None:
        do("ip", "link", "set", host.link, "up")

    def heal(self) -> None:
        for host in self.hosts.values():
            self.bring_up(host)
            do("ip", "link", "set", "dev", host.link, "type", "bridge_slave", "isolated", "off")
            with suppress(subprocess.CalledProcessError):
                do("tc", "qdisc", "delete", "dev", host.link, "root")

    def delay(self, host: Host) -> bool:
        """Delay and lose what is sent to this host; False if the kernel cannot."""
        rule = ("netem", "delay", "40ms", "30ms", "loss", "3%")
        return not subprocess.run(
            ["tc", "qdisc", "add", "dev", host.link, "root", *rule], capture_output=True
        ).returncode

    def throttle(self, host: Host) -> None:
        do("tc", "qdisc", "add", "dev", host.link, "root", "tbf", "rate", "2mbit", "burst", "8kb", "latency", "60ms")


def do(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
