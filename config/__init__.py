"""The composition root: settings, URLs, and the ASGI and Celery applications."""
