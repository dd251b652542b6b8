"""What a server of the zoo is told to answer, in no server's words."""

from dataclasses import dataclass
from typing import Any

JSON = Any


@dataclass(frozen=True, slots=True)
class Act:
    """One answer. `fault` is one of a server's `faults`, sent in its place."""

    text: str = ""
    calls: tuple[tuple[str, JSON], ...] = ()
    reasoning: str = ""
    refusal: str = ""
    finish: str = ""  # "length", or "" for the end that the rest implies
    fault: str = ""


@dataclass(slots=True)
class Reply:
    """An HTTP answer."""

    content: bytes
    kind: str = "application/json"
    status: int = 200
    headers: dict[str, str] | None = None
    is_cut: bool = False  # the connection breaks after these bytes


def says(text: str, **more: Any) -> Act:
    return Act(text=text, **more)


def calls(*wanted: tuple[str, JSON], **more: Any) -> Act:
    return Act(calls=wanted, **more)


def fails(fault: str) -> Act:
    return Act(fault=fault)
