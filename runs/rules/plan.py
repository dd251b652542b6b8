"""Decides what a chain does next. Pure: spec and states in; steps to start, steps to skip and the
result out.

A step starts when all its needs have ended and at least one of them ran. It is skipped when its
`when` is false, when all its needs were skipped, or when a router chose another step. After a
failed step with `on_error: stop` nothing more starts: steps in progress end first, then the run
fails, so that a retry keeps every finished step.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agents.graph import alternatives, fallback_keys, find_needs
from agents.mapping import MappingError, holds, search
from agents.spec import ChainSpec, Retry, StepSpec

RAN = frozenset(["succeeded", "partial", "failed"])
ENDED = RAN | {"skipped", "cancelled"}
NEVER_RETRIED = frozenset(
    [
        "approval_denied", "approval_expired", "cancelled", "cycle", "denied", "input_invalid", "invalid_arguments",
        "invalid_expression", "invalid_mapping", "nobody_fits", "not_a_list", "not_published", "nothing_there",
        "outcome_unknown", "target_not_visible", "too_deep", "too_many_items", "too_much_work", "unknown_file",
        "unknown_session", "unknown_source",
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class State:
    """The state of one step. `status` is StepRun's."""

    status: str
    output: Any = None
    error: dict[str, Any] | None = None
    errors: tuple[dict[str, Any], ...] = ()  # of for_each items: {"index", "code", "message"}


@dataclass(slots=True)
class Plan:
    start: list[str] = field(default_factory=list)
    skip: list[tuple[str, str]] = field(default_factory=list)  # (key, why)
    broken: list[tuple[str, MappingError]] = field(default_factory=list)  # a condition that cannot be evaluated
    status: str = ""  # how the run ends; empty while it continues
    cause: str = ""  # the step that made it fail


def plan(spec: ChainSpec, states: dict[str, State], base: dict[str, Any]) -> Plan:
    """The next moves. `base` is the scope without steps: {"input", "variables", "run"}."""
    result = Plan()
    settled = settle_fallbacks(spec, states)
    stopper = next((step.key for step in spec.steps if stops_the_run(step, settled)), "")
    if stopper:
        result.cause = stopper
        if not under_way(states):
            result.status = "failed"
        return result
    scope = scope_of(states, settled, base)
    needs, spare = find_needs(spec), fallback_keys(spec)
    for step in spec.steps:
        if step.key not in states and step.key not in spare:
            consider(step, needs[step.key], settled, scope, result)
    choose(spec, states, result)
    start_fallbacks(spec, states, result)
    if not (result.start or result.skip or result.broken or under_way(states)):
        result.status, result.cause = ending(spec, settled)
    return result


def settle_fallbacks(spec: ChainSpec, states: dict[str, State]) -> dict[str, State]:
    """The states with each failed step replaced by its fallback's result; absent while the fallback
    runs.
    """
    settled = {key: state for key, state in states.items() if state.status in ENDED}
    for _ in range(len(spec.steps)):
        changed = False
        for step in spec.steps:
            if step.on_error != "fallback" or step.key not in states or states[step.key].status != "failed":
                continue
            stand_in = settled.get(step.fallback)
            if stand_in is None:
                changed |= settled.pop(step.key, None) is not None
            elif settled.get(step.key) != (new := State(stand_in.status, stand_in.output, states[step.key].error)):
                settled[step.key] = new
                changed = True
        if not changed:
            break
    return settled


def stops_the_run(step: StepSpec, settled: dict[str, State]) -> bool:
    """Whether it failed without a fallback or `continue`. For a step with a fallback, the fallback
    decides.
    """
    state = settled.get(step.key)
    return state is not None and state.status in ("failed", "cancelled") and step.on_error == "stop"


def under_way(states: dict[str, State]) -> bool:
    return any(state.status not in ENDED for state in states.values())


