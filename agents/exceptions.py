"""Errors that reach a caller. Each class says what the catcher should answer; config/errors.py turns them into JSON."""

from typing import Any, Self

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError


class MusterError(Exception):
    """Something was refused; `hint` says what to do about it."""

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
        super().__init__(message or (self.__doc__ or "").strip())
        self.hint = hint
        self.details = details or []
        self.code = code or self.code
        self.headers = headers or {}


class Forbidden(MusterError):
    """You can see this, but you may not change it."""

    status = 403
    code = "forbidden"


class NotFound(MusterError):
    """There is nothing of that name that you can see."""

    status = 404
    code = "not_found"


class Conflict(MusterError):
    """Something else happened first, or is happening now."""

    status = 409
    code = "conflict"


class TooLarge(MusterError):
    """That is more than this site takes."""

    status = 413
    code = "too_large"


class Invalid(MusterError):
    """The body is valid JSON, but breaks a schema or a rule."""

    status = 422
    code = "invalid"

    @classmethod
    def of(cls, error: ValidationError) -> Self:
        """What a row's own checks refuse: one detail {"field", "code", "message"} a fault."""
        faults = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
        details = [
            {"field": "" if field == NON_FIELD_ERRORS else field, "code": "invalid", "message": message}
            for field, messages in faults.items()
            for message in messages
        ]
        return cls("The values are not valid.", hint="See details.", details=details)


class RateLimited(MusterError):
    """Too many requests."""

    status = 429
    code = "rate_limited"


class Unavailable(MusterError):
    """Something this needs is down or busy; try again."""

    status = 503
    code = "unavailable"
