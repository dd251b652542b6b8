"""Device calls through two server processes: round trip, calls a second, idle devices, all coming back at once.

`python -m benchmarks.devices [--port 8121] [--quick]`. A worker's part (row, nudge, wait) runs in this process.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8121)
    parser.add_argument("--quick", action="store_true", help="Fewer devices, shorter.")
    parser.add_argument("--db", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.port)
        return
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        os.environ.update(MUSTER_DATA_DIR=folder, DJANGO_SETTINGS_MODULE="config.settings")
        with valkey(Path(folder)) as broker, database(options.db, Path(folder)):
            measure(options.port, broker, 50 if options.quick else 500, 3.0 if options.quick else 6.0)


def measure(port: int, broker: int, many: int, seconds: float) -> None:
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    servers = Servers([port, port + 1])
    try:
        round_trip(servers)
        throughput(servers, 50, seconds)
        empty, before = share_of(servers, broker, seconds), servers.memory_mb()
        with devices(servers, many, "--hold") as clients:
            idle(servers, broker, many, seconds, empty, before)
            storm(servers, clients)
    finally:
        servers.stop()


def serve(port: int) -> None:
    """One web server as the supervisor starts it."""
    import socket

    import django

    django.setup()
    from supervisor.programs import serve_web

    line = socket.create_server(("127.0.0.1", port), backlog=1024)
    line.setblocking(False)
    serve_web(line, lambda: None)


class Servers:
    def __init__(self, ports: list[int]) -> None:
        self.ports = ports
        self.running: list[subprocess.Popen] = []
        self.start()

    @property
    def urls(self) -> list[str]:
        return [f"ws://127.0.0.1:{port}/ws/devices/" for port in self.ports]

    def start(self) -> None:
        for port in self.ports:
            command = [sys.executable, "-m", "benchmarks.devices", "--serve", "--port", str(port)]
            self.running.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL))
        ready(self.ports)

    def stop(self, number: int = signal.SIGTERM) -> None:
        for process in self.running:
            process.send_signal(number)
        for process in self.running:
            process.wait(20)
        self.running = []

    def cpu_s(self) -> float:
        return sum(cpu_s(one.pid) for one in self.running)

    def memory_mb(self) -> float:
        return sum(psutil.Process(one.pid).memory_info().rss for one in self.running) / 1e6


@contextmanager
def valkey(folder: Path) -> Iterator[int]:
    """Its process id."""
    from supervisor import valkey as embedded

    child = os.fork()
    if child == 0:
        embedded.command(folder / "valkey", embedded.socket_path(folder))()
    time.sleep(1)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


@contextmanager
def database(kind: str, folder: Path) -> Iterator[None]:
    if kind == "sqlite":
        yield
        return
    from supervisor import postgres
    from supervisor import valkey as waiting

    os.environ["DB"] = "postgres"
    folder.chmod(0o755)
    cluster = postgres.prepare_cluster(folder)
    child = os.fork()
    if child == 0:
        postgres.command(cluster)()
    waiting.wait_until(lambda: postgres.is_ready(cluster), 60)
    postgres.make_database(cluster.sockets)
    try:
        yield
    finally:
        os.kill(child, signal.SIGINT)
        os.waitpid(child, 0)


@contextmanager
def devices(servers: Servers, count: int, *more: str) -> Iterator[list[tuple[int, Any]]]:
    """So many connected devices of as many people: [(user id, device id)]."""
    from devices.models import Device

    clients, credentials = [], []
    for _ in range(count):
        user = new_user()
        device = Device.objects.create(owner=user, name="simulated")
        credentials.append(device.issue_credential()[1])
        clients.append((user.pk, device.pk))
    file = Path(tempfile.mkstemp(suffix=".json")[1])
    file.write_text(json.dumps(credentials))
    command = [sys.executable, "-m", "benchmarks.simulated_devices", str(file), *servers.urls, *more]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        wait_until_online([pk for _, pk in clients])
        yield clients
    finally:
        process.kill()
        process.wait()
        file.unlink()


def new_user() -> Any:
    from django.contrib.auth import get_user_model

    return get_user_model().objects.create(username=uuid.uuid4().hex)


def wait_until_online(ids: list[Any], within: float = 150) -> None:
    from django.utils import timezone

    from devices.models import Device

    until = time.monotonic() + within
    while Device.objects.online(timezone.now()).filter(pk__in=ids).count() < len(ids):
        if time.monotonic() > until:
            raise SystemExit("the devices did not connect")
        time.sleep(0.2)


def call(user_id: int) -> float:
    """One call as a worker makes it; milliseconds."""
    from agents.tools import ToolCall, ToolContext, ToolSpec
    from devices.tools import DeviceToolset

    spec = ToolSpec(1, "list_tasks", "device", "", {}, None, "read", {"device": "list_tasks"}, "h", deadline_s=120)
    started = time.perf_counter()
    result = DeviceToolset().call(spec, ToolCall(str(uuid.uuid4()), "list_tasks", {}), ToolContext(user_id))
    if not result.ok:
        raise SystemExit(f"a call failed: {result.error}")
    return (time.perf_counter() - started) * 1000


def round_trip(servers: Servers) -> None:
    with devices(servers, 1) as [(user, _)]:
        for _ in range(50):
            call(user)
        times = sorted(call(user) for _ in range(1000))
    p50, p99 = statistics.median(times), times[int(len(times) * 0.99)]
    print(f"round trip: p50 {p50:.1f} ms, p99 {p99:.1f} ms (targets 3 and 15)")


def throughput(servers: Servers, count: int, seconds: float) -> None:
    with devices(servers, count) as clients:
        web, mine = servers.cpu_s(), time.process_time()
        until = time.monotonic() + seconds

        def work(number: int) -> int:
            done = 0
            while time.monotonic() < until:
                call(clients[(number + done * 7) % count][0])
                done += 1
            return done

        with ThreadPoolExecutor(32) as pool:
            total = sum(pool.map(work, range(32)))
        web, mine = (servers.cpu_s() - web) / total * 1000, (time.process_time() - mine) / total * 1000
    rate = f"{total / seconds:.0f} calls/s over {count} devices, 32 callers (target 400, goal 1500)"
    print(f"throughput: {rate}; CPU a call: {web:.2f} ms web servers, {mine:.2f} ms worker")


def share_of(servers: Servers, broker: int, seconds: float) -> float:
    """Percent of one CPU that the web servers and Valkey take together; the database's, too, where it is SQLite."""
    time.sleep(3)  # what went before has to end
    cpu = servers.cpu_s() + cpu_s(broker)
    started = time.monotonic()
    time.sleep(seconds)
    return (servers.cpu_s() + cpu_s(broker) - cpu) / (time.monotonic() - started) * 100


