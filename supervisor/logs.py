"""The output of the children: printed to the terminal with their names, and written to a file each."""

import os
import sys
from collections import deque
from pathlib import Path

LARGEST = 10_000_000  # bytes of one log file; the previous one is kept as .1
COLOURS = {"web": 36, "worker": 32, "valkey": 33, "postgres": 34}


class Log:
    def __init__(self, name: str, directory: Path | None, *, shown: bool = True) -> None:
        self.name = name
        self.shown = shown
        self.path = directory / f"{name}.log" if directory else Path(os.devnull)
        self.file = self.path.open("ab", buffering=0)
        self.size = self.path.stat().st_size
        self.rest = b""
        self.last: deque[str] = deque(maxlen=20)

    def feed(self, data: bytes) -> None:
        """Take output from the pipe; print whole lines and keep the rest for the next time."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        if lines:
            self.write(lines)

    def write(self, lines: list[bytes]) -> None:
        whole = b"".join(line + b"\n" for line in lines)
        try:
            self.file.write(whole)
        except OSError as error:  # a full disk must not stop the service; the terminal still shows the lines
            print_if_open(f"muster: {self.path} cannot be written ({error.strerror})")
        self.size += len(whole)
        if self.size > LARGEST and self.path.suffix == ".log":
            self.turn()
        for line in lines:
            self.last.append(line.decode(errors="replace"))
            if self.shown:
                print_if_open(label_line(self.name, self.last[-1]))

    def turn(self) -> None:
        self.file.close()
        self.path.replace(self.path.with_suffix(".log.1"))
        self.file = self.path.open("ab", buffering=0)
        self.size = 0


def label_line(name: str, line: str) -> str:
    label = f"{name:>8}"
    if sys.stdout.isatty():
        label = f"\033[{COLOURS.get(name, 37)}m{label}\033[0m"
    return f"{label} | {line}"


def print_if_open(line: str) -> None:
    """Print to the terminal if it still exists: the service may outlive the window it was started
    in.
    """
    try:
        print(line, flush=True)  # noqa: T201
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  (for the rest of this process)
