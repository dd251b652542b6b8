"""Reads user input in a separate process: a source, a schema or an expression that is not provably
cheap.

Work that holds the interpreter lock of a serving process makes every user wait. Small input is read
here, within a known bound; the rest is read in a process with limits of memory and time, which
`functions` provides when the application starts.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Reader = Callable[[str, tuple[Any, ...], str | None], Any]
person: ContextVar[str | None] = ContextVar("person", default=None)


class TooMuch(Exception):
    """Reading the input takes more time or memory than one request may use. Answer with a 4xx."""


class Refused(ValueError):
    """The input is not acceptable. `code`, `hint`, `line` and `column` say why and where."""

    def __init__(self, message: str, *, code: str = "", hint: str = "", line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.code, self.hint, self.line, self.column = code, hint, line, column


class Place:
    """The reader in use."""

    reader: Reader | None = None


def use(reader: Reader) -> None:
    """Called once, when the application starts."""
    Place.reader = reader


def run_reader_task(task: str, *parts: Any) -> Any:
    """Run one of the reader's tasks with these JSON values. Raises TooMuch, Refused; 503 when it is
    busy.
    """
    if Place.reader is None:
        raise TooMuch("there is no process to read it in")
    return Place.reader(task, parts, person.get())


@contextmanager
def count_user_reading(user_id: Any) -> Iterator[None]:
    """Inside this context, reading counts against this user's share."""
    token = person.set(None if user_id is None else str(user_id))
    try:
        yield
    finally:
        person.reset(token)
