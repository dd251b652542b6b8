"""Errors that reach the caller. Each class defines its status and code; config/errors.py turns them
into JSON.
"""

from typing import Any, Self

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.utils.translation import gettext_noop as _


class MusterError(Exception):
    """The request was refused; `hint` says what to do about it.

    Without a message, the docstring of the class is the message (`REFUSALS` in studio/labels.py lists them).
    """

    status = 400
    code = "error"

    def __init__(
        self,
        message: str = "",
        *,
        hint: str = "",
        details: list[Any] | None = None,
        code: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message or self.usual_message())
        self.hint = hint
        self.details = details or []
        self.code = code or self.code
        self.headers = headers or {}

    @classmethod
    def usual_message(cls) -> str:
        return " ".join((cls.__doc__ or "").split())


class Forbidden(MusterError):
    """You can see this, but you are not allowed to change it."""

    status = 403
    code = "forbidden"


class NotFound(MusterError):
    """There is nothing with this name that you can see."""

    status = 404
    code = "not_found"


class Conflict(MusterError):
    """It conflicts with an earlier or concurrent change."""

    status = 409
    code = "conflict"


class IdempotencyMismatch(Conflict):
    """This Idempotency-Key was used with another body."""

    code = "idempotency_mismatch"


class NewerFormat(Conflict):
    """A newer Muster published this; `format` is the number that a process must know to read it."""

    code = "newer_format"
    format = 0


class PreconditionFailed(MusterError):
    """It has been changed since you read it."""

    status = 412
    code = "changed_meanwhile"


class TooLarge(MusterError):
    """This is more than the site allows."""

    status = 413
    code = "too_large"


class Invalid(MusterError):
    """The body is valid JSON, but violates a schema or a rule."""

    status = 422
    code = "invalid"

    @classmethod
    def of(cls, error: ValidationError) -> Self:
        """A row's own validation errors: one detail {"field", "code", "message"} per problem."""
        # Django has no public name for “this error is by fields”.
        faults = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
        details = []
        for field, messages in faults.items():
            name = "" if field == NON_FIELD_ERRORS else field
            for message in messages:
                details.append({"field": name, "code": "invalid", "message": message})
        return cls(_("The values are not valid."), hint=_("See details."), details=details)


class RateLimited(MusterError):
    """Too many requests."""

    status = 429
    code = "rate_limited"


class Unavailable(MusterError):
    """A required service is down or busy; try again."""

    status = 503
    code = "unavailable"
