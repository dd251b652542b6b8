"""`covers`: whether a step's run has dealt with everything that it was given.

A reply says what a model believes; the calls of the run say what was done.
"""

from typing import Any

from agents.mapping import MappingError, search_expression
from agents.schema import canonical_json
from agents.spec import Covers, StepSpec
from runs.models import Run, StepRun, ToolCallRecord
from runs.rules.incomplete_calls import Call

MISSING_KEPT = 100
# Characters of a text in a call's result.
SHORT = 200


def find_coverage_error(step: StepSpec, row: StepRun, child: Run, output: Any) -> dict[str, Any] | None:
    """The step's error, with the values that are missing; None if all are covered or the step has no
    `covers`.
    """
    if step.covers is None:
        return None
    scope = {"input": row.input, "output": output, "calls": list_answered_calls(child)}
    try:
        missing = find_uncovered_values(step.covers, scope)
    except MappingError as error:
        return {"code": error.code, "message": f"covers: {error}", "run": str(child.pk)}
    if not missing:
        return None
    named = ", ".join(str(value)[:80] for value in missing[:3])
    if len(missing) > 3:
        named += " …"
    message = f"{len(missing)} of what the step was given is missing: {named}"
    return {"code": "not_covered", "message": message, "missing": missing[:MISSING_KEPT], "run": str(child.pk)}


def find_uncovered_values(covers: Covers, scope: dict[str, Any]) -> list[Any]:
    """The values that `by` does not contain, each once. Raises MappingError."""
    # Objects and lists cannot be compared by hash; their JSON can.
    done = {canonical_json(value) for value in evaluate_list(covers.by, scope)}
    missing: dict[str, Any] = {}
    for value in evaluate_list(covers.values, scope):
        text = canonical_json(value)
        if text not in done:
            missing[text] = value
    return list(missing.values())


def evaluate_list(expression: str, scope: dict[str, Any]) -> list[Any]:
    value = search_expression(expression, scope)
    if value is None:
        return []
    if not isinstance(value, list):
        raise MappingError(f"`{expression}` is not a list", code="not_a_list")
    return value


def list_answered_calls(child: Run) -> list[dict[str, Any]]:
    """The calls that a tool answered, if only with a refusal."""
    calls: list[dict[str, Any]] = []
    for record in ToolCallRecord.objects.filter(run=child, parent_call=None).order_by("id"):
        if Call.of(record).is_answered:
            is_ok = record.outcome == "ok"
            result = small(record.result)
            calls.append({"name": record.name, "arguments": record.arguments, "ok": is_ok, "result": result})
    return calls


def small(result: Any) -> Any:
    """Numbers, truth values and short texts of a result: contents are not needed here."""
    if not isinstance(result, dict):
        return None
    return {name: value for name, value in result.items() if is_small(value)}


def is_small(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= SHORT
    return isinstance(value, int | float | bool)
