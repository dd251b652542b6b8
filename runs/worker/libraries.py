"""Loads the libraries of published functions after a worker has started, so that no run waits until
pandas is loaded.
"""

import logging
import threading
from collections import Counter

from django.conf import settings
from django.db import DatabaseError, connections

from agents.models import ToolGrant
from functions import sandbox
from functions.models import StoredFunction

log = logging.getLogger(__name__)


def warm_in_background() -> None:
    """If the operator allows any library."""
    if settings.LIBRARIES or settings.INTERPRETER_LIBRARIES:
        threading.Thread(target=warm_libraries, name="libraries", daemon=True).start()


def warm_libraries() -> None:
    grants = ToolGrant.objects.filter(tool__source__builtin="run_python").exclude(mode=ToolGrant.Mode.DENY)
    try:
        sandbox.warm(published_sets())
        if grants.exists():
            sandbox.warm_interpreter()
    except DatabaseError as error:
        log.warning("Libraries are loaded at the first call, since the database cannot be read: %s", error)
    finally:
        connections.close_all()


def published_sets() -> list[tuple[str, ...]]:
    """The sets of libraries that live versions require, those of most functions first."""
    live = StoredFunction.objects.filter(published__isnull=False).exclude(published__spec__requires=[]).order_by()
    counts: Counter[tuple[str, ...]] = Counter()
    for required in live.values_list("published__spec__requires", flat=True):
        if required:
            counts[tuple(sorted(required))] += 1
    return [required for required, _ in counts.most_common()]
