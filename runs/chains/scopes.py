"""The scope of a chain's expressions: the input, the variables, the ended steps."""

from typing import Any

from agents.spec import ChainSpec
from runs.models import Run, StepRun
from runs.rules.plan import State, build_chain_scope, settle_fallbacks


def read_chain_scope(run: Run, spec: ChainSpec) -> dict[str, Any]:
    """The scope according to the current rows."""
    rows = StepRun.objects.filter(run=run, item=-1)
    states = {row.key: build_plan_state(row) for row in rows}
    settled = settle_fallbacks(spec, states)
    return build_chain_scope(states, settled, base(run))


def base(run: Run) -> dict[str, Any]:
    """What expressions know before the first step."""
    started_at = run.created_at.isoformat()
    about_run = {"id": str(run.pk), "started_at": started_at, "trigger": run.trigger}
    variables = run.metadata.get("variables", {})
    return {"input": run.input, "variables": variables, "run": about_run}


def build_plan_state(row: StepRun) -> State:
    errors: list[dict[str, Any]] = []
    # Only the step of a for_each has a total, and errors of its items.
    if row.total and row.error:
        errors = row.error.get("items", [])
    return State(row.status, row.output, row.error, tuple(errors))
