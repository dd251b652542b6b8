"""System call numbers as the kernel's own headers give them, and as they were when pinned (Linux 6.1).

python -m tests.functions.sandbox.kernel_headers      # pins what this machine's linux-libc-dev says
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

PINNED = Path(__file__).with_name("kernel_numbers.txt")
HEADERS = {  # aarch64 takes the generic table unchanged
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"),),
    "x86_64": tuple(Path("/usr/include").glob("x86_64-linux-gnu/asm/unistd_64.h")),
}
# They stand between the numbers, and say how many there are and where a machine's own begin.
NO_CALLS = ("syscalls", "arch_specific_syscall")
_DEFINE = re.compile(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$", re.MULTILINE)


def installed(machine: str) -> dict[str, int] | None:
    """From the header of this machine, if it has one."""
    for path in HEADERS[machine]:
        if path.exists():
            numbers = {name: int(number) for name, number in _DEFINE.findall(path.read_text())}
            for name in NO_CALLS:
                numbers.pop(name, None)
            return numbers
    return None


def pinned(machine: str) -> dict[str, int]:
    """From the table that stands beside this file."""
    _, _, rest = PINNED.read_text().partition(f"[{machine}]\n")
    part, _, _ = rest.partition("[")  # the next machine
    numbers = {}
    for word in part.split():
        name, _, number = word.partition("=")
        numbers[name] = int(number)
    return numbers


def pin() -> None:
    parts = []
    for machine in sorted(HEADERS):
        numbers = installed(machine) or {}
        words = " ".join(f"{name}={number}" for name, number in sorted(numbers.items()))
        parts.append(f"[{machine}]\n{textwrap.fill(words, 120, break_on_hyphens=False)}\n")
    PINNED.write_text("".join(parts))


if __name__ == "__main__":
    pin()
