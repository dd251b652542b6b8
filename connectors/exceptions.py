"""What can go wrong between us and a service, as the errors that the runner knows."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from agents.tools import CallPending, ToolContext, ToolFailed

from .models import Connection


class ReconnectNeeded(ToolFailed):
    """This account must be connected again."""

    code = "reconnect_needed"

    def __init__(self, connection: Connection, why: str) -> None:
        link = reconnect_link(connection)
        super().__init__(f"{why} Connect “{connection.name}” again: {link}", details={"reconnect": link})


class MissingScope(ToolFailed):
    """The person did not allow this when connecting."""

    code = "missing_scope"

    def __init__(self, connection: Connection, access: str) -> None:
        link = reconnect_link(connection, access)
        message = f"“{connection.name}” was connected without the right to {access}. Allow it here: {link}"
        super().__init__(message, details={"reconnect": link, "access": access})


class Throttled(ToolFailed):
    """The service asks us to wait."""

    code = "rate_limited"

    def __init__(self, service: str, seconds: float) -> None:
        message = f"{service} takes no more requests for {seconds:.0f} seconds; try again after that."
        super().__init__(message, details={"retry_after_s": seconds})
        self.seconds = seconds


def later(error: Throttled, context: ToolContext) -> Throttled | CallPending:
    """A run waits as long as the service asked, by a timer and without a worker, then makes the same call again."""
    if context.run_id is None:
        return error
    until = timezone.now() + timedelta(seconds=error.seconds)
    return CallPending("timer", until=until, reference=str(error), instead=error)


class CursorExpired(Exception):
    """The service no longer knows where we stopped reading; scan by date."""


def failed(code: str, message: str, **details: Any) -> ToolFailed:
    return ToolFailed(message, code=code, details=details or None)


def reconnect_link(connection: Connection, access: str = "") -> str:
    """A page that starts the login anew; a browser that is signed in follows it."""
    more = f"&access={access}" if access else ""
    base = settings.PUBLIC_URL.rstrip("/")
    return f"{base}/api/v1/connections/{connection.provider}/authorize?connection={connection.pk}{more}"
