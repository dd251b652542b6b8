"""A message with one tool call, everything persisted, beside a bare FastAPI + LangChain app on the same stub.

`python -m benchmarks.message [--db postgres] [--count 400]`. The stub answers at once, so what is measured is ours.
With `--against PATH`, another checkout takes the place of the bare app: both are served beside each other, take turns,
and the ratio of their CPU is printed with its 95 % interval (benchmarks/turns.py).
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from benchmarks import turns
from benchmarks.load import Answer, Caller, Figures, measure

ROOT = Path(__file__).resolve().parent.parent
BODY = {"message": "Add the numbers a = 40 and b = 2"}
SOURCE = "def add(a: float, b: float) -> float:\n    '''Add two numbers.'''\n    return a + b\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--db", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--callers", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--against", type=Path, help="another checkout of Muster, to compare this one with")
    parser.add_argument("--pairs", type=int, default=20, help="with --against")
    options = parser.parse_args()
    if options.against:
        compare(options)
    else:
        beside_bare(options)


def beside_bare(options: argparse.Namespace) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as folder,
        stub() as stub_url,
        bare(stub_url) as (floor, pid),
        muster(Path(folder), options.db, stub_url) as (base, key, supervisor),
    ):
        for callers in options.callers:
            count = options.count if callers > 1 else max(options.count // 4, 50)
            theirs = measure(
                lambda client: client.post(f"{floor}/messages", json=BODY),
                callers=callers, count=count, pids=(pid,), check=lambda answer: "42" in answer.json()["reply"],
            )  # fmt: skip
            ours = measure(sender(base, key), callers=callers, count=count, pids=(supervisor,), check=is_right)
            report(options.db, theirs, ours)


def compare(options: argparse.Namespace) -> None:
    """The other checkout and this one, with the same libraries, in turn."""
    other = options.against.resolve()
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as folder,
        stub() as stub_url,
        muster(Path(folder) / "old", options.db, stub_url, root=other) as (old_base, old_key, old_pid),
        muster(Path(folder) / "new", options.db, stub_url) as (new_base, new_key, new_pid),
    ):
        old = turns.Side("old", sender(old_base, old_key), old_pid)
        new = turns.Side("new", sender(new_base, new_key), new_pid)
        print(f"{options.db}: old is {other}, new is {ROOT}")
        for callers in options.callers:
            turns.compare(old, new, pairs=options.pairs, callers=callers, count=options.count, check=is_right)


def sender(base: str, key: str) -> Callable[[Caller], Any]:
    url, headers = f"{base}/api/v1/agents/adder/messages", {"Authorization": f"Bearer {key}"}
    return lambda client: client.post(url, json=BODY, headers=headers)


def is_right(answer: Answer) -> bool:
    return "42" in answer.json()["reply"]["text"]


def report(db: str, theirs: Figures, ours: Figures) -> None:
    print(f"bare            {theirs}")
    print(f"muster {db:8} {ours}")
    print(
        f"       ratio       p50 x {ours.p50 / theirs.p50:.2f}   p99 x {ours.p99 / theirs.p99:.2f}   "
        f"CPU x {ours.cpu_ms / theirs.cpu_ms:.2f}   throughput x {ours.per_second / theirs.per_second:.2f}\n",
        flush=True,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def process(
    *command: str, output: Path = Path(os.devnull), root: Path = ROOT, **environment: str
) -> Iterator[subprocess.Popen]:
    with output.open("w") as stdout:
        child = subprocess.Popen(command, cwd=root, env={**os.environ, **environment}, stdout=stdout)
    try:
        yield child
    finally:
        child.terminate()
        child.wait(timeout=20)


@contextmanager
def stub(*, silent_s: float = 0.0) -> Iterator[str]:
    """An OpenAI server that calls the first tool, then answers, each after `silent_s`."""
    port = free_port()
    with process(sys.executable, "-m", "tests.fakes", "--port", str(port), "--silent", str(silent_s)):
        wait_for(port)
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def bare(stub_url: str) -> Iterator[tuple[str, int]]:
    port = free_port()
    command = (sys.executable, "-m", "uvicorn", "benchmarks.bare:app", "--port", str(port), "--log-level", "warning")
    with process(*command, STUB_URL=stub_url, LANGSMITH_TRACING="false") as child:
        wait_for(port)
        yield f"http://127.0.0.1:{port}", child.pid


@contextmanager
def muster(folder: Path, db: str, stub_url: str | None, *, root: Path = ROOT) -> Iterator[tuple[str, str, int]]:
    """(base URL, key, supervisor's pid) of a fresh installation with an agent “adder”; without a stub, of the one that
    is there. `root`: the checkout that is served.
    """
    port = free_port()
    folder.mkdir(exist_ok=True)
    environment = {
        "MUSTER_DATA_DIR": str(folder / "data"), "MUSTER_PORT": str(port), "MUSTER_PRIVATE_HOSTS": "127.0.0.1",
        "MUSTER_RATE_PER_KEY": "1000000", "MUSTER_RATE_PER_ADDRESS": "1000000", "DB": "postgres" if db == "postgres" else "",
    }  # fmt: skip
    quiet = [] if stub_url is not None else ["--no-greeting"]
    output = folder / "output"
    with process(sys.executable, "manage.py", "serve", *quiet, output=output, root=root, **environment) as child:
        wait_for(port, within=240)
        until = time.monotonic() + 240
        while "is ready" not in output.read_text() and time.monotonic() < until:
            time.sleep(0.02)
        key = wait_for_key(folder / "data/secrets/development_key")
        base = f"http://127.0.0.1:{port}"
        if stub_url is not None:
            prepare(base, key, stub_url)
        yield base, key, child.pid


def prepare(base: str, key: str, stub_url: str) -> None:
    with httpx2.Client(base_url=f"{base}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=60) as api:
        provider = {"name": "stub", "kind": "openai-compatible", "base_url": stub_url, "api_key": "none"}
        agent = {
            "name": "adder", "description": "Adds", "system_prompt": "You add numbers with your tool.",
            "provider": "stub", "model_name": "stub", "grants": [{"tool": "add", "mode": "allow"}],
        }  # fmt: skip
        made(api.post("/providers/", json=provider))
        made(api.post("/functions/", json={"name": "add", "source": SOURCE}))
        made(api.post("/functions/add/publish"))
        made(api.post("/agents/", json=agent))
        made(api.post("/agents/adder/publish"))
        for _ in range(20):
            made(api.post("/agents/adder/messages", json=BODY))


def made(answer: httpx2.Response) -> Any:
    if answer.status_code >= 300:
        raise SystemExit(f"{answer.request.url}: {answer.status_code} {answer.text}")
    return answer.json()


def wait_for_key(path: Path, within: float = 240) -> str:
    """`serve` writes it once it is ready for the first message."""
    until = time.monotonic() + within
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(2)  # its own first message is on the way
    return path.read_text().strip()


def wait_for(port: int, within: float = 30) -> None:
    until = time.monotonic() + within
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"Nothing listens on port {port} after {within} s.")


if __name__ == "__main__":
    main()
