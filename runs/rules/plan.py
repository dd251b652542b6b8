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
from agents.mapping import MappingError, holds, search_expression
from agents.spec import ChainSpec, Retry, StepSpec

RAN = frozenset(["succeeded", "partial", "failed"])
ENDED = RAN | {"skipped", "cancelled"}
# Errors that another attempt would meet again, or that a person has decided.
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
    # Of for_each items: {"index", "code", "message"}
    errors: tuple[dict[str, Any], ...] = ()


@dataclass(slots=True)
class Plan:
    start: list[str] = field(default_factory=list)
    # (key, why).
    skip: list[tuple[str, str]] = field(default_factory=list)
    # A condition that cannot be evaluated.
    broken: list[tuple[str, MappingError]] = field(default_factory=list)
    # How the run ends; empty while it continues.
    status: str = ""
    # The step that made it fail.
    cause: str = ""


def plan_steps(spec: ChainSpec, states: dict[str, State], base: dict[str, Any]) -> Plan:
    """The next moves of a chain. `base` is the scope without steps: {"input", "variables", "run"}."""
    result = Plan()
    settled = settle_fallbacks(spec, states)
    for step in spec.steps:
        if stops_the_run(step, settled):
            result.cause = step.key
            # Steps in progress may end first, so that a retry keeps what they did.
            if not under_way(states):
                result.status = "failed"
            return result
    scope = build_chain_scope(states, settled, base)
    needs = find_needs(spec)
    spare = fallback_keys(spec)
    for step in spec.steps:
        if step.key not in states and step.key not in spare:
            consider(step, needs[step.key], settled, scope, result)
    choose_alternative(spec, states, result)
    start_fallbacks(spec, states, result)
    has_moves = result.start or result.skip or result.broken
    if not has_moves and not under_way(states):
        result.status, result.cause = judge_ending(spec, settled)
    return result


def settle_fallbacks(spec: ChainSpec, states: dict[str, State]) -> dict[str, State]:
    """The states of the ended steps, with each failed step replaced by its fallback's result. A step whose
    fallback still runs is absent.
    """
    settled = {key: state for key, state in states.items() if state.status in ENDED}
    # A fallback may have a fallback itself: repeat until nothing changes, at most once a step.
    for _ in range(len(spec.steps)):
        has_changed = False
        for step in spec.steps:
            if step.on_error == "fallback" and has_failed(step.key, states):
                has_changed |= settle_fallback(step, states, settled)
        if not has_changed:
            break
    return settled


def settle_fallback(step: StepSpec, states: dict[str, State], settled: dict[str, State]) -> bool:
    """Replaces a failed step's state by its fallback's. Gives whether that changed anything."""
    stand_in = settled.get(step.fallback)
    if stand_in is None:
        removed = settled.pop(step.key, None)
        return removed is not None
    replaced = State(stand_in.status, stand_in.output, states[step.key].error)
    if settled.get(step.key) == replaced:
        return False
    settled[step.key] = replaced
    return True


def has_failed(key: str, states: dict[str, State]) -> bool:
    state = states.get(key)
    return state is not None and state.status == "failed"


def stops_the_run(step: StepSpec, settled: dict[str, State]) -> bool:
    """Whether it failed without a fallback or `continue`. For a step with a fallback, the fallback decides."""
    if step.on_error != "stop":
        return False
    state = settled.get(step.key)
    return state is not None and state.status in ("failed", "cancelled")


def under_way(states: dict[str, State]) -> bool:
    return any(state.status not in ENDED for state in states.values())


def consider(
    step: StepSpec, needs: Iterable[str], settled: dict[str, State], scope: dict[str, Any], result: Plan
) -> None:
    """Starts or skips a step if everything that it needs has ended."""
    needed: list[State] = []
    for need in needs:
        state = settled.get(need)
        if state is None:
            return
        needed.append(state)
    if needed and all(state.status == "skipped" for state in needed):
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


