"""Errors of runs. Subclasses of MusterError answer a caller; the others control the runner."""

from datetime import datetime

from agents.exceptions import Conflict, Invalid, MusterError, Unavailable


class LinkExpired(MusterError):
    """This link has expired."""

    status = 410
    code = "link_expired"


class RunGone(Unavailable):
    """This run is no longer stored: it was deleted, or the database lost what was written last."""

    code = "run_gone"


class RunEmptied(Conflict):
    """What this run held was deleted."""

    code = "run_emptied"


class SessionBusy(Conflict):
    """This session is working on another message."""

    code = "session_busy"


class SessionClosed(Conflict):
    """This session is closed."""

    code = "session_closed"


class NotPublished(Conflict):
    """This agent has no published version, or is switched off."""

    code = "not_published"


class ProviderDisabled(Unavailable):
    """The provider of this agent is switched off."""

    code = "provider_disabled"


class AlreadyDecided(Conflict):
    """This approval is no longer open."""

    code = "already_decided"


class AlreadyAnswered(Conflict):
    """This input request is no longer open."""

    code = "already_answered"


class RunFinished(Conflict):
    """This run has ended."""

    code = "run_finished"


class BrokenInput(Invalid):
    """The input does not match the schema."""

    code = "input_invalid"


class RunEnded(Exception):
    """The run ends now, with this status and error. `reply`: what was sent of an answer that was stopped."""

    def __init__(self, status: str, code: str, message: str, reply: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.reply = reply


class RunWaits(Exception):
    """The run waits; release the worker. The rows say what it waits for."""

    def __init__(self, waiting_for: str, until: datetime | None = None) -> None:
        super().__init__(waiting_for)
        self.waiting_for = waiting_for
        self.until = until


class RunDone(Exception):
    """The run has ended and its rows say how; nothing is left to do."""


class LeaseLost(Exception):
    """Another worker took over the run; write nothing more."""
