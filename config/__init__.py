"""The composition root. Importing it makes Celery's application known to whoever enqueues by name."""

from config.celery import app as celery

__all__ = ["celery"]
