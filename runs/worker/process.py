"""One worker: takes runs and chain steps when a carrier wakes it, and does the recurring work if no
other worker does. `supervisor/programs.py` makes a process of it; a Celery worker of the queue
“runs” may hold one too (`config/celery.py`).
"""

from django.conf import settings

from .dispatcher import Dispatcher, Work
from .libraries import warm_in_background
from .preload import warm_worker
from .run_pool import RunPool, most_runs
from .ticker import Ticker


class Worker:
    """Made once in a process. The carrier's broker may be away: the worker then looks by itself."""

    def __init__(self) -> None:
        self.dispatcher = Dispatcher(Work().do, list(settings.WORKER_POOLS), RunPool(most_runs()))
        self.ticker = Ticker()

    def start(self) -> None:
        """Come back when the first run would find everything loaded."""
        warm_worker()
        self.dispatcher.start()
        self.ticker.start()
        warm_in_background()

    def stop(self) -> None:
        """Take nothing more, and come back when current work has ended."""
        self.ticker.stop()
        self.dispatcher.stop()
