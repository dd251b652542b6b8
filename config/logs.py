"""Log format: one JSON object per line for machines, coloured text for people, each with its
request id.
"""

from typing import Any

import structlog

SHARED = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.ExtraAdder(["request_id", "run_id", "status_code"]),
]


def configuration(*, level: str, pretty: bool) -> dict[str, Any]:
    """Django's LOGGING: everything to stderr, from INFO for our own code, from `level` for the
    rest.
    """
    renderers = {
        # Plain tracebacks in both formats: the prettier ones print local variables, which may contain secrets.
        True: [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)],
        False: [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "lines": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": SHARED,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers[pretty]],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "muster": {"level": "INFO"},
            "django": {"level": level, "handlers": [], "propagate": True},
            "django.request": {"level": "ERROR"},  # a 4xx is reported to the caller and needs no log line
            "django.security.DisallowedHost": {"level": "CRITICAL"},  # requests of scanners would fill the log
        },
    }
