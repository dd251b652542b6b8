"""`make bench`: every benchmark in turn, each in its own process. `python -m benchmarks message` runs those named."""

import subprocess
import sys

ALL = {
    "sandbox": [],
    "functions": [],
    "registry": [],
    "message": ["--db", "sqlite"],
    "message-postgres": ["--db", "postgres"],
    "routing": [],
    "circles": [],
    "connectors": [],
}


def main() -> None:
    wanted = sys.argv[1:] or list(ALL)
    for name in wanted:
        module = name.partition("-")[0]
        print(f"\n== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *ALL.get(name, [])], check=True)


main()
