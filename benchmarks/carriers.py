"""CPU of one wake-up on each carrier: `python -m benchmarks.carriers [number]`.

Ringing and listening happen in one process, whose CPU is measured; that of the broker's processes
comes beside it where they are ours. RabbitMQ and Temporal are left out where they are not
installed.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

NUMBER = int(sys.argv[1]) if len(sys.argv) > 1 else 500


def main() -> None:
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-bench-"))
        os.environ |= {"MUSTER_DATA_DIR": directory, "DJANGO_SETTINGS_MODULE": "config.settings"}
        import django

        django.setup()
        server = stack.enter_context(valkey())
        for name, carrier, processes in carriers(stack, server):
            mine, theirs, passed = measure(carrier, processes)
            print(f"{name:24} {mine:6.2f} ms in Muster  {theirs:6.2f} ms in the broker  {passed:6.2f} ms passed")


@contextmanager
def valkey() -> Iterator[int]:
    from django.conf import settings

    from supervisor import processes
    from supervisor import valkey as server

    Path(settings.DATA_DIR, "valkey").mkdir(parents=True, exist_ok=True)
    pid = processes.fork(server.command(Path(settings.DATA_DIR, "valkey"), settings.VALKEY_SOCKET))
    while not server.is_ready(settings.VALKEY_SOCKET):
        time.sleep(0.05)
    try:
        yield pid
    finally:
        os.kill(pid, 15)
        os.waitpid(pid, 0)


def carriers(stack: ExitStack, server: int) -> Iterator[tuple[str, Any, list[int]]]:
    from celery import Celery
    from django.conf import settings

    from runs.queue.carriers.celery_broker import CeleryBroker
    from runs.queue.carriers.redis_list import RedisList
    from tests.runs.queue.carriers import brokers

    yield "list (Valkey)", RedisList(), [server]
    yield "celery (Valkey)", CeleryBroker(), [server]
    if brokers.RABBITMQ:
        rabbit = stack.enter_context(brokers.running(brokers.RabbitMQ))
        yield "celery (RabbitMQ)", CeleryBroker(Celery("bench", broker=rabbit.url)), [rabbit.process.pid]
    if brokers.temporal_program():
        from runs.queue.carriers.temporal import Temporal

        broker = stack.enter_context(brokers.running(brokers.Temporal))
        settings.TEMPORAL_URL = broker.url
        yield "temporal", Temporal(), [broker.process.pid]


def measure(carrier: Any, processes: list[int]) -> tuple[float, float, float]:
    """Milliseconds for each wake-up, from the ring to the bell, one after the other."""
    heard, stopping = threading.Semaphore(0), threading.Event()
    thread = threading.Thread(target=carrier.listen, args=(("default",), lambda _: heard.release(), stopping))
    thread.start()

    def hop() -> None:
        while not carrier.ring("default"):
            pass
        heard.acquire(timeout=30)

    for _ in range(20):
        hop()
    figures = spent(lambda: [hop() for _ in range(NUMBER)], processes)
    stopping.set()
    thread.join()
    return figures


def spent(work: Callable[[], Any], processes: list[int]) -> tuple[float, float, float]:
    began, mine, theirs = time.perf_counter(), time.process_time(), cpu_of(processes)
    work()
    figures = time.process_time() - mine, cpu_of(processes) - theirs, time.perf_counter() - began
    return tuple(round(seconds / NUMBER * 1000, 3) for seconds in figures)  # type: ignore[return-value]


def cpu_of(processes: list[int]) -> float:
    import psutil

    tree = [psutil.Process(pid) for pid in processes]
    tree += [child for process in tree for child in process.children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in tree)


if __name__ == "__main__":
    main()
