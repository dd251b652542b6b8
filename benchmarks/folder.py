"""A data directory for one run of a benchmark."""

import atexit
import shutil
import tempfile


def fresh() -> str:
    """An empty one, gone when this process ends."""
    made = tempfile.mkdtemp(prefix="muster-bench-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
