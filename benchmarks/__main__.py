"""`make bench`: those that take minutes at most, each in its own process; docs/benchmarks.md names the others.

`python -m benchmarks message runs` runs those named; what follows them, from the first option on, is handed to each:
`python -m benchmarks message --against ../base`.
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
    "floods": [],
    "knowledge": ["--documents", "1000"],
}


def main() -> None:
    words = sys.argv[1:]
    first = next((place for place, word in enumerate(words) if word.startswith("--")), len(words))
    names, options = words[:first] or list(ALL), words[first:]
    for name in names:
        module = name.partition("-")[0]
        print(f"\n== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *ALL.get(name, []), *options], check=True)


main()
