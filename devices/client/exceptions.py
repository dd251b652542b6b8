class ToolRefused(Exception):
    """The tool will not do this; `code` and the message go to whoever asked."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Stopped(Exception):
    """The call was cancelled, or its time is up."""


class Fatal(Exception):
    """The client cannot go on; the message says what to do."""
