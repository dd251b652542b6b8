"""Tries of a chain's draft in which the output of some steps is given: these steps do not run.

A pin is {"value": …}, {"run": id} for the output that the step had in an earlier run, or both for
such an output that was changed by hand. The run is marked as one with text written by strangers if
the earlier run was.
"""

from typing import Any

from django.utils import timezone

from agents.exceptions import Invalid
from agents.models import Chain
from runs.models import Run, StepRun

WELL = (StepRun.Status.SUCCEEDED, StepRun.Status.PARTIAL)
Pins = dict[str, dict[str, Any]]


def build_pinned_rows(run: Run, chain: Chain, pinned: Pins) -> list[StepRun]:
    """An ended row for each pinned step, not stored. Sets the run's mark. Raises Invalid."""
    spec = run.chain_version.read_spec()
    if unknown := sorted(pinned.keys() - {step.key for step in spec.steps}):
        raise refuse_pin(unknown[0], "unknown_step", f"“{unknown[0]}” is not one of the steps that this try runs.")
    earlier = earlier_runs(run, chain, pinned)
    outputs = load_earlier_outputs(earlier)
    run.has_untrusted = run.has_untrusted or any(one.has_untrusted for one in earlier.values())
    now = timezone.now()
    return [
        StepRun(
            run=run,
            key=key,
            status=StepRun.Status.SUCCEEDED,
            pinned=True,
            output=find_pinned_output(key, pin, outputs),
            started_at=now,
            finished_at=now,
        )
        for key, pin in pinned.items()
    ]


def earlier_runs(run: Run, chain: Chain, pinned: Pins) -> dict[str, Run]:
    """The named runs: this person's, of this chain. Raises Invalid."""
    keys_of_runs = {pin["run"]: key for key, pin in pinned.items() if "run" in pin}
    if not keys_of_runs:
        return {}
    visible = Run.objects.visible_to(run.principal)
    own = visible.filter(pk__in=keys_of_runs, chain_version__chain=chain)
    runs = {str(earlier.pk): earlier for earlier in own}
    for pk, key in keys_of_runs.items():
        if pk not in runs:
            raise refuse_pin(
                key, "unknown_run", f"The pin of step “{key}” names a run that is not yours or of this chain."
            )
    return runs


def load_earlier_outputs(earlier: dict[str, Run]) -> dict[tuple[str, str], Any]:
    """{(run, key of the step): its output}"""
    if not earlier:
        return {}
    ended = StepRun.objects.filter(run__in=list(earlier), item=-1, status__in=WELL)
    rows = ended.values_list("run_id", "key", "output")
    return {(str(run_id), key): output for run_id, key, output in rows}


def find_pinned_output(key: str, pin: dict[str, Any], outputs: dict[tuple[str, str], Any]) -> Any:
    if "value" in pin:
        return pin["value"]
    if (pin["run"], key) not in outputs:
        raise refuse_pin(
            key, "nothing_to_pin", f"Step “{key}” did not succeed in that run, so there is no output to use."
        )
    return outputs[pin["run"], key]


def refuse_pin(key: str, code: str, message: str) -> Invalid:
    problem = {"field": f"pinned.{key}", "step": key, "code": code, "message": message}
    return Invalid(message, code=code, details=[problem])
