"""What an agent's run left undone, so that a reply alone never counts as success. Pure.

A call that got no answer is made good only by the same call with an answer: another file is another
file. A call that was answered with a refusal is the model's to judge if it only reads; if it
changes something, a later success of the same tool makes it good.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.schema import canonical_json

READS = frozenset(["read", "read_out"])
NO_ANSWER = frozenset(
    [
        "agent_missing", "approval_expired", "bad_answer", "busy", "cancelled", "child_cancelled",
        "child_expired", "child_failed", "command_refused", "connection_missing", "deadline",
        "definition_changed", "device_failed", "device_offline", "device_unknown", "expired",
        "function_crashed", "input_expired", "login_refused", "login_unavailable", "missing_scope", "no_device",
        "no_login", "not_approved", "not_offered", "out_of_memory", "outcome_unknown", "private_address",
        "rate_limited", "reconnect_needed", "sandbox_unavailable", "server_died", "server_refused",
        "service_unavailable", "timeout", "too_busy", "tool_broken", "unavailable", "unknown_function",
        "unknown_tool_kind", "violation", "would_wait",
    ]
)  # fmt: skip
NOT_MADE = frozenset(["answer_cut_off", "invalid_arguments"])  # refused before the tool was asked
DECISIONS = frozenset(["denied", "approval_denied", "input_declined"])  # made by a person or by the author


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the run. `is_partial`: an agent or a chain that was called did only part of its work."""

    name: str
    arguments: str
    effect: str
    outcome: str
    code: str = ""
    is_partial: bool = False

    @classmethod
    def of(cls, record: Any) -> "Call":
        code = str((record.error or {}).get("code", ""))
        result = record.result if record.kind in ("agent", "builtin") else None
        is_partial = isinstance(result, dict) and "run" in result and result.get("status") == "partial"
        return cls(record.name, canonical_json(record.arguments), record.effect, record.outcome, code, is_partial)

    @property
    def is_answered(self) -> bool:
        """The tool itself said something, if only that it refuses."""
        return self.outcome == "ok" or (self.outcome == "failed" and self.code not in NO_ANSWER)

    @property
    def is_well(self) -> bool:
        return self.outcome == "ok" and not self.is_partial


def undone(calls: Sequence[Call]) -> list[Call]:
    """The calls that were not carried out and that no later call made good."""
    return [call for place, call in enumerate(calls) if is_lost(call) and not is_made_good(call, calls[place + 1 :])]


def is_lost(call: Call) -> bool:
    if call.outcome == "ok":
        return call.is_partial
    if call.outcome == "denied":
        return call.code == "approval_expired"
    if not call.is_answered:
        return True
    return call.code not in DECISIONS and (call.effect not in READS or call.code in NOT_MADE)


def is_made_good(call: Call, later: Sequence[Call]) -> bool:
    must_match = not call.is_answered
    return any(
        one.is_well and one.name == call.name and (not must_match or one.arguments == call.arguments) for one in later
    )


def shortfall(calls: Sequence[Call]) -> dict[str, str] | None:
    """Why a run with these calls did not succeed; None if it did all its work."""
    lost = undone(calls)
    if not lost:
        return None
    names = ", ".join(dict.fromkeys(call.name for call in lost))
    codes = ", ".join(dict.fromkeys(call.code or call.outcome for call in lost))
    number = "1 call was" if len(lost) == 1 else f"{len(lost)} calls were"
    return {"code": "work_undone", "message": f"{number} not carried out: {names} ({codes})"}
