"""What the sandbox answers: refusals before a function runs, an outcome after."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Status = Literal["ok", "error", "timeout", "memory", "cpu", "violation", "crash", "refused", "busy", "cancelled"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that is wrong with a source. Lines and columns count from 1; end_column is exclusive."""

    code: str
    message: str
    hint: str
    line: int
    column: int
    end_line: int
    end_column: int
    severity: str = "error"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FunctionError:
    """Why a call did not end well. `line` is the line of the stored source, or None when none was reached."""

    type: str
    message: str
    line: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one call ended. CPU and memory are the kernel's figures, not the child's; peak_kb is resident memory.

    isolation is `full` or `reduced`; `none` where nothing ran.
    """

    status: Status
    result: Any = None
    error: FunctionError | None = None
    printed: str = ""
    printed_cut: bool = False
    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    peak_kb: int = 0
    isolation: str = "none"
    layers: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    calls: int = 0

    @property
    def ok(self) -> bool:
        """Whether there is a result."""
        return self.status == "ok"

    def on(self, isolation: str, layers: tuple[str, ...]) -> Outcome:
        """The same, with the layers that were in force."""
        return replace(self, isolation=isolation, layers=layers)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
