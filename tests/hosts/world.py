"""Everything that a scenario has: the site, its orders, and chance as the seed decides."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.live import data_directory

from .network import Host, Network
from .orders import Orders
from .outside import Till, model
from .site import CLOCKS, Site

LEASE_S = 4
AHEAD_S = 100.0  # of a wrong clock


@dataclass
class World:
    site: Site
    orders: Orders
    chance: random.Random
    is_long: bool

    def say(self, text: str) -> None:
        print(f"    {text}", flush=True)

    def some(self, number: int, most_s: float) -> None:
        """Orders that take from nothing to so many seconds, with the model or at the till."""
        for _ in range(number):
            self.orders.send(self.chance.uniform(0, most_s) / 2, self.chance.uniform(0, most_s))

    def restart(self, *programs: tuple[str, Host, float], **environment: str) -> None:
        """Each (kind, host, seconds by which its clock is ahead) again, with these settings."""
        for kind, host, _ in programs:
            self.site.of(kind, host).process.terminate()
        for kind, host, _ in programs:
            self.site.of(kind, host).stop()
        self.site.ready(
            *[self.site.start(kind, host, ahead_s=ahead_s, **environment) for kind, host, ahead_s in programs]
        )

    def skew(self) -> bool:
        """Worker and web server of `c`, and the worker of `b`, with wrong clocks; False if that cannot be done here."""
        if not CLOCKS:
            self.say("skipped: libfaketime is not installed: apt-get install faketime")
            return False
        b, c = self.site.b, self.site.c
        self.restart(("worker", b, AHEAD_S), ("worker", c, -AHEAD_S), ("web", c, AHEAD_S))
        return True

    def start_workers(self) -> None:
        self.site.ready(*[self.site.start("worker", host) for host in (self.site.b, self.site.c)])


@contextmanager
def world(*, is_long: bool) -> Iterator[World]:
    """Web servers and workers on `b` and `c` are ready."""
    with data_directory() as scratch:
        network = Network()
        with Till() as till, model() as stub:
            site = Site(scratch, network, LEASE_S, is_large=is_long)
            try:
                site.ready(*[site.start(kind, host) for host in (site.b, site.c) for kind in ("web", "worker")])
                orders = Orders(site, till, stub)
                orders.set_up()
                yield World(site, orders, random.Random(), is_long)
            finally:
                site.stop()
