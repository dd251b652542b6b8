"""The interpreter beside a stored function: a call that follows another, and the first call of a run with pandas.

`python -m benchmarks.interpreter`. The libraries must be installed (`manage.py install_libraries`); without them the
first call is measured without pandas.
"""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

import django
from django.conf import settings

from functions import sandbox
from functions.sandbox.libraries import find_offered_libraries

CALLS = 200
FIRST = 10


class NoFiles:
    """Stores nothing."""

    def save_file(self, name: str, content: bytes, media_type: str) -> dict[str, Any]:
        return {"file": None, "name": name, "media_type": media_type, "size": len(content)}


def milliseconds(call: Callable[[int], sandbox.Outcome], times: int) -> float:
    """The median."""
    took = []
    for number in range(times):
        began = time.perf_counter()
        outcome = call(number)
        took.append((time.perf_counter() - began) * 1000)
        assert outcome.ok, outcome.error
    return statistics.median(took)


def main() -> None:
    django.setup()
    from functions.interpreter import LIMITS

    libraries = find_offered_libraries(Path(settings.LIBRARIES_DIR), [], settings.INTERPRETER_LIBRARIES)
    pool = sandbox.Pool(libraries=libraries)
    source = "def main(a: int) -> int:\n    return a + 1\n"
    table = "import pandas as pd\npd.DataFrame({'a': [1, 2]})['a'].sum()"
    first = table if "pandas" in libraries.interpreter else "1 + 1"

    def interpret(code: str, session: str) -> sandbox.Outcome:
        return pool.interpret(code, [], session=session, host=NoFiles(), limits=LIMITS)

    try:
        pool.start()
        pool.warm_interpreter()
        function = milliseconds(lambda number: pool.execute(source, {"a": number}), CALLS)
        began = milliseconds(lambda number: interpret(first, f"first {number}"), FIRST)
        warm = milliseconds(lambda number: interpret(f"{number} + 1", "warm"), CALLS)
    finally:
        pool.close()
    print(f"a stored function                {function:6.2f} ms")
    print(f"a call that follows another      {warm:6.2f} ms   x {warm / function:.2f} (goal 3)")
    print(f"the first call of a run          {began:6.1f} ms   (goal 150), libraries: {len(libraries.interpreter)}")


if __name__ == "__main__":
    main()
