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
SHORT = 200  # characters of a text in a call's result


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
    named = ", ".join(str(one)[:80] for one in missing[:3]) + (" …" if len(missing) > 3 else "")
    message = f"{len(missing)} of what the step was given is missing: {named}"
    return {"code": "not_covered", "message": message, "missing": missing[:MISSING_KEPT], "run": str(child.pk)}


def find_uncovered_values(covers: Covers, scope: dict[str, Any]) -> list[Any]:
    """The values that `by` does not contain, each once. Raises MappingError."""
    done = {canonical_json(one) for one in evaluate_list(covers.by, scope)}
    values = {canonical_json(one): one for one in evaluate_list(covers.values, scope)}
    return [one for text, one in values.items() if text not in done]


def evaluate_list(expression: str, scope: dict[str, Any]) -> list[Any]:
    value = search_expression(expression, scope)
    if value is None or isinstance(value, list):
        return value or []
    raise MappingError(f"`{expression}` is not a list", code="not_a_list")


def list_answered_calls(child: Run) -> list[dict[str, Any]]:
    """The calls that a tool answered, if only with a refusal."""
    records = ToolCallRecord.objects.filter(run=child, parent_call=None).order_by("id")
    return [
        {"name": one.name, "arguments": one.arguments, "ok": one.outcome == "ok", "result": small(one.result)}
        for one in records
        if Call.of(one).is_answered
    ]


def small(result: Any) -> Any:
    """Numbers, truth values and short texts of a result: contents are not needed here."""
    if not isinstance(result, dict):
        return None
    plain = {name: one for name, one in result.items() if isinstance(one, str | int | float | bool)}
    return {name: one for name, one in plain.items() if not isinstance(one, str) or len(one) <= SHORT}