def cpu_s(pid: int) -> float:
    return sum(psutil.Process(pid).cpu_times()[:2])


def idle(servers: Servers, broker: int, count: int, seconds: float, empty: float, before_mb: float) -> None:
    share = share_of(servers, broker, seconds * 2.5)  # more than one heartbeat of each
    each = (servers.memory_mb() - before_mb) / count * 1000
    print(
        f"{count} idle devices: {share:.1f} % CPU, both servers and Valkey (target 3; without a device {empty:.1f}),"
        f" {each:.0f} kB each"
    )


def storm(servers: Servers, clients: list[tuple[int, Any]]) -> None:
    """kill -9 of both servers with one call in flight on each device: when is every call settled?"""
    from devices import calls as device_calls
    from devices.models import DeviceCall

    device_calls.HOLD_S = 0.1
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda one: place(one[0]), clients))
    calls = DeviceCall.objects.filter(device_id__in=[pk for _, pk in clients])
    servers.stop(signal.SIGKILL)
    servers.start()
    started = time.monotonic()
    while calls.exclude(state="done").exists() and time.monotonic() - started < 60:
        time.sleep(0.2)
    took = time.monotonic() - started
    states = {state: calls.filter(state=state).count() for state in set(calls.values_list("state", flat=True))}
    print(f"storm of {len(clients)}: all calls settled {took:.1f} s after the servers were back (target 15): {states}")
    print(f"  CPU of the servers for it: {servers.cpu_s():.1f} s, their start included")


def ready(ports: list[int]) -> None:
    """Until each of them has answered a request: what a server imports for that is not the devices' memory."""
    import httpx2

    for port in ports:
        while True:
            try:
                httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=30)
                break
            except httpx2.TransportError:
                time.sleep(0.05)


def place(user_id: int) -> None:
    """A call that is left in flight."""
    from agents.tools import CallPending

    try:
        call(user_id)
    except CallPending:
        pass


if __name__ == "__main__":
    main()
