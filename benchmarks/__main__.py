"""`make bench`: those that take minutes at most, each in its own process; docs/benchmarks.md names the others.

`python -m benchmarks message runs` runs those named.
"""

import subprocess
import sys

ALL = {
    "sandbox": [],
    "functions": [],
    "libraries": [],
    "interpreter": [],
    "registry": [],
    "message": ["--db", "sqlite"],
    "message-postgres": ["--db", "postgres"],
    "gateway": [],
    "routing": [],
    "tools": [],
    "circles": [],
    "connectors": [],
    "hostile_input": [],
    "knowledge": ["--documents", "1000"],
}


def main() -> None:
    names = sys.argv[1:] or list(ALL)
    for name in names:
        module = name.partition("-")[0]
        print(f"\n== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *ALL.get(name, [])], check=True)


main()
