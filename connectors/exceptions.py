"""Errors between Muster and a service, as exceptions that the runner handles."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from agents.tools import CallPending, ToolContext, ToolFailed

from .models import Connection


class ReconnectNeeded(ToolFailed):
    """The account must be connected again."""

    code = "reconnect_needed"

    def __init__(self, connection: Connection, why: str) -> None:
        link = reconnect_link(connection)
        super().__init__(f"{why} Connect “{connection.name}” again: {link}", details={"reconnect": link})


class MissingScope(ToolFailed):
    """The user did not grant this access when connecting."""

    code = "missing_scope"

    def __init__(self, connection: Connection, access: str) -> None:
        link = reconnect_link(connection, access)
        message = f"“{connection.name}” has no permission to {access}. Grant it here: {link}"
        super().__init__(message, details={"reconnect": link, "access": access})


class Throttled(ToolFailed):
    """The service asks for a pause."""

    code = "rate_limited"

    def __init__(self, service: str, seconds: float) -> None:
        message = f"{service} accepts no more requests for {seconds:.0f} seconds; try again later."
        super().__init__(message, details={"retry_after_s": seconds})
        self.seconds = seconds


class Resting(Throttled):
    """The service is down and says for how long."""

    code = "service_unavailable"

    def __init__(self, service: str, seconds: float, why: str) -> None:
        super().__init__(service, seconds)
        self.args = (f"{why} It asks to wait for {seconds:.0f} seconds; try again later.",)


def build_throttled_wait(error: Throttled, context: ToolContext) -> Throttled | CallPending:
    """The run waits as long as the service asked, by a timer and without a worker, then makes the
    same call again.
    """
    if context.run_id is None:
        return error
    until = timezone.now() + timedelta(seconds=error.seconds)
    return CallPending("timer", until=until, reference=str(error), instead=error)


class CursorExpired(ToolFailed):
    """The service no longer knows the cursor; scan by date. Of a message: it is gone."""

    code = "not_found"


def build_tool_failure(code: str, message: str, **details: Any) -> ToolFailed:
    return ToolFailed(message, code=code, details=details or None)


def reconnect_link(connection: Connection, access: str = "") -> str:
    """A page that restarts the login; a signed-in browser can open it directly."""
    base = settings.PUBLIC_URL.rstrip("/")
    link = f"{base}/api/v1/connections/{connection.provider}/authorize?connection={connection.pk}"
    if access:
        link += f"&access={access}"
    return link