def consider(
    step: StepSpec, needs: Iterable[str], settled: dict[str, State], scope: dict[str, Any], result: Plan
) -> None:
    needed = [settled.get(need) for need in needs]
    if any(state is None for state in needed):
        return
    if needed and all(state.status == "skipped" for state in needed if state):
        result.skip.append((step.key, "everything it needs was skipped"))
        return
    try:
        applies = not step.when or holds(step.when, scope)
    except MappingError as error:
        result.broken.append((step.key, error))
        return
    if applies:
        result.start.append(step.key)
    else:
        result.skip.append((step.key, f"its condition is false: {step.when}"))


def choose(spec: ChainSpec, states: dict[str, State], result: Plan) -> None:
    """A router takes the first alternative whose condition holds and skips the others."""
    among = alternatives(spec)
    winner = next((key for key in among if key in states and states[key].status != "skipped"), None)
    winner = winner or next((key for key in among if key in result.start), None)
    if winner is None:
        return
    lost = [key for key in result.start if key in among and key != winner]
    result.start = [key for key in result.start if key not in lost]
    result.skip += [(key, f"“{winner}” was chosen") for key in lost]


def start_fallbacks(spec: ChainSpec, states: dict[str, State], result: Plan) -> None:
    for step in spec.steps:
        failed = step.key in states and states[step.key].status == "failed"
        if failed and step.on_error == "fallback" and step.fallback not in states and step.fallback not in result.start:
            result.start.append(step.fallback)


def ending(spec: ChainSpec, settled: dict[str, State]) -> tuple[str, str]:
    """All steps have ended: the status, and the step that it is due to.

    `partial` if a failure was tolerated or a step did only part of its work; `failed` if none of the
    steps that ran got anything done.
    """
    spare = fallback_keys(spec)
    ran = [(step.key, settled[step.key].status) for step in spec.steps if is_ran(step.key, settled, spare)]
    short = [key for key, status in ran if status != "succeeded"]
    if not short:
        return "succeeded", ""
    is_any_done = any(status in ("succeeded", "partial") for _, status in ran)
    return "partial" if is_any_done else "failed", short[0]


def is_ran(key: str, settled: dict[str, State], spare: Iterable[str]) -> bool:
    return key not in spare and key in settled and settled[key].status != "skipped"


def scope_of(states: dict[str, State], settled: dict[str, State], base: dict[str, Any]) -> dict[str, Any]:
    """The scope of expressions: ended steps, each with status, output, error and the errors of its
    items.
    """
    seen = {**{key: state for key, state in states.items() if state.status in ENDED}, **settled}
    return {
        **base,
        "steps": {
            key: {"status": state.status, "output": state.output, "error": state.error, "errors": list(state.errors)}
            for key, state in seen.items()
        },
    }


def result_of(spec: ChainSpec, states: dict[str, State], base: dict[str, Any]) -> Any:
    """The chain's output: its expression, else the output of the last step that ran. Raises
    MappingError.
    """
    settled = settle_fallbacks(spec, states)
    if spec.output:
        return search(spec.output, scope_of(states, settled, base))
    spare = fallback_keys(spec)
    ran = [step.key for step in spec.steps if step.key not in spare and step.key in settled]
    ran = [key for key in ran if settled[key].status in ("succeeded", "partial")]
    return settled[ran[-1]].output if ran else None


def may_retry(retry: Retry, attempt: int, error: dict[str, Any] | None) -> bool:
    """Whether another attempt is allowed after `attempt` attempts, and could help."""
    return attempt < retry.attempts and (error or {}).get("code") not in NEVER_RETRIED


def backoff_s(retry: Retry, attempt: int, *, spread: float | None = None) -> float:
    """Seconds to wait after attempt number `attempt`. `spread` in [-1, 1] is random unless given."""
    spread = random.uniform(-1, 1) if spread is None else spread  # noqa: S311 (spreads load, guards nothing)
    wait = min(retry.backoff_s * 2 ** (attempt - 1), retry.max_backoff_s)
    return wait * (1 + retry.jitter * spread)
