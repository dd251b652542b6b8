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
# Codes of calls that failed on the way: the tool itself said nothing.
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
# Refused before the tool was asked.
NOT_MADE = frozenset(["answer_cut_off", "invalid_arguments"])
# A person or the author decided that the call is not made.
DECISIONS = frozenset(["denied", "approval_denied", "input_declined"])


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the run. `is_partial`: it called an agent or a chain, which did only part of its work."""

    name: str
    arguments: str
    effect: str
    outcome: str
    code: str = ""
    is_partial: bool = False

    @classmethod
    def of(cls, record: Any) -> "Call":
        """The call of a stored row."""
        error = record.error or {}
        code = str(error.get("code", ""))
        arguments = canonical_json(record.arguments)
        is_partial = is_partial_child(record)
        return cls(record.name, arguments, record.effect, record.outcome, code, is_partial)

    @property
    def is_answered(self) -> bool:
        """The tool itself said something, if only that it refuses."""
        return self.outcome == "ok" or (self.outcome == "failed" and self.code not in NO_ANSWER)

    @property
    def is_complete(self) -> bool:
        return self.outcome == "ok" and not self.is_partial


def undone(calls: Sequence[Call]) -> list[Call]:
    """The calls that were not carried out and that no later call made good."""
    lost: list[Call] = []
    for position, call in enumerate(calls):
        if is_lost(call) and not is_made_good(call, calls[position + 1 :]):
            lost.append(call)
    return lost


def is_partial_child(record: Any) -> bool:
    """Whether the call was one of an agent that did only part of its work."""
    # Results of other tools may have a status too.
    if record.kind not in ("agent", "builtin") or not isinstance(record.result, dict):
        return False
    return "run" in record.result and record.result.get("status") == "partial"


def is_lost(call: Call) -> bool:
    """Whether the call left something undone."""
    if call.outcome == "ok":
        return call.is_partial
    if call.outcome == "denied":
        # A denial is a decision; about an expired approval nobody decided.
        return call.code == "approval_expired"
    if not call.is_answered:
        return True
    if call.code in DECISIONS:
        return False
    changes_something = call.effect not in READS
    return changes_something or call.code in NOT_MADE


def is_made_good(call: Call, later: Sequence[Call]) -> bool:
    # Without an answer only the very same call makes it good: another file is another file.
    must_match = not call.is_answered
    for other in later:
        if not other.is_complete or other.name != call.name:
            continue
        if not must_match or other.arguments == call.arguments:
            return True
    return False


def shortfall(calls: Sequence[Call]) -> dict[str, str] | None:
    """Why a run with these calls did not succeed; None if it did all its work."""
    lost = undone(calls)
    if not lost:
        return None
    # Each name and code once, in the order of the calls.
    names = ", ".join(dict.fromkeys(call.name for call in lost))
    codes = ", ".join(dict.fromkeys(call.code or call.outcome for call in lost))
    number = "1 call was" if len(lost) == 1 else f"{len(lost)} calls were"
    return {"code": "work_undone", "message": f"{number} not carried out: {names} ({codes})"}
