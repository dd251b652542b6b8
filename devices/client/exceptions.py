class ToolRefused(Exception):
    """The tool refuses; `code` and the message are sent to the caller."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Stopped(Exception):
    """The call was cancelled, or its time limit has passed."""


class Fatal(Exception):
    """The client cannot continue; the message says what to do."""
