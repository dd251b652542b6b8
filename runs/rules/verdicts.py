"""What a hook answers: {"verdict": "allow"}, {"verdict": "deny", "reason"?} or {"verdict": "replace", "value"}."""

from dataclasses import dataclass
from typing import Any

ALLOW, DENY, REPLACE = "allow", "deny", "replace"
FIELDS = {ALLOW: {"verdict"}, DENY: {"verdict", "reason"}, REPLACE: {"verdict", "value"}}
# after_tool: any JSON.
VALUES: dict[str, type] = {"before_tool": dict, "message_in": str, "message_out": str}
REASON_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: str
    reason: str = ""
    value: Any = None


def parse_verdict(answer: Any, place: str) -> Verdict:
    """The verdict in a hook's answer. Raises ValueError if it is anything else."""
    kind = answer.get("verdict") if isinstance(answer, dict) else None
    if not isinstance(kind, str) or kind not in FIELDS:
        raise ValueError('the answer must be an object with the “verdict” "allow", "deny" or "replace"')
    unknown = answer.keys() - FIELDS[kind]
    if unknown:
        raise ValueError(f"“{min(unknown)}” does not belong to the verdict “{kind}”")
    if kind == DENY:
        text = str(answer.get("reason") or "")
        return Verdict(DENY, reason=text[:REASON_LIMIT])
    if kind == REPLACE:
        expected_type = VALUES.get(place, object)
        if "value" not in answer or not isinstance(answer["value"], expected_type):
            raise ValueError(f"a replacement at {place} needs a “value” of the right type")
        return Verdict(REPLACE, value=answer["value"])
    return Verdict(ALLOW)
