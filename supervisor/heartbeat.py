"""A worker shows that it lives: the time of a file, which a health check can read without starting Python."""

import logging
import threading
import time
from pathlib import Path

from django.conf import settings

EVERY_S = 10.0
log = logging.getLogger(__name__)


def path() -> Path:
    """`find MUSTER_DATA_DIR/worker.alive -mmin -1 | grep -q .` is the health check."""
    return settings.DATA_DIR / "worker.alive"


def keep_alive() -> None:
    """From now on, until this process ends."""
    threading.Thread(target=touch_for_ever, name="alive", daemon=True).start()


def touch_for_ever() -> None:
    while True:
        try:
            path().touch()
        except OSError as error:  # a full disk: the worker itself may go on
            log.warning("%s cannot be written: %s", path(), error)
        time.sleep(EVERY_S)
