"""Starts children in order, collects their output, restarts crashed ones, and stops all in order.

One thread and one selector: children are not polled, except the embedded servers until they answer.
"""

import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import processes
from .logs import Log, print_if_open

GOOD_LIFE = 30.0  # seconds after which a child that falls is restarted at once again
LONGEST_PAUSE = 30.0
STARTS_WITHIN = 600.0  # a slow machine is not a failed start; what ends is noticed at once
PATIENCE_S = 30.0  # after which a start that goes on says so
STARTS = 4  # attempts of a child that is killed while it starts
KILLED = (-signal.SIGKILL, -signal.SIGTERM)  # by somebody else: no fault of its own


@dataclass(slots=True)
class Notify:
    """What a program calls when it is ready to serve: one byte into a pipe."""

    descriptor: int

    def __call__(self) -> None:
        os.write(self.descriptor, b"1")


class StartFailed(Exception):
    """A child ended before it was ready; the message contains its last lines."""


@dataclass
class Child:
    """One program: `work` runs in the fork and calls `notify` when it is ready to serve.

    `stop_signal` asks it to end, `death_signal` is sent when the supervisor dies, `patience` is the
    number of seconds before SIGKILL. For programs that are not ours `answers` is polled instead of
    `notify`, and their output only goes to the log file.
    """

    name: str
    work: Callable[[Notify], None]
    stop_signal: int = signal.SIGTERM
    death_signal: int = signal.SIGKILL
    patience: float = 1.0
    answers: Callable[[], bool] | None = None
    title: str = ""
    pid: int = 0
    ready: bool = False
    started: float = 0.0
    falls: int = 0
    starts: int = 0
    code: int = 0
    log: Log | None = field(default=None, repr=False)
    output: int = -1  # the pipe that its output comes through


