"""A program of somebody else as a server of its own, for one test or one module."""

import os
import random
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import httpx2


def free_port() -> int:
    """Of those that the kernel gives to nobody by itself: no connection takes it before the server does."""
    while True:
        with socket.socket() as line, suppress(OSError):
            line.bind(("127.0.0.1", port := random.SystemRandom().randrange(20_000, 32_000)))
            return port


@contextmanager
def served(command: list[str], url: str, *, cwd: Path | None = None, **environment: str) -> Iterator[None]:
    """Starts the command and waits until it answers at this URL, with whatever status."""
    process = subprocess.Popen(
        command, cwd=cwd, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(url, process)
        yield
    finally:
        process.kill()
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], limit_s: float = 120) -> None:
    until = monotonic() + limit_s
    while True:
        assert process.poll() is None, "the server did not start"
        assert monotonic() < until, f"nothing answers at {url}"
        try:
            httpx2.get(url, timeout=2, trust_env=False)
            return
        except httpx2.HTTPError:
            sleep(0.05)
