"""Detects runs that repeat themselves. Pure: the calls so far in, a verdict out.

What counts is whether a turn brought anything new. A turn is barren if all its calls were made
before with the same arguments and the same answers: the run is warned when such a turn completes a
circle of different calls, or comes a third time in a row, and ended if it continues. Other rules
detect turns that only change their words: repeated failures, the same search in other words, one
call with changing answers, agents that refer to each other. Patterns that may be honest work are
allowed longer, or left to the step limit. ADR 0072 explains the choices; `benchmarks/circles_set`
contains examples.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from .answers import Step, gets_on, hands_over, rephrases, wording

FIRST_CHECK = 3  # turns before which nothing is checked
AGAIN = 3  # identical turns in a row before the warning; one more ends the run
ROUND = 1  # turns of a second round through other calls before the warning
WANDERING = 3  # identical readings in a row with inconclusive answers
POLLED = 5  # identical calls in a row with changing answers: possibly waiting in vain
FAILING = 3  # turns in a row in which everything failed, in one way or in two alternating ways
EMPTY = 3  # turns in a row in which one tool found nothing, asked in other words
HANDED_OVER = 3  # turns in a row in which an agent only referred to another
TO_AND_FRO = 3  # turns in a row in which two agents alternate without anything new
BY_TURNS = 5  # the same with something new each time: possibly a writer and a reviewer

Turn = Sequence[Step]
News = frozenset[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`stop`: end the run with this reason; otherwise tell the model."""

    reason: str
    stop: bool


def check(steps: Iterable[Step], *, was_warned: bool) -> Verdict | None:
    """None while the run makes progress; one warning; a stop if the warning changed nothing."""
    turns = [list(turn) for _, turn in groupby(steps, key=lambda step: step.turn)]
    if len(turns) < FIRST_CHECK:
        return None
    overruns = [(count - limit, reason) for count, limit, reason in circles(turns) if count >= limit]
    if not overruns:
        return None
    beyond, reason = max(overruns)
    if not was_warned:
        return Verdict(
            f"You seem to be going round in circles: {reason}. Do something else, or answer with what you have.",
            stop=False,
        )
    return Verdict(reason, stop=True) if beyond > 0 else None


def circles(turns: Sequence[Turn]) -> list[tuple[int, int, str]]:
    """(number of turns, limit, description) for each kind of circle."""
    last = turns[-1][-1]
    all_news = [news_of(turn) for turn in turns]
    to_and_fro = f"“{last.name}” and another agent keep referring to each other"
    return [
        (again(all_news), AGAIN, f"“{last.name}” was called again with the same arguments and the same answer"),
        (rounds(turns, all_news), ROUND, f"“{last.name}” was called again with the same arguments and the same answer"),
        (wandering(turns), WANDERING, f"“{last.name}” was called repeatedly with inconclusive answers"),
        (polled(turns), POLLED, f"“{last.name}” was called repeatedly with the same arguments"),
        (failing(turns), FAILING, f"“{last.name}” failed again in the same way ({last.code or 'error'})"),
        (empty(turns), EMPTY, f"“{last.name}” again found nothing"),
        (handed_over(turns), HANDED_OVER, to_and_fro),
        (idle_talk(turns), TO_AND_FRO, to_and_fro),
        (len(by_turns(turns)), BY_TURNS, to_and_fro),
    ]


# -- the same again -----------------------------------------------------------------------------------------------


def news_of(turn: Turn) -> News:
    return frozenset((*step.call, step.news) for step in turn)


def again(all_news: Sequence[News]) -> int:
    """The number of identical turns at the end."""
    return in_a_row(all_news, lambda news: news == all_news[-1])


def rounds(turns: Sequence[Turn], all_news: Sequence[News]) -> int:
    """The number of repeated turns at the end, each counted once however often it was made in
    parallel.

    Reading again after a write shows its effect: such turns together count as one.
    """
    seen: set[tuple[str, str, str]] = set()
    since_written: set[tuple[str, str, str]] = set()
    row: list[bool] = []  # for each barren turn: whether there was no reason for it
    for place, (turn, news) in enumerate(zip(turns, all_news, strict=True)):
        if place and news == all_news[place - 1]:
            continue
        if news <= seen:
            row.append(news <= since_written or not all(step.is_read for step in turn))
        else:
            row = []
            since_written = set() if any(step.wrote for step in turn) else since_written
        seen |= news
        since_written |= news
    return len(row) if any(row) else min(len(row), ROUND)


