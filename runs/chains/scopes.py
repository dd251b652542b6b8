"""The scope of a chain's expressions: the input, the variables, the ended steps."""

from typing import Any

from agents.spec import ChainSpec
from runs.models import Run, StepRun
from runs.rules.plan import State, build_chain_scope, settle_fallbacks


def read_chain_scope(run: Run, spec: ChainSpec) -> dict[str, Any]:
    """The scope according to the current rows."""
    states = {row.key: build_plan_state(row) for row in StepRun.objects.filter(run=run, item=-1)}
    return build_chain_scope(states, settle_fallbacks(spec, states), base(run))


def base(run: Run) -> dict[str, Any]:
    who = {"id": str(run.pk), "started_at": run.created_at.isoformat(), "trigger": run.trigger}
    return {"input": run.input, "variables": run.metadata.get("variables", {}), "run": who}


def build_plan_state(row: StepRun) -> State:
    errors = tuple((row.error or {}).get("items", ())) if row.total else ()
    return State(row.status, row.output, row.error, errors)