class Supervision:
    def __init__(self, logs: Path | None) -> None:
        """`logs`: the directory of the log files; None where another program collects the output."""
        if logs:
            logs.mkdir(parents=True, exist_ok=True)
        self.logs = logs
        self.children: list[Child] = []
        self.pauses: dict[str, float] = {}  # name of a crashed child → when to start it again
        self.stopping = False
        self.exits: dict[int, int] = {}  # pid → exit code, of processes that are not among the children
        self.selector = selectors.DefaultSelector()
        self.catch_signals()

    # Starting

    def start(self, *children: Child) -> None:
        """Start these at the same time and return when all are ready. Raises StartFailed."""
        for child in children:
            self.children.append(child)
            self.launch(child)
        until, next_word = time.monotonic() + STARTS_WITHIN, time.monotonic() + PATIENCE_S
        while not self.stopping and (waiting := [child for child in children if not child.ready]):
            self.turn(0.005 if any(child.answers for child in waiting) else 0.5)
            for child in waiting:
                if child.answers and child.pid:
                    child.ready = child.answers()
            for child in [child for child in waiting if not child.pid]:
                self.start_again(child)
            if time.monotonic() > next_word:
                next_word += PATIENCE_S
                print_if_open(f"muster: still waiting for {', '.join(child.name for child in waiting)} to start")
            if time.monotonic() > until:
                raise StartFailed(last_words(waiting[0], f"was not ready within {STARTS_WITHIN:.0f} s"))

    def start_again(self, child: Child) -> None:
        """One that was killed before it was ready; one that ended by itself would do so again. Raises StartFailed."""
        child.starts += 1
        if child.code not in KILLED or child.starts >= STARTS:
            raise StartFailed(last_words(child, "ended during start-up"))
        print_if_open(f"muster: {child.name} {describe(child.code)} while it started; starting it again")
        self.launch(child)

    def do(self, work: Callable[[], None]) -> int:
        """Run work in a child that shares the terminal; returns its exit code."""
        pid = processes.fork(work)
        while pid not in self.exits:
            self.turn(0.5)
            if self.stopping and pid not in self.exits:
                os.kill(pid, signal.SIGTERM)
        return self.exits.pop(pid)

    def launch(self, child: Child) -> None:
        child.log = child.log or Log(child.name, self.logs, shown=not child.answers)
        reading, writing = os.pipe()
        hearing, telling = os.pipe()

        def work() -> None:
            processes.name_process(child.title or f"muster {child.name}")
            child.work(Notify(telling))

        child.ready, child.started = False, time.monotonic()
        child.pid = processes.fork(work, output=writing, death_signal=child.death_signal)
        os.close(writing)
        os.close(telling)
        self.carry_from(child, reading)
        self.selector.register(hearing, selectors.EVENT_READ, lambda: self.hear(child, hearing))

    # Running

    def watch(self, until: Callable[[], bool] = lambda: False) -> None:
        """Run until a signal asks to stop, or until this is true."""
        while not self.stopping and not until():
            self.turn(self.next_pause())
            self.restart_fallen()

    def is_settled(self) -> bool:
        """Whether every child runs and none is starting."""
        return all(child.pid and (child.ready or child.answers) for child in self.children)

    def turn(self, timeout: float | None) -> None:
        for key, _ in self.selector.select(timeout):
            key.data()

    def carry_from(self, child: Child, reading: int) -> None:
        child.output = reading
        self.selector.register(reading, selectors.EVENT_READ, lambda: self.carry(child, reading))

    def carry(self, child: Child, reading: int) -> None:
        if data := os.read(reading, 65536):
            if child.log:
                child.log.feed(data)
            return
        self.selector.unregister(reading)
        os.close(reading)

    def hear(self, child: Child, hearing: int) -> None:
        if os.read(hearing, 16):
            child.ready = True
        self.selector.unregister(hearing)
        os.close(hearing)

    def next_pause(self) -> float | None:
        if not self.pauses:
            return None
        return max(0.0, min(self.pauses.values()) - time.monotonic())

    def restart_fallen(self) -> None:
        if self.stopping:
            return
        for child in self.children:
            ends = self.pauses.get(child.name)
            if ends is not None and ends <= time.monotonic():
                del self.pauses[child.name]
                self.launch(child)

    # Signals

    def catch_signals(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        self.selector.register(reading, selectors.EVENT_READ, lambda: self.take_signals(reading))

    def take_signals(self, reading: int) -> None:
        for number in os.read(reading, 1024):
            if number == signal.SIGCHLD:
                self.reap()
            else:
                self.stopping = True

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.bury(pid, os.waitstatus_to_exitcode(status))

    def bury(self, pid: int, code: int) -> None:
        child = next((child for child in self.children if child.pid == pid), None)
        if child is None:
            self.exits[pid] = code
            return
        never_worked = not child.ready and child.falls == 0
        child.pid = 0
        child.ready = False
        child.code = code
        if self.stopping or never_worked:
            return
        pause = self.pause_after(child, code)
        self.pauses[child.name] = time.monotonic() + pause
        when = f" in {pause:.1f} s" if pause else ""
        print_if_open(f"muster: {child.name} {describe(code)}; restarting it{when}")

    def pause_after(self, child: Child, code: int) -> float:
        """Seconds until it is started again: more for each fall in a row, unless somebody killed it."""
        lived = time.monotonic() - child.started
        child.falls = max(child.falls, 1) if code in KILLED else child.falls + 1
        if lived > GOOD_LIFE:
            child.falls = 1
        if code in KILLED:
            return 0.0 if lived > 1 else 0.5
        return 0.0 if child.falls == 1 else min(LONGEST_PAUSE, 0.5 * 2 ** (child.falls - 2))

    # Stopping

    def stop(self) -> None:
        """Stop in reverse order of starting; each gets its patience, then SIGKILL."""
        self.stopping = True
        for child in reversed(self.children):
            self.stop_one(child)

    def stop_one(self, child: Child) -> None:
        for number, patience in ((child.stop_signal, child.patience), (signal.SIGKILL, 2.0)):
            if not child.pid:
                return
            os.kill(child.pid, number)
            until = time.monotonic() + patience
            while child.pid and (remaining_s := until - time.monotonic()) > 0:
                self.turn(remaining_s)


def last_words(child: Child, what: str) -> str:
    lines = list(child.log.last) if child.log else []
    return "\n".join([f"{child.name} {what}. Its last lines:", *lines[-8:]])


def describe(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    names = {one.value: one.name for one in signal.Signals}  # signals between SIGRTMIN and SIGRTMAX have no name
    return f"was killed by {names.get(-code, f'signal {-code}')}"
