"""The scope of a chain's expressions: the input, the variables, the ended steps."""

from typing import Any

from agents.spec import ChainSpec
from runs.models import Run, StepRun
from runs.rules.plan import State, scope_of, settle_fallbacks


def read(run: Run, spec: ChainSpec) -> dict[str, Any]:
    """The scope according to the current rows."""
    states = {row.key: state_of(row) for row in StepRun.objects.filter(run=run, item=-1)}
    return scope_of(states, settle_fallbacks(spec, states), base(run))


def base(run: Run) -> dict[str, Any]:
    who = {"id": str(run.pk), "started_at": run.created_at.isoformat(), "trigger": run.trigger}
    return {"input": run.input, "variables": run.metadata.get("variables", {}), "run": who}


def state_of(row: StepRun) -> State:
    errors = tuple((row.error or {}).get("items", ())) if row.total else ()
    return State(row.status, row.output, row.error, errors)
