"""What another person notices of each flood: their small GET (goal: at most 1 s) and their writes (goal: a 95th
percentile of at most 3 times that of an idle site).

`python -m benchmarks.floods [--seconds 5] [--connections 20] [flood …]` starts a Muster of its own (`manage.py serve`,
SQLite unless DB=postgres). The flood, the measurement and the server share the cores.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.chains import serve, use_database, wait_until_ready
from benchmarks.load import Caller

V1 = "/api/v1"
SOURCE = "def add(a: int, b: int = 2) -> int:\n    return a + b\n"
JSON = "Content-Type: application/json"


def main() -> None:
    options = read_options()
    home = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    server = serve(home, options.port)
    try:
        wait_until_ready(server)
        use_database(home)
        flooder, other = make_people()
        measure_all(options, flooder, other)
    finally:
        server.terminate()
        server.wait(timeout=60)
        shutil.rmtree(home, ignore_errors=True)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("floods", nargs="*", help=f"of {', '.join(FLOODS)}; default: all")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--port", type=int, default=8170)
    # The flood runs in a process of its own.
    parser.add_argument("--flood", help=argparse.SUPPRESS)
    parser.add_argument("--key", help=argparse.SUPPRESS)
    return parser.parse_args()


def make_people() -> tuple[str, str]:
    """The keys of two people, with an agent each; the first has a function and long messages."""
    from django.contrib.auth import get_user_model

    from agents.models import Agent, ApiKey, Provider
    from functions import store
    from functions.models import StoredFunction

    provider = Provider.objects.get_or_create(owner=None, name="offline", kind="offline")[0]
    keys = []
    for name in ("flooder", "other"):
        person = get_user_model().objects.create_user(name)
        keys.append(ApiKey.make(person, ["*"], name="bench")[1])
        agent = Agent.objects.create(owner=person, name="helper", provider=provider, system_prompt="You help.")
        agent.publish(author=person)
        if name == "flooder":
            store.save_function(StoredFunction(name="add", source=SOURCE, owner=person), user=person)
    return keys[0], keys[1]


# -- what is measured ---------------------------------------------------------------------------------------------------


def measure_all(options: argparse.Namespace, flooder: str, other: str) -> None:
    print(f"load average {os.getloadavg()[0]:.1f}, {options.connections} connections, {options.seconds:.0f} s each")
    print("flood            GET p50    p95     max ms     write p95 ms   x idle")
    idle = show("none", *asyncio.run(measure(options, other)), idle=None)
    for name in options.floods or FLOODS:
        flood = start_flood(options, name, flooder)
        time.sleep(1)  # until it is at work
        try:
            show(name, *asyncio.run(measure(options, other)), idle=idle)
        finally:
            flood.terminate()
            flood.wait()


def show(name: str, reads: list[float], writes: list[float], *, idle: float | None) -> float:
    write = find_p95(writes)
    ratio = f"{write / idle:6.1f}" if idle else ""
    print(
        f"{name:14} {statistics.median(reads):9.0f} {find_p95(reads):6.0f} {max(reads):7.0f} {write:16.0f}    {ratio}",
        flush=True,
    )
    return write


def find_p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


async def measure(options: argparse.Namespace, key: str) -> tuple[list[float], list[float]]:
    """Milliseconds of a small GET and of a message, one after the other by one person."""
    address = "127.0.0.1", options.port
    read = compose("GET", f"{V1}/agents/helper", key)
    body = json.dumps({"message": "Hi"}).encode()
    write = compose("POST", f"{V1}/agents/helper/messages", key, body, JSON, "Prefer: respond-async")
    reads: list[float] = []
    writes: list[float] = []
    end = time.monotonic() + options.seconds
    while time.monotonic() < end or len(reads) < 3:
        reads.append(await time_request(address, read))
        writes.append(await time_request(address, write))
        await asyncio.sleep(0.05)
    return reads, writes


async def time_request(address: tuple[str, int], content: bytes) -> float:
    began = time.perf_counter()
    status = await send(address, content)
    if status >= 400:
        raise SystemExit(f"the other person was refused: {status}")
    return (time.perf_counter() - began) * 1000


def compose(method: str, path: str, key: str = "", body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", "Connection: close"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


async def send(address: tuple[str, int], content: bytes) -> int:
    """The status of the answer, which is read to its end."""
    caller = Caller()
    caller.reader, caller.writer = await asyncio.open_connection(*address)
    try:
        caller.writer.write(content)
        return (await caller.read()).status
    finally:
        caller.close()


# -- the floods ---------------------------------------------------------------------------------------------------------


def start_flood(options: argparse.Namespace, name: str, key: str) -> subprocess.Popen:
    sizes = ["--port", str(options.port), "--connections", str(options.connections)]
    command = [sys.executable, "-m", "benchmarks.floods", "--flood", name, "--key", key, *sizes]
    return subprocess.Popen(command)


async def flood(options: argparse.Namespace) -> None:
    address = "127.0.0.1", options.port
    work = FLOODS[options.flood]

    async def go_on(number: int) -> None:
        while True:
            try:
                await work(address, options.key, number)
            except (OSError, EOFError, ValueError):
                await asyncio.sleep(0.01)

    await asyncio.gather(*(go_on(number) for number in range(options.connections)))


Address = tuple[str, int]


async def ask_schema(address: Address, key: str, number: int) -> None:
    await send(address, compose("GET", "/api/schema/"))


async def register_clients(address: Address, key: str, number: int) -> None:
    body = json.dumps({"client_name": "flood", "redirect_uris": ["http://127.0.0.1/back"]}).encode()
    await send(address, compose("POST", "/oauth/register/", "", body, JSON))


async def guess_passwords(address: Address, key: str, number: int) -> None:
    body = f"username=person{number}&password=wrong".encode()
    await send(address, compose("POST", "/login/", "", body, "Content-Type: application/x-www-form-urlencoded"))


async def send_tiny_pieces(address: Address, key: str, number: int) -> None:
    reader, writer = await asyncio.open_connection(*address)
    head = compose("POST", f"{V1}/agents/helper/messages", key, b"", JSON, "Transfer-Encoding: chunked")
    try:
        writer.write(head.replace(b"Content-Length: 0\r\n", b""))
        for _ in range(1000):
            writer.write(b"1\r\nx\r\n")
            await writer.drain()
            await asyncio.sleep(0)
    finally:
        writer.close()


async def send_messages(address: Address, key: str, number: int) -> None:
    body = json.dumps({"message": "x" * 100_000}).encode()
    await send(address, compose("POST", f"{V1}/agents/helper/messages", key, body, JSON, "Prefer: respond-async"))


async def ask_large_pages(address: Address, key: str, number: int) -> None:
    await send(address, compose("GET", f"{V1}/runs/?limit=500&fields=id,input,metadata,reply", key))


async def compile_under_if_match(address: Address, key: str, number: int) -> None:
    source = "def main():\n" + "".join(f"    a{line} = {number} + {time.time_ns()}\n" for line in range(2000))
    body = json.dumps({"source": source}).encode()
    await send(address, compose("PATCH", f"{V1}/functions/add", key, body, JSON, "If-Match: *"))


async def try_functions(address: Address, key: str, number: int) -> None:
    source = "def main():\n    while True: pass\n"
    body = json.dumps({"source": source, "arguments": {}, "timeout": 2}).encode()
    await send(address, compose("POST", f"{V1}/functions/try", key, body, JSON))


FLOODS: dict[str, Callable[[Address, str, int], Awaitable[None]]] = {
    "schema": ask_schema,
    "registrations": register_clients,
    "passwords": guess_passwords,
    "pieces": send_tiny_pieces,
    "messages": send_messages,
    "pages": ask_large_pages,
    "if-match": compile_under_if_match,
    "functions": try_functions,
}


if __name__ == "__main__":
    asked = read_options()
    if asked.flood:
        asyncio.run(flood(asked))
    else:
        main()
