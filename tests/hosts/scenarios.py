"""What happens to the hosts. Each begins and ends with a web server and a worker on `b` and on `c`, and ends with a
comparison of the rows with the ledger (`Orders.settle`).
"""

import time
from collections.abc import Callable

import httpx2

from tests.live import wait_for

from .network import Host
from .site import Program
from .world import AHEAD_S, World


def holds(world: World, host: Host) -> int:
    """How many runs the workers of this host hold, by the rows."""
    like = f"host-{host.name}:%"
    return world.site.rows("SELECT count(*) FROM runs_run WHERE status = 'running' AND lease_owner LIKE %s", like)[0][0]


def is_ready(world: World, host: Host) -> bool:
    return readiness(world, host) == 200


def readiness(world: World, host: Host) -> int:
    """The status of its answer; 0 without one."""
    try:
        return world.orders.client(host).get("/readyz").status_code
    except httpx2.HTTPError:
        return 0


def partition(world: World) -> None:
    """A worker and a web server lose the database for longer than a lease, and go on writing when it is back."""
    site, lease_s = world.site, world.site.lease_s
    world.some(24, 2 * lease_s)
    wait_for(lambda: holds(world, site.b) > 2)
    held = holds(world, site.b)
    site.network.cut(site.a, site.b)
    try:
        for _ in range(4):
            world.orders.send(at=site.c)
        wait_for(lambda: not holds(world, site.b), lease_s + 15)
        wait_for(lambda: readiness(world, site.b) == 503, 40)  # it does not wait for a host that is gone
        time.sleep(2)
    finally:
        site.network.heal()
    world.say(f"{held} runs were held by the host that was cut off")
    wait_for(lambda: is_ready(world, site.b), 60)
    world.orders.settle()


def stopped(world: World) -> None:
    """SIGSTOP of a worker for longer than its lease; then it goes on as if nothing had happened."""
    site, lease_s = world.site, world.site.lease_s
    world.some(24, 2 * lease_s)
    wait_for(lambda: holds(world, site.b) > 2)
    worker = site.of("worker", site.b)
    worker.freeze()
    held = holds(world, site.b)
    try:
        wait_for(lambda: not holds(world, site.b), lease_s + 15)
        time.sleep(1)
    finally:
        worker.thaw()
    world.say(f"{held} runs were held by the worker that was stopped")
    world.orders.settle()


def bad_line(world: World) -> None:
    """Delay and loss between a host and the database; without netem a slow line that fails again and again."""
    site = world.site
    has_netem = site.network.delay(site.b)
    world.say(
        "netem: 40 ms ± 30 ms, 3 % lost" if has_netem else "no netem in this kernel: 2 Mbit/s, and failures of 1.5 s"
    )
    if not has_netem:
        site.network.throttle(site.b)
    try:
        for _ in range(4):
            world.some(5, 3)
            if not has_netem:
                site.network.take_down(site.b)
                time.sleep(1.5)
                site.network.bring_up(site.b)
            time.sleep(1)
    finally:
        site.network.heal()
    world.orders.settle()


def kills(world: World) -> None:
    """kill -9 of anything at random while orders come in. Here the web servers take runs, too."""
    ports = [("web", host, 0.0) for host in (world.site.b, world.site.c)]
    world.restart(*ports, MUSTER_WORKER_POOLS="default")
    for _ in range(12 if world.is_long else 4):
        world.some(6, 3)
        world.say(f"kill -9: {kill_something(world)}")
        time.sleep(world.chance.uniform(0, 2))
    world.orders.settle()
    world.restart(*ports)


def kill_something(world: World) -> str:
    site, host = world.site, world.chance.choice([world.site.b, world.site.c])
    victim = world.chance.choice(["web", "worker", "worker", "valkey", "postgres", "host"])
    if victim in ("web", "worker"):
        site.of(victim, host).fall()
        return f"{victim} of {host.name}"
    if victim == "host":
        for kind in ("web", "worker"):
            site.of(kind, host).die()
            site.start(kind, host, MUSTER_WORKER_POOLS="default")
        return f"everything on {host.name}"
    server = getattr(site, victim)
    server.kill()
    time.sleep(world.chance.uniform(0, 1))
    server.start()
    return victim