def choose_alternative(spec: ChainSpec, states: dict[str, State], result: Plan) -> None:
    """A router takes the first alternative whose condition holds and skips the others."""
    among = alternatives(spec)
    # An alternative that was taken earlier stays the one, whatever holds now.
    candidates = [key for key in among if key in states and states[key].status != "skipped"]
    candidates += [key for key in among if key in result.start]
    if not candidates:
        return
    winner = candidates[0]
    going_on: list[str] = []
    for key in result.start:
        if key in among and key != winner:
            result.skip.append((key, f"“{winner}” was chosen"))
        else:
            going_on.append(key)
    result.start = going_on


def start_fallbacks(spec: ChainSpec, states: dict[str, State], result: Plan) -> None:
    for step in spec.steps:
        if step.on_error != "fallback" or not has_failed(step.key, states):
            continue
        # Several steps may share a fallback, which runs once.
        if step.fallback not in states and step.fallback not in result.start:
            result.start.append(step.fallback)


def judge_ending(spec: ChainSpec, settled: dict[str, State]) -> tuple[str, str]:
    """The status of a chain whose steps have all ended, and the step that it is due to.

    `partial` if a failure was tolerated or a step did only part of its work; `failed` if none of the
    steps that ran got anything done.
    """
    spare = fallback_keys(spec)
    ran = [step.key for step in spec.steps if is_ran(step.key, settled, spare)]
    short = [key for key in ran if settled[key].status != "succeeded"]
    if not short:
        return "succeeded", ""
    cause = short[0]
    if any(settled[key].status in ("succeeded", "partial") for key in ran):
        return "partial", cause
    return "failed", cause


def is_ran(key: str, settled: dict[str, State], spare: Iterable[str]) -> bool:
    """Whether this step ran itself. A fallback is not counted: its result stands at the step that it replaces."""
    return key not in spare and key in settled and settled[key].status != "skipped"


def build_chain_scope(states: dict[str, State], settled: dict[str, State], base: dict[str, Any]) -> dict[str, Any]:
    """The scope of expressions: ended steps, each with status, output, error and the errors of its items."""
    ended = {key: state for key, state in states.items() if state.status in ENDED}
    # A step whose fallback still runs is not settled, but has ended as failed.
    ended.update(settled)
    steps: dict[str, dict[str, Any]] = {}
    for key, state in ended.items():
        steps[key] = {
            "status": state.status,
            "output": state.output,
            "error": state.error,
            "errors": list(state.errors),
        }
    return {**base, "steps": steps}


def compute_chain_output(spec: ChainSpec, states: dict[str, State], base: dict[str, Any]) -> Any:
    """The chain's output: its expression, else the output of the last step that ran. Raises MappingError."""
    settled = settle_fallbacks(spec, states)
    if spec.output:
        return search_expression(spec.output, build_chain_scope(states, settled, base))
    spare = fallback_keys(spec)
    for step in reversed(spec.steps):
        state = settled.get(step.key)
        if step.key in spare or state is None:
            continue
        if state.status in ("succeeded", "partial"):
            return state.output
    return None


def may_retry(retry: Retry, attempt: int, error: dict[str, Any] | None) -> bool:
    """Whether another attempt is allowed after `attempt` attempts, and could help."""
    if attempt >= retry.attempts:
        return False
    code = error.get("code") if error else None
    return code not in NEVER_RETRIED


def backoff_s(retry: Retry, attempt: int, *, spread: float | None = None) -> float:
    """Seconds to wait after attempt number `attempt`. `spread` in [-1, 1] is random unless given."""
    if spread is None:
        spread = random.uniform(-1, 1)  # noqa: S311 (spreads load, guards nothing)
    doubled = retry.backoff_s * 2 ** (attempt - 1)
    wait = min(doubled, retry.max_backoff_s)
    return wait * (1 + retry.jitter * spread)
