"""Circles are told from work: every planted one ends, and no honest run is stopped."""

from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from benchmarks import circles
from runs.rules.answers import Step
from runs.rules.stuck import check_progress


def step(turn, name="find", arguments="{}", answer='"x"', **more):
    return Step(name, arguments, answer, turn, **more)


@dataclass
class Record:
    """A call's row, as far as `Step.of` reads it."""

    name: str
    kind: str
    arguments: dict[str, Any]
    result: Any
    turn: int
    outcome: str = "ok"
    error: dict[str, Any] | None = field(default=None)
    effect: str = "write"


def play(make, turns=12):
    """The turn of the warning and of the stop, when `make(turn)` gives each turn's steps."""
    steps, warned, stopped = [], None, None
    for turn in range(1, turns + 1):
        steps += make(turn)
        verdict = check_progress(steps, was_warned=warned is not None)
        if verdict and verdict.stop:
            stopped = turn
            break
        if verdict:
            warned = turn
    return warned, stopped


def test_the_same_call_three_times_is_warned_of_then_stopped():
    assert play(lambda turn: [step(turn)]) == (3, 4)


def test_several_same_calls_at_once_count_as_one_turn():
    assert play(lambda turn: [step(turn), step(turn), step(turn)]) == (3, 4)


@pytest.mark.parametrize("period", [2, 3, 5])
def test_a_circle_is_warned_of_when_it_closes_and_stopped_in_the_next_turn(period):
    warned, stopped = play(lambda turn: [step(turn, name=f"tool-{turn % period}")])
    assert warned == period + 1 and stopped == period + 2


@pytest.mark.parametrize("case", circles.cases("planted"), ids=lambda case: case["name"])
def test_each_planted_circle_is_warned_of_and_stopped_in_time(case):
    warned, stopped = circles.play(circles.planted_turns(case))
    assert warned < stopped <= case.get("latest", circles.LATEST)


@pytest.mark.parametrize("case", circles.cases("honest"), ids=lambda case: case["name"])
def test_no_honest_run_is_stopped(case):
    assert circles.play(circles.honest_turns(case))[1] is None


def test_failing_in_the_same_way_is_stopped_whatever_the_arguments():
    failure = {"outcome": "failed", "code": "tool_failed", "answer": "failed: tool_failed"}
    assert play(lambda turn: [step(turn, arguments=f'{{"n":{turn}}}', **failure)]) == (3, 4)


def test_finding_nothing_is_stopped_when_the_same_was_sought_in_other_words():
    extra = ["", "old", "my", "all", "any"]
    assert play(lambda turn: [step(turn, arguments=f'{{"q":"{extra[turn]} invoice May"}}', answer="[]")]) == (3, 4)


def test_finding_nothing_about_one_thing_after_another_is_an_answer():
    assert play(lambda turn: [step(turn, arguments=f'{{"day":{turn}}}', answer="[]")]) == (None, None)


def test_two_agents_sending_each_other_to_and_fro_are_stopped():
    def ping_pong(turn):
        arguments = f'{{"task":"round {turn}"}}'
        return [step(turn, name=("ann", "ben")[turn % 2], arguments=arguments, answer=f'"{turn}"', kind="agent")]

    assert play(ping_pong) == (3, 4)


def test_ever_new_tasks_do_not_help_two_agents_that_only_repeat_them():
    def ping_pong(turn):
        task = f'"please look at matter{"abcdefghijklm"[turn]} again"'
        return [step(turn, name=("ann", "ben")[turn % 2], arguments=task, answer=f'"Let us {task}"', kind="agent")]

    assert play(ping_pong) == (3, 4)


def test_two_agents_with_fixed_tasks_are_stopped_as_soon():
    assert play(lambda turn: [step(turn, name=("ann", "ben")[turn % 2], kind="agent")]) == (3, 4)


def test_a_writer_and_a_reviewer_have_a_second_round():
    novel = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]

    def write_and_review(turn):
        answer = " ".join(word + "abcdefghijklm"[turn] for word in novel)
        return [step(turn, name=("writer", "reviewer")[turn % 2], arguments="{}", answer=answer, kind="agent")]

    assert play(write_and_review) == (5, 6)


def test_the_runs_that_agents_started_do_not_make_their_answers_new():
    def record(turn):
        name = ("ann", "ben")[turn % 2]
        result = {"reply": "Ask the other.", "output": None, "run": f"run-{uuid4()}", "agent": name}
        return Record(name="delegate", kind="builtin", arguments={"task": "x"}, result=result, turn=turn)

    assert play(lambda turn: [Step.of(record(turn))]) == (3, 4)


def test_a_clock_is_no_progress():
    assert play(lambda turn: [step(turn, answer=f'"2026-11-21T10:00:{turn:02}Z"', effect="read")]) == (3, 4)


@pytest.mark.parametrize("effect", ["write", "idempotent"])
def test_taking_one_numbered_thing_after_another_is_given_longer_than_a_clock(effect):
    assert play(lambda turn: [step(turn, answer=f'{{"item":{turn}}}', effect=effect)]) == (5, 6)


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_batch_after_batch_of_a_long_list_is_work(effect):
    def batch(turn):
        return [step(turn, answer=", ".join(f'"Mail {turn * 40 + place}"' for place in range(40)), effect=effect)]

    assert play(batch, turns=40) == (None, None)


def test_waiting_for_something_that_changes_is_not_stopped_soon():
    warned, stopped = play(lambda turn: [step(turn, answer=f'"{"abcdefghijklm"[turn]}"')])
    assert (warned, stopped) == (5, 6)


@pytest.mark.parametrize(
    "make",
    [
        lambda turn: [step(turn, arguments=f'{{"n":{turn}}}', answer='{"ok":true}')],  # writes one thing after another
        lambda turn: [step(turn, name=f"tool-{turn}")],
        lambda turn: [step(turn, arguments=f'{{"n":{turn}}}', answer=f'"{turn}"')],
        lambda turn: [step(turn, name=("read", "write")[turn % 2], arguments=str(turn), answer=str(turn))],
        lambda turn: [step(turn), step(turn, name="other", arguments=str(turn), answer=str(turn))],
        lambda turn: [step(turn, answer=f'"{turn // 2}"', arguments=f'{{"n":{turn // 2}}}')],  # looks twice at each
    ],
)
def test_honest_work_is_left_alone(make):
    assert play(make) == (None, None)


def test_a_warning_that_helped_is_the_end_of_it():
    def make(turn):
        return [step(turn)] if turn <= 3 else [step(turn, arguments=str(turn), answer=str(turn))]

    assert play(make) == (3, None)


def test_two_turns_are_never_a_circle():
    assert check_progress([step(1), step(2)], was_warned=True) is None
