"""What a chain does next, as tables."""

import pytest

from agents.spec import ChainSpec, Retry, StepSpec
from runs.rules.plan import State, backoff_s, compute_chain_output, may_retry, plan_steps

BASE = {"input": {"n": 3}, "variables": {}, "run": {}}
DONE, FAILED, SKIPPED, RUNNING = (
    State("succeeded", "out"),
    State("failed", error={"code": "x"}),
    State("skipped"),
    State("running"),
)


def chain(*steps, **fields):
    return ChainSpec(name="c", steps=[StepSpec(**{"target": "t", **step}) for step in steps], **fields)


DIAMOND = chain(
    {"key": "a"}, {"key": "b", "needs": ["a"]}, {"key": "c", "needs": ["a"]}, {"key": "d", "needs": ["b", "c"]}
)


@pytest.mark.parametrize(
    ("states", "start", "status"),
    [
        ({}, ["a"], ""),
        ({"a": RUNNING}, [], ""),
        ({"a": DONE}, ["b", "c"], ""),
        ({"a": DONE, "b": DONE}, ["c"], ""),
        ({"a": DONE, "b": DONE, "c": RUNNING}, [], ""),
        ({"a": DONE, "b": DONE, "c": DONE}, ["d"], ""),
        ({"a": DONE, "b": SKIPPED, "c": DONE}, ["d"], ""),
        ({"a": DONE, "b": DONE, "c": DONE, "d": DONE}, [], "succeeded"),
        ({"a": DONE, "b": FAILED, "c": RUNNING}, [], ""),  # the sibling ends first
        ({"a": DONE, "b": FAILED, "c": DONE}, [], "failed"),
    ],
)
def test_branches_run_side_by_side_and_join_truly(states, start, status):
    made = plan_steps(DIAMOND, states, BASE)
    assert (made.start, made.status) == (start, status)


def test_a_failed_branch_is_named_as_the_cause():
    assert plan_steps(DIAMOND, {"a": DONE, "b": FAILED, "c": DONE}, BASE).cause == "b"


def test_when_everything_a_step_needs_was_skipped_it_is_skipped_too():
    made = plan_steps(DIAMOND, {"a": DONE, "b": SKIPPED, "c": SKIPPED}, BASE)
    assert made.skip == [("d", "everything it needs was skipped")]


def test_a_false_condition_skips_with_its_reason_and_a_broken_one_is_told():
    spec = chain(
        {"key": "a", "when": "input.n > `5`"}, {"key": "b", "when": "length(input.n)"}, {"key": "c", "when": "input.n"}
    )
    made = plan_steps(spec, {}, BASE)
    assert made.skip == [("a", "its condition is false: input.n > `5`")]
    assert [key for key, _ in made.broken] == ["b"]
    assert made.start == ["c"]


ROUTER = chain(
    {"key": "a", "when": "input.n > `5`"},
    {"key": "b", "when": "input.n"},
    {"key": "c"},
    {"key": "d", "needs": ["a", "b", "c"]},
    strategy="router",
)


def test_a_router_takes_the_first_whose_condition_holds():
    made = plan_steps(ROUTER, {}, BASE)
    assert made.start == ["b"]
    assert dict(made.skip) == {"a": "its condition is false: input.n > `5`", "c": "“b” was chosen"}
    after = plan_steps(ROUTER, {"a": SKIPPED, "b": DONE, "c": SKIPPED}, BASE)
    assert after.start == ["d"]


def test_a_router_that_was_interrupted_keeps_its_choice():
    assert plan_steps(ROUTER, {"a": SKIPPED, "b": RUNNING}, BASE).start == []


FALLBACK = chain(
    {"key": "a", "on_error": "fallback", "fallback": "spare"}, {"key": "spare"}, {"key": "b", "needs": ["a"]}
)


