"""The function store: what it adds to the sandbox, publishing with tests, execute through REST, a list of 10,000.

`python -m benchmarks.functions [--port 8141]` · makes a data directory of its own and serves from it. Figures are
medians of one run; where other work loads the machine, read the CPU figures and the ratios to the floor.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

SOURCE = "def add(a: int, b: int = 2) -> int:\n    return a + b\n"
ROOT = Path(__file__).resolve().parents[1]
MANAGE = [sys.executable, str(ROOT / "manage.py")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8141)
    parser.add_argument("--calls", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        os.environ["MUSTER_DATA_DIR"] = folder
        os.environ["MUSTER_RATE_PER_KEY"] = os.environ["MUSTER_RATE_PER_ADDRESS"] = (
            "0"  # limits are not what is measured
        )
        subprocess.run([*MANAGE, "init_db", "--no-starters"], check=True, stdout=subprocess.DEVNULL)
        key = prepared()
        print(f"fork + one byte through a pipe + wait (the floor)      p50 {floor():7.2f} ms")
        in_process(options.calls)
        served(options, key)


def prepared() -> str:
    """A person with a key, one function, and 10,000 more for the list."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from django.contrib.auth import get_user_model

    from agents.models import ApiKey
    from functions import store
    from functions.models import StoredFunction

    ada = get_user_model().objects.create_user("ada")
    function = store.save_function(StoredFunction(name="add", source=SOURCE, owner=ada), user=ada)
    store.publish_function(function, user=ada)
    many = (StoredFunction(name=f"f{n}", owner=ada, source=SOURCE, entry="add") for n in range(10_000))
    StoredFunction.objects.bulk_create(many, batch_size=500)
    return ApiKey.make(ada, ["*"])[1]


def floor() -> float:
    return median(timed(fork_once) for _ in range(50))


def fork_once() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"x")
        os._exit(0)
    os.read(reader, 1)
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)


def timed(action: Any) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def in_process(calls: int) -> None:
    from functions import callers, sandbox, store, testing
    from functions.execution import execute_function, ready
    from functions.models import FunctionTest, StoredFunction

    function = StoredFunction.objects.select_related("published", "owner").get(name="add")
    version = ready(function.published.pk, function.published.sha256)
    caller = callers.alone(function.owner, version)
    replied, alone, stored, cpu = [], [], [], []
    limits = version.spec.limits()
    for number in range(calls):  # interleaved, so that what else runs hits all alike
        began = time.perf_counter()
        outcome = sandbox.execute(SOURCE, {"a": number, "b": 2}, entry="add", limits=limits)
        replied.append((time.perf_counter() - began) * 1000)
        assert outcome.ok and outcome.cpu_ms  # the row wants the kernel's figures, which come when the child is buried
        alone.append((time.perf_counter() - began) * 1000)
        began = time.thread_time()
        stored.append(timed(lambda n=number: execute_function(version, {"a": n}, caller)))
        cpu.append((time.thread_time() - began) * 1000)
    a, b = median(alone), median(stored)
    print(f"sandbox alone, until it replies                        p50 {median(replied):7.2f} ms")
    print(f"sandbox alone, until the kernel's figures are in       p50 {a:7.2f} ms")
    print(f"the store's execute, row written                       p50 {b:7.2f} ms   + {b - a:.2f} ms (target ≤ 1.5)")
    print(f"  of which CPU of the calling thread                   p50 {median(cpu):7.2f} ms")
    tests = [FunctionTest(function=function, name=str(n), arguments={"a": n}, expected=n + 2) for n in range(20)]
    FunctionTest.objects.bulk_create(tests)
    testing.run_tests(store.draft(function), tests, function.owner)
    seconds = median(timed(lambda n=n: publish_again(function, n)) for n in range(5)) / 1000
    print(f"publish with 20 tests                                      {seconds:7.2f} s    (target ≤ 1)")


def publish_again(function: Any, number: int) -> None:
    from functions import store

    function.source = f"{SOURCE}# {number}\n"
    store.save_function(function, user=function.owner)
    store.publish_function(function, user=function.owner)


def served(options: argparse.Namespace, key: str) -> None:
    log = Path(os.environ["MUSTER_DATA_DIR"]) / "serve.log"
    command = [*MANAGE, "serve", "--no-greeting", "--port", str(options.port)]
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        wait_for(options.port)
        through_rest(options, key)
    finally:
        server.terminate()
        server.wait(20)


def wait_for(port: int) -> None:
    for _ in range(200):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the server did not start; see serve.log")


class Caller:
    """One connection that stays open."""

    def __init__(self, port: int, key: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        self.connection.request(method, f"/api/v1/{path}", json.dumps(body) if body else None, self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text)


def through_rest(options: argparse.Namespace, key: str) -> None:
    caller = Caller(options.port, key)
    execute = lambda: caller.call("POST", "functions/add/execute", {"arguments": {"a": 1}})  # noqa: E731
    me = [timed(lambda: caller.call("GET", "me")) for _ in range(60)][10:]
    times = [timed(execute) for _ in range(options.calls)][20:]
    print(f"an authenticated request that does nothing (GET me)    p50 {median(me):7.2f} ms")
    p95 = quantiles(times, n=20)[-1]
    print(f"execute through REST, one caller                       p50 {median(times):7.2f} ms   p95 {p95:.1f} (≤ 12)")
    for callers in (4, 8):
        per_second = rate(options, key, callers)
        print(
            f"execute through REST, {callers} callers                            {per_second:7.0f} /s   (target ≥ 120)"
        )
    lists = [timed(lambda: caller.call("GET", "functions/?limit=50")) for _ in range(20)]
    searches = [timed(lambda: caller.call("GET", "functions/?search=f99&limit=50")) for _ in range(20)]
    print(f"a page of 10,000 functions                             p50 {median(lists):7.2f} ms   (target ≤ 50)")
    print(f"the same, searched                                     p50 {median(searches):7.2f} ms")


def rate(options: argparse.Namespace, key: str, callers: int) -> float:
    each = max(20, options.calls // callers)

    def go() -> None:
        caller = Caller(options.port, key)
        for number in range(each):
            caller.call("POST", "functions/add/execute", {"arguments": {"a": number}})

    threads = [threading.Thread(target=go) for _ in range(callers)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return callers * each / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