# -- the same call with other answers -----------------------------------------------------------------------------


def same_call(turns: Sequence[Turn]) -> Sequence[Turn]:
    """The turns at the end that made identical calls for short answers; working through a list is
    progress.
    """
    calls = {step.call for step in turns[-1]}
    row = in_a_row(turns, lambda turn: {step.call for step in turn} == calls and all(step.is_short for step in turn))
    return turns[len(turns) - row :]


def wandering(turns: Sequence[Turn]) -> int:
    """Readings of one thing whose numbers go up and down, or that repeat earlier answers."""
    row = same_call(turns)
    return 0 if not is_reading(row) or gets_on(map(told_by, row)) else len(row)


def polled(turns: Sequence[Turn]) -> int:
    """Identical calls with changing answers. For readings that progress, new wording counts and
    numbers do not.
    """
    row = same_call(turns)
    if not is_reading(row) or not gets_on(map(told_by, row)):
        return len(row)
    return len({wording(told_by(turn)) for turn in row})


def is_reading(turns: Sequence[Turn]) -> bool:
    return all(step.is_read for turn in turns for step in turn)


def told_by(turn: Turn) -> str:
    return " ".join(step.news for step in sorted(turn, key=lambda step: step.call))


# -- nothing found, nothing done ------------------------------------------------------------------------------------


def failing(turns: Sequence[Turn]) -> int:
    """The turns at the end in which all calls failed: in one way, or in two alternating ways."""
    ways = [{(step.name, step.code) for step in turn} if all(s.is_failure for s in turn) else None for turn in turns]
    row = 0
    for place in range(len(ways) - 1, -1, -1):
        if not ways[place] or (row >= 2 and ways[place] != ways[place + 2]):
            break
        row += 1
    return row


def empty(turns: Sequence[Turn]) -> int:
    """The turns at the end in which one tool found nothing, and each question repeated an earlier
    one in other words.

    Asking about different things and finding nothing is a result.
    """
    name = turns[-1][-1].name
    row = in_a_row(turns, lambda turn: all(step.name == name and step.is_empty for step in turn))
    steps = [step for turn in turns[len(turns) - row :] for step in turn]
    is_one_question = all(any(rephrases(one, other) for other in steps if other is not one) for one in steps)
    return row if is_one_question else 0


# -- agents among themselves ----------------------------------------------------------------------------------------


def handed_over(turns: Sequence[Turn]) -> int:
    """The turns at the end in which one agent was asked and only referred to another that was
    asked.
    """
    names = {turn[0].name for turn in turns if is_one_agent(turn)}
    return in_a_row(turns, lambda turn: is_one_agent(turn) and hands_over(turn[0], names))


def idle_talk(turns: Sequence[Turn]) -> int:
    """The turns at the end in which two agents alternated without anything new; including the round
    before them.
    """
    row = [turn[0] for turn in by_turns(turns)]
    earlier_words: set[str] = set()
    idle = 0
    for place, step in enumerate(row):
        is_new = step.says_more_than(earlier_words)
        earlier_words |= step.words
        idle = 0 if is_new and place >= 2 else idle + 1
    return idle


def by_turns(turns: Sequence[Turn]) -> list[Turn]:
    """The turns at the end in which only two agents alternated; oldest first."""
    if len(turns) < 2 or not all(is_one_agent(turn) for turn in turns[-2:]):
        return []
    pair = (turns[-1][0].name, turns[-2][0].name)
    if pair[0] == pair[1]:
        return []
    row: list[Turn] = []
    for place, turn in enumerate(reversed(turns)):
        if not is_one_agent(turn) or turn[0].name != pair[place % 2]:
            break
        row.insert(0, turn)
    return row


def is_one_agent(turn: Turn) -> bool:
    return len(turn) == 1 and turn[0].kind == "agent"


def in_a_row(row: Sequence[Any], holds: Callable[[Any], bool]) -> int:
    """How many at the end satisfy the condition."""
    count = 0
    for one in reversed(row):
        if not holds(one):
            break
        count += 1
    return count
