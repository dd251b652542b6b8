"""The composition root. Importing it makes the Celery application known to every process that
enqueues tasks.
"""

from config.celery import app as celery

__all__ = ["celery"]
