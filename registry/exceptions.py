"""Errors between a row and a model's answer. Each says what the catcher should do."""

from agents.exceptions import Invalid
from plumbing.json_values import clean_text


class CannotBuild(Invalid):
    """The agent cannot be built from its rows; its author has to change something."""

    code = "cannot_build"

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)
        self.message = message


class ModelFailed(Exception):
    """No model answered, after retries and fallbacks; end the run with this code."""

    def __init__(self, code: str, message: str, attempts: int = 1) -> None:
        # It may quote the server's answer.
        message = clean_text(message)
        super().__init__(message)
        self.code = code
        self.message = message
        self.attempts = attempts


class ModelCancelled(Exception):
    """The run was cancelled while a model was answering; stop without a reply."""


class AttemptFailed(Exception):
    """One attempt with one model failed. `is_retryable`: the same model may be asked again after
    `retry_after` seconds.
    """

    def __init__(
        self, code: str, message: str, *, status: int = 0, is_retryable: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.is_retryable = is_retryable
        self.retry_after = retry_after
