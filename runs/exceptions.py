"""What can go wrong with a run. Those below MusterError answer a caller; the others steer the runner."""

from datetime import datetime

from django.db import InterfaceError, OperationalError

from agents.exceptions import Conflict, Invalid, Unavailable

DATABASE_GONE = (OperationalError, InterfaceError)  # away, restarting, its disk full: the run goes on later


class SessionBusy(Conflict):
    """This session is at work on another message."""

    code = "session_busy"


class SessionClosed(Conflict):
    """This session is closed."""

    code = "session_closed"


class IdempotencyMismatch(Conflict):
    """This Idempotency-Key was used with another body."""

    code = "idempotency_mismatch"


class NotPublished(Conflict):
    """This agent has no published version, or is switched off."""

    code = "not_published"


class ProviderDisabled(Unavailable):
    """The provider of this agent is switched off."""

    code = "provider_disabled"


class AlreadyDecided(Conflict):
    """This approval is no longer open."""

    code = "already_decided"


class RunFinished(Conflict):
    """This run has ended."""

    code = "run_finished"


class BrokenInput(Invalid):
    """The input breaks the schema."""

    code = "input_invalid"


class RunEnded(Exception):
    """The run ends now, with this status and error."""

    def __init__(self, status: str, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class RunWaits(Exception):
    """The run waits; free the worker. Rows already say for what."""

    def __init__(self, waiting_for: str, until: datetime | None = None) -> None:
        super().__init__(waiting_for)
        self.waiting_for = waiting_for
        self.until = until


class RunDone(Exception):
    """The run has ended and its rows say how; nothing is left to do."""


class LeaseLost(Exception):
    """Another worker took the run over; write nothing more."""
