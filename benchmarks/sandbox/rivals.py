"""The trivial call, made in the sandbox and in what could be used in its place."""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from functions import sandbox

TRIVIAL = "def main(a):\n    return a\n"
ALL_LAYERS = ("user_ns", "pid_ns", "net_ns", "mount_ns", "ipc_ns", "uts_ns", "uid", "capabilities", "no_new_privs",
              "landlock", "seccomp", "rlimits")  # fmt: skip
FLOOR = """
import os, sys, time
for _ in sys.stdin:
    began = time.perf_counter()
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(w, b"x")
        os._exit(0)
    os.read(r, 1)
    os.waitpid(pid, 0)
    os.close(r)
    os.close(w)
    print(time.perf_counter() - began, flush=True)
"""


class Calls:
    """Every way to make the trivial call, ready to be timed."""

    def __init__(self) -> None:
        self.pool = sandbox.Pool(spares=4)
        self.unprepared = sandbox.Pool(spares=0)
        self.bare = sandbox.Pool(spares=4, without_layers=ALL_LAYERS, run_regardless=True)
        self.floor = subprocess.Popen([sys.executable, "-I", "-S", "-c", FLOOR], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        self.monty = self.fresh_monty = None
        try:
            from pydantic_monty import Monty

            self.monty = Monty(min_processes=1).__enter__()
            self.fresh_monty = Monty(min_processes=1, max_checkouts_per_worker=1).__enter__()
        except ImportError:
            pass
        multiprocessing.set_forkserver_preload([])
        self.context = multiprocessing.get_context("forkserver")

    def variants(self) -> dict[str, Callable[[], Any]]:
        """Names and the calls; each returns seconds when it times itself."""
        variants: dict[str, Callable[[], Any]] = {
            "floor": self.fork_once,
            "single-use child, spare ready": lambda: self.run(self.pool),
            "single-use child, no layers": lambda: self.run(self.bare),
            "fork per call, no spare ready": lambda: self.run(self.unprepared),
            'reuse="run"': lambda: self.pool.execute(TRIVIAL, {"a": 1}, reuse="bench"),
            "RestrictedPython in this process": in_process,
            "multiprocessing forkserver": self.forkserver,
            "python -I -c": lambda: subprocess.run([sys.executable, "-I", "-S", "-c", "print(1)"], capture_output=True),
        }
        if self.monty is not None:
            variants["pydantic-monty, pooled worker"] = lambda: in_monty(self.monty, f"{TRIVIAL}main(1)")
            variants["pydantic-monty, a worker per call"] = lambda: in_monty(self.fresh_monty, f"{TRIVIAL}main(1)")
        if shutil.which("bwrap"):
            variants["bubblewrap and python"] = bubblewrap
        return variants

    def run(self, pool: sandbox.Pool) -> None:
        assert pool.execute(TRIVIAL, {"a": 1}).result == 1

    def fork_once(self) -> float:
        assert self.floor.stdin
        assert self.floor.stdout
        self.floor.stdin.write("\n")
        self.floor.stdin.flush()
        return float(self.floor.stdout.readline())

    def forkserver(self) -> None:
        process = self.context.Process(target=abs, args=(1,))
        process.start()
        process.join()

    def close(self) -> None:
        for pool in (self.pool, self.unprepared, self.bare):
            pool.close()
        self.floor.terminate()
        self.floor.wait()
        for pool in (self.monty, self.fresh_monty):
            if pool is not None:
                pool.__exit__(None, None, None)


def in_process() -> None:
    from RestrictedPython import compile_restricted, safe_builtins

    space: dict[str, Any] = {"__builtins__": safe_builtins}
    exec(compile_restricted(TRIVIAL, "<function>", "exec"), space)
    space["main"](1)


def in_monty(pool: Any, code: str) -> Any:
    with pool.checkout() as session:
        return session.feed_run(code)


def bubblewrap() -> None:
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--die-with-parent", sys.executable, "-IS", "-c", "0"]
    subprocess.run(command, capture_output=True, check=False)
