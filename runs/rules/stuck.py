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

from .answers import Step, is_handover, is_progressing, rephrases, wording

# Turns before which nothing is checked.
FIRST_CHECK = 3
# Identical turns in a row before the warning; one more ends the run.
AGAIN = 3
# Turns of a second round through other calls before the warning.
ROUND = 1
# Identical readings in a row with inconclusive answers.
WANDERING = 3
# Identical calls in a row with changing answers: possibly waiting in vain.
POLLED = 5
# Turns in a row in which everything failed, in one way or in two alternating ways.
FAILING = 3
# Turns in a row in which one tool found nothing, asked in other words.
EMPTY = 3
# Turns in a row in which an agent only referred to another.
HANDED_OVER = 3
# Turns in a row in which two agents alternate without anything new.
TO_AND_FRO = 3
# The same with something new each time: possibly a writer and a reviewer.
BY_TURNS = 5

Turn = Sequence[Step]
News = frozenset[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`stop`: end the run with this reason; otherwise tell the model."""

    reason: str
    stop: bool


def check_progress(steps: Iterable[Step], *, was_warned: bool) -> Verdict | None:
    """None while the run makes progress; one warning; a stop if the warning changed nothing."""
    turns = [list(turn) for _, turn in groupby(steps, key=lambda step: step.turn)]
    if len(turns) < FIRST_CHECK:
        return None
    overruns = [(count - limit, reason) for count, limit, reason in circles(turns) if count >= limit]
    if not overruns:
        return None
    beyond, reason = max(overruns)
    if was_warned:
        return Verdict(reason, stop=True) if beyond > 0 else None
    warning = f"You seem to be going round in circles: {reason}. Do something else, or answer with what you have."
    return Verdict(warning, stop=False)


def circles(turns: Sequence[Turn]) -> list[tuple[int, int, str]]:
    """(number of turns, limit, description) for each kind of circle."""
    last = turns[-1][-1]
    name = last.name
    code = last.code or "error"
    all_news = [collect_turn_news(turn) for turn in turns]
    same_again = f"“{name}” was called again with the same arguments and the same answer"
    to_and_fro = f"“{name}” and another agent keep referring to each other"
    return [
        (count_identical_turns(all_news), AGAIN, same_again),
        (rounds(turns, all_news), ROUND, same_again),
        (wandering(turns), WANDERING, f"“{name}” was called repeatedly with inconclusive answers"),
        (count_polls(turns), POLLED, f"“{name}” was called repeatedly with the same arguments"),
        (failing(turns), FAILING, f"“{name}” failed again in the same way ({code})"),
        (empty(turns), EMPTY, f"“{name}” again found nothing"),
        (count_handovers(turns), HANDED_OVER, to_and_fro),
        (idle_talk(turns), TO_AND_FRO, to_and_fro),
        (len(by_turns(turns)), BY_TURNS, to_and_fro),
    ]


# -- the same again -----------------------------------------------------------------------------------------------


def collect_turn_news(turn: Turn) -> News:
    """What the turn asked and was answered: (tool, arguments, answer) of each call."""
    return frozenset((*step.call, step.news) for step in turn)


def count_identical_turns(all_news: Sequence[News]) -> int:
    """The number of identical turns at the end."""
    last = all_news[-1]
    return in_a_row(all_news, lambda news: news == last)


def rounds(turns: Sequence[Turn], all_news: Sequence[News]) -> int:
    """The number of repeated turns at the end, each counted once however often it was made in
    parallel.

    Reading again after a write shows its effect: such turns together count as one.
    """
    seen: set[tuple[str, str, str]] = set()
    since_written: set[tuple[str, str, str]] = set()
    # For each barren turn at the end: whether there was no reason for it.
    barren_turns: list[bool] = []
    previous: News | None = None
    for turn, news in zip(turns, all_news, strict=True):
        # The same turn twice in a row is the business of `again`.
        if news == previous:
            continue
        previous = news
        if news <= seen:
            is_reading_again = all(step.is_read for step in turn)
            barren_turns.append(news <= since_written or not is_reading_again)
        else:
            barren_turns = []
            if any(step.wrote for step in turn):
                since_written = set()
        seen |= news
        since_written |= news
    if any(barren_turns):
        return len(barren_turns)
    return min(len(barren_turns), ROUND)


# -- the same call with other answers -----------------------------------------------------------------------------


def same_call(turns: Sequence[Turn]) -> Sequence[Turn]:
    """The turns at the end that made identical calls for short answers; working through a list is progress."""
    last_calls = {step.call for step in turns[-1]}

    def is_same(turn: Turn) -> bool:
        if not all(step.is_short for step in turn):
            return False
        return {step.call for step in turn} == last_calls

    count = in_a_row(turns, is_same)
    return turns[len(turns) - count :]


def wandering(turns: Sequence[Turn]) -> int:
    """Readings of one thing whose numbers go up and down, or that repeat earlier answers."""
    row = same_call(turns)
    if not is_reading(row) or is_progressing(map(join_turn_answers, row)):
        return 0
    return len(row)


def count_polls(turns: Sequence[Turn]) -> int:
    """Identical calls with changing answers. For readings that progress, new wording counts and
    numbers do not.
    """
    row = same_call(turns)
    if not is_reading(row) or not is_progressing(map(join_turn_answers, row)):
        return len(row)
    return len({wording(join_turn_answers(turn)) for turn in row})


def is_reading(turns: Sequence[Turn]) -> bool:
    return all(step.is_read for turn in turns for step in turn)


def join_turn_answers(turn: Turn) -> str:
    """All answers of the turn as one text, whatever order they came in."""
    steps = sorted(turn, key=lambda step: step.call)
    return " ".join(step.news for step in steps)


# -- nothing found, nothing done ------------------------------------------------------------------------------------


def failing(turns: Sequence[Turn]) -> int:
    """The turns at the end in which all calls failed: in one way, or in two alternating ways."""
    # The newest first.
    ways: list[set[tuple[str, str]]] = []
    for turn in reversed(turns):
        if not turn or not all(step.is_failure for step in turn):
            break
        way = {(step.name, step.code) for step in turn}
        if len(ways) >= 2 and way != ways[-2]:
            break
        ways.append(way)
    return len(ways)


def empty(turns: Sequence[Turn]) -> int:
    """The turns at the end in which one tool found nothing, and each question repeated an earlier
    one in other words.

    Asking about different things and finding nothing is a result.
    """
    name = turns[-1][-1].name
    count = in_a_row(turns, lambda turn: all(step.name == name and step.is_empty for step in turn))
    steps = [step for turn in turns[len(turns) - count :] for step in turn]
    for step in steps:
        others = (other for other in steps if other is not step)
        if not any(rephrases(step, other) for other in others):
            return 0
    return count


# -- agents among themselves ----------------------------------------------------------------------------------------


def count_handovers(turns: Sequence[Turn]) -> int:
    """The turns at the end in which one agent was asked and only referred to another that was asked."""
    names = {turn[0].name for turn in turns if is_one_agent(turn)}
    return in_a_row(turns, lambda turn: is_one_agent(turn) and is_handover(turn[0], names))


def idle_talk(turns: Sequence[Turn]) -> int:
    """The turns at the end in which two agents alternated without anything new; including the round before them."""
    earlier_words: set[str] = set()
    idle_count = 0
    for place, turn in enumerate(by_turns(turns)):
        step = turn[0]
        is_new = step.says_more_than(earlier_words)
        earlier_words |= step.words
        # The first answer of each of the two is always new.
        if is_new and place >= 2:
            idle_count = 0
        else:
            idle_count += 1
    return idle_count


def by_turns(turns: Sequence[Turn]) -> list[Turn]:
    """The turns at the end in which only two agents alternated; oldest first."""
    if len(turns) < 2 or not all(is_one_agent(turn) for turn in turns[-2:]):
        return []
    last_name = turns[-1][0].name
    other_name = turns[-2][0].name
    if last_name == other_name:
        return []
    newest_first: list[Turn] = []
    expected_name, next_name = last_name, other_name
    for turn in reversed(turns):
        if not is_one_agent(turn) or turn[0].name != expected_name:
            break
        newest_first.append(turn)
        expected_name, next_name = next_name, expected_name
    return newest_first[::-1]


def is_one_agent(turn: Turn) -> bool:
    return len(turn) == 1 and turn[0].kind == "agent"


def in_a_row(row: Sequence[Any], holds: Callable[[Any], bool]) -> int:
    """How many items at the end satisfy the condition."""
    count = 0
    for item in reversed(row):
        if not holds(item):
            break
        count += 1
    return count