def clocks(world: World) -> None:
    """The clock of one worker is 100 seconds ahead, that of the other 100 seconds behind; so is one web server's. Leases,
    retries and schedules go by the database's.
    """
    site, orders = world.site, world.orders
    if not world.skew():
        return
    world.some(10, 4)
    runs = list(orders.runs.values())
    chain, schedule = orders.retried_chain(wait_s=4), orders.schedule(every_s=2)
    wait_for(lambda: orders.status(chain) in ("succeeded", "failed"), 60)
    waited = orders.waits(chain)
    wait_for(lambda: len(orders.distances(schedule)) >= 3, 60)
    orders.post(f"schedules/{schedule}/pause")
    distances = orders.distances(schedule)
    world.say(
        f"retried after {waited:.1f} s (4 wanted), scheduled runs began {min(distances)} to {max(distances)} s late"
    )
    assert orders.status(chain) == "succeeded" and 3 < waited < AHEAD_S / 2, f"retried after {waited} s"
    assert min(distances) > -1 and max(distances) < AHEAD_S / 2, distances
    orders.settle()
    assert {orders.attempts(run) for run in runs} == {1}, "a clock took a lease for expired"
    world.restart(("worker", site.b, 0), ("worker", site.c, 0), ("web", site.c, 0))


def wiped(world: World) -> None:
    """The workers are away, runs are queued, Valkey loses everything: they are found in the database."""
    site = world.site
    site.without("worker")
    world.some(10, 1)
    site.redis().flushall()
    world.start_workers()
    world.orders.settle()


def carriers(world: World) -> None:
    """Two kinds of carrier at once, as while migrating: one web server and worker ring with a list, the others with NOTIFY;
    then each worker alone has to find what was rung the other way.
    """
    site = world.site
    world.restart(("web", site.c, 0), ("worker", site.c, 0), MUSTER_CARRIER="postgres")
    for host in (site.b, site.c):
        for _ in range(6):
            world.orders.send(0.2, 0.2, at=host)
    world.orders.settle()
    site.of("worker", site.c).stop()
    for host in (site.b, site.c):
        world.orders.send(at=host)
    world.orders.settle()
    world.restart(("web", site.c, 0), ("worker", site.c, 0))


def carrier_away(world: World) -> None:
    """Valkey is away when a worker starts: the worker starts, works, and is woken when Valkey is there again."""
    site = world.site
    site.without("worker")
    site.valkey.kill()
    try:
        world.some(4, 1)
        worker = site.start("worker", site.b)
        world.orders.settle(60)
    finally:
        site.valkey.start()
    site.ready(worker, site.start("worker", site.c))
    world.some(4, 1)
    world.orders.settle()


def older_worker(world: World) -> None:
    """A worker that does not know the format of a definition leaves its runs to a newer worker."""
    site, orders = world.site, world.orders
    site.without("worker")
    (format_,) = site.rows("SELECT max(format) FROM runs_worker")[0]
    runs = [orders.send(0.1, 0.1) for _ in range(4)]
    site.rows("UPDATE runs_run SET needs = %s WHERE id = ANY(%s)", format_ + 1, runs)
    old = site.start("worker", site.b)
    others = [orders.send(0.1, 0.1) for _ in range(4)]
    site.ready(old)
    wait_for(lambda: all(orders.status(run) == "succeeded" for run in others))
    time.sleep(5)
    assert {orders.status(run) for run in runs} == {"queued"}
    site.rows("UPDATE runs_run SET needs = %s WHERE id = ANY(%s)", format_, runs)  # as if a newer one came
    orders.settle()
    site.ready(site.start("worker", site.c))


def drained(world: World) -> None:
    """SIGTERM with runs in flight: the worker finishes them, and nothing is begun twice."""
    site, orders = world.site, world.orders
    runs = [orders.send(1.5, 1.5) for _ in range(16)]
    wait_for(lambda: holds(world, site.b) > 2)
    code = site.of("worker", site.b).stop()
    orders.settle()
    assert code == 0, f"exit code {code}"
    assert {orders.attempts(run) for run in runs} == {1}
    site.ready(site.start("worker", site.b))


def backlog(world: World) -> None:
    """Many runs wait while the workers are full: nobody asks the database for more than without them. Then all are done."""
    site, orders = world.site, world.orders
    number = 20_000 if world.is_long else 300
    alone = beside_full_workers(world, 0)
    orders.settle()
    beside = beside_full_workers(world, number)
    world.say(f"transactions in 8 s with full workers: {alone} alone, {beside} beside {number} queued runs")
    assert beside < alone * 1.5 + 20
    began = time.monotonic()
    orders.settle(240 + number / 10)
    world.say(f"{number} runs drained in {time.monotonic() - began:.0f} s")
    world.restart(("worker", site.b, 0), ("worker", site.c, 0))