@pytest.mark.parametrize(
    ("states", "start", "status"),
    [
        ({}, ["a"], ""),
        ({"a": DONE}, ["b"], ""),
        ({"a": DONE, "b": DONE}, [], "succeeded"),
        ({"a": FAILED}, ["spare"], ""),
        ({"a": FAILED, "spare": RUNNING}, [], ""),
        ({"a": FAILED, "spare": DONE}, ["b"], ""),
        ({"a": FAILED, "spare": DONE, "b": DONE}, [], "succeeded"),
        ({"a": FAILED, "spare": FAILED}, [], "failed"),
    ],
)
def test_a_fallback_stands_in_for_the_step_that_failed(states, start, status):
    made = plan_steps(FALLBACK, states, BASE)
    assert (made.start, made.status) == (start, status)


def test_the_fallbacks_output_takes_the_place_of_the_failed_steps():
    states = {"a": FAILED, "spare": State("succeeded", "second best"), "b": DONE}
    spec = FALLBACK.model_copy(update={"output": "steps.a.output"})
    assert compute_chain_output(spec, states, BASE) == "second best"


def test_on_error_continue_carries_on_and_ends_partial():
    spec = chain(
        {"key": "a", "on_error": "continue"}, {"key": "b", "needs": ["a"], "when": "steps.a.error.code == 'x'"}
    )
    assert plan_steps(spec, {"a": FAILED}, BASE).start == ["b"]
    assert plan_steps(spec, {"a": FAILED, "b": DONE}, BASE).status == "partial"


@pytest.mark.parametrize(
    ("states", "status", "cause"),
    [
        ({"a": FAILED, "b": DONE}, "partial", "a"),
        ({"a": FAILED, "b": FAILED}, "failed", "a"),  # nothing was done at all
        ({"a": FAILED, "b": SKIPPED}, "failed", "a"),
        ({"a": State("cancelled"), "b": SKIPPED}, "failed", "a"),
        ({"a": State("partial"), "b": FAILED}, "partial", "a"),
        ({"a": DONE, "b": State("partial")}, "partial", "b"),
        ({"a": SKIPPED, "b": SKIPPED}, "succeeded", ""),  # there was nothing to do
    ],
)
def test_a_run_succeeds_only_if_every_step_that_ran_did(states, status, cause):
    spec = chain({"key": "a", "on_error": "continue"}, {"key": "b", "on_error": "continue"})
    made = plan_steps(spec, states, BASE)
    assert (made.status, made.cause) == (status, cause)


def test_a_fallback_that_did_only_a_part_makes_the_run_partial():
    spec = chain({"key": "a", "on_error": "fallback", "fallback": "spare"}, {"key": "spare"})
    assert plan_steps(spec, {"a": FAILED, "spare": State("partial")}, BASE).status == "partial"


def test_items_that_failed_make_a_run_partial():
    assert plan_steps(chain({"key": "a"}), {"a": State("partial", [1, None])}, BASE).status == "partial"


def test_without_an_expression_the_last_step_that_ran_gives_the_result():
    assert compute_chain_output(DIAMOND, {"a": DONE, "b": State("succeeded", 7), "c": SKIPPED, "d": SKIPPED}, BASE) == 7


@pytest.mark.parametrize(
    ("attempt", "spread", "seconds"), [(1, 0, 2), (2, 0, 4), (3, 0, 8), (4, 0, 10), (9, 0, 10), (1, 1, 3), (1, -1, 1)]
)
def test_waits_double_up_to_a_limit_and_are_spread(attempt, spread, seconds):
    assert backoff_s(Retry(attempts=9, backoff_s=2, max_backoff_s=10, jitter=0.5), attempt, spread=spread) == seconds


@pytest.mark.parametrize(
    ("attempt", "code", "again"),
    [(1, "tool_failed", True), (3, "tool_failed", False), (1, "denied", False), (1, "outcome_unknown", False)],
)
def test_only_what_another_attempt_could_mend_is_tried_again(attempt, code, again):
    assert may_retry(Retry(attempts=3), attempt, {"code": code}) is again
