"""The answers of the sandbox: refusals before a function runs, an outcome afterwards."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from .ending import Ending, Usage

Status = Literal["ok", "error", "timeout", "memory", "cpu", "violation", "crash", "refused", "busy", "cancelled"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """One problem in a source. Lines and columns start at 1; end_column is exclusive."""

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
    """Why a call failed. `line` is the line of the stored source, or None if none was reached."""

    type: str
    message: str
    line: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(slots=True)  # a frozen dataclass takes five microseconds to create, a tenth of a short call
class Outcome:
    """How one call ended. `isolation` is `full` or `reduced`, or `none` if nothing ran.

    `ending` has the kernel's figures for the process, which may arrive later.
    """

    status: Status
    result: Any = None
    error: FunctionError | None = None
    printed: str = ""
    printed_cut: bool = False
    wall_ms: float = 0.0
    isolation: str = "none"
    layers: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    calls: int = 0
    ending: Ending | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether there is a result."""
        return self.status == "ok"

    @property
    def cpu_ms(self) -> float:
        """CPU time of the process, including its start. Waits for the kernel's figures if they have
        not arrived yet.
        """
        usage = self._usage()
        if usage is None:
            return 0.0
        return round(usage.cpu_s * 1000, 3)

    @property
    def peak_kb(self) -> int:
        """Peak resident memory. Waits like cpu_ms."""
        usage = self._usage()
        if usage is None:
            return 0
        return usage.peak_kb

    def _usage(self) -> Usage | None:
        if self.ending is None:
            return None
        return self.ending.usage()

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without `layers` and `ending`."""
        error = self.error.as_dict() if self.error else None
        refusals = [refusal.as_dict() for refusal in self.refusals]
        return {
            "status": self.status,
            "result": self.result,
            "error": error,
            "printed": self.printed,
            "printed_cut": self.printed_cut,
            "wall_ms": self.wall_ms,
            "cpu_ms": self.cpu_ms,
            "peak_kb": self.peak_kb,
            "isolation": self.isolation,
            "calls": self.calls,
            "refusals": refusals,
        }