def beside_full_workers(world: World, queued: int) -> int:
    """Transactions in 8 s while two workers have all that they may, and so many runs wait behind."""
    site, orders = world.site, world.orders
    site.without("worker")
    full = orders.fill(40, thinks_s=30)
    if queued:
        orders.fill(queued)
    site.ready(*[site.start("worker", host, MUSTER_WORKER_RUNS="20") for host in (site.b, site.c)])
    wait_for(lambda: holds(world, site.b) + holds(world, site.c) == 40)
    time.sleep(2)
    counted = transactions(world, 8)
    assert {orders.status(run) for run in full} == {"running"}, "the machine was too slow to measure this"
    return counted


def transactions(world: World, seconds: float) -> int:
    """How many the database ends in this time."""
    read = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'muster'"
    before = world.orders.one(read)
    time.sleep(seconds)
    return world.orders.one(read) - before


def lost(world: World) -> None:
    """A worker dies with many runs that wait for their model: the other one has them all soon after their leases."""
    site, orders = world.site, world.orders
    # All must have begun before the first ends, and no model may be silent for MUSTER_MODEL_SILENCE (120 s).
    number, thinks_s = (2_000, 100) if world.is_long else (200, 60)
    site.of("worker", site.c).stop()
    orders.fill(number, agent="talker", thinks_s=thinks_s)
    wait_for(lambda: holds(world, site.b) == number, 300, lambda: str(holds(world, site.b)))
    site.ready(site.start("worker", site.c))
    site.of("worker", site.b).die()
    began = time.monotonic()
    wait_for(lambda: holds(world, site.c) == number, 300, lambda: str(holds(world, site.c)))
    took = time.monotonic() - began
    world.say(f"{number} runs of a killed worker at work again after {took:.1f} s; its lease was {site.lease_s} s")
    site.ready(site.start("worker", site.b))
    orders.settle(180 + thinks_s)


def joins_and_leaves(world: World) -> None:
    """A second worker joins and leaves while runs wait: the rate follows within ten seconds. Each may have 8 in work."""
    site, orders = world.site, world.orders
    site.without("worker")
    orders.fill(1_200, thinks_s=1)
    alone = rate(world, site.start("worker", site.b, MUSTER_WORKER_RUNS="8"))
    both = rate(world, site.start("worker", site.c, MUSTER_WORKER_RUNS="8"))
    site.of("worker", site.b).die()
    left = rate(world, site.of("worker", site.c))
    world.say(f"runs in a second: {alone:.1f} with one worker, {both:.1f} with two, {left:.1f} when one had died")
    world.say(f"ten seconds after: {both / alone / 2:.2f} of the sum with two, {left / alone:.2f} when one had died")
    assert both > 1.4 * alone and left > 0.7 * alone  # 1.8 and 0.9 on an idle machine
    site.of("worker", site.c).stop()
    world.start_workers()
    world.say(f"{orders.settle()} runs: 0 lost, 0 done twice, 0 stuck")


def rate(world: World, program: Program) -> float:
    """Runs that end in a second, over ten seconds that begin ten seconds after this program is ready."""
    world.site.ready(program)
    time.sleep(10)
    ended = "SELECT count(*) FROM runs_run WHERE status = 'succeeded'"
    before = world.orders.one(ended)
    time.sleep(10)
    return (world.orders.one(ended) - before) / 10


def full_disk(world: World) -> None:
    """The disk of PostgreSQL is full: requests are refused in a sentence, nothing is lost, and all goes on with room."""
    site, orders = world.site, world.orders
    world.some(8, 4)
    said = set()
    site.fill_disk()
    try:
        until = time.monotonic() + 20
        while time.monotonic() < until and 503 not in said:
            said.add(orders.try_to_send("x" * 100_000))
    finally:
        site.make_room()
    world.say(f"answers on a full disk: {said}")
    assert 503 in said and said <= {202, 503}, said
    wait_for(lambda: is_ready(world, site.b), 60)
    world.some(4, 1)
    orders.settle()


ALL: list[Callable[[World], None]] = [
    partition, stopped, bad_line, kills, clocks, wiped, carriers, carrier_away, older_worker, drained, backlog, lost,
    joins_and_leaves, full_disk,
]  # fmt: skip
