"""Does a run go round in circles? Pure: the calls so far in, a verdict out.

What counts is whether a turn brought anything new. A turn whose calls were all made before with the same arguments and
told the same is barren: it is warned of when it closes a circle of different calls, or comes a third time at once, and
ends the run when it goes on. Other rules find what changes its words and gets nowhere: only failures, the same
search in other words, one call whose answers wander, agents that send each other to and fro. What may as well be
honest work is given longer, or is left to the step limit. ADR 0072 tells which and why; `benchmarks/circles_set` holds
examples of both.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from .answers import Step, gets_on, hands_over, rephrases, wording

FIRST_CHECK = 3  # turns before which nothing can be wrong
AGAIN = 3  # the very same turn in a row that is warned of; one more ends the run
ROUND = 1  # turns of a second round through other calls that are warned of
WANDERING = 3  # the same reading in a row, with answers that lead nowhere
POLLED = 5  # the same call in a row with ever other answers: somebody waits for something, perhaps in vain
FAILING = 3  # turns in a row in which everything failed, in one way or in two by turns
EMPTY = 3  # turns in a row in which one tool found nothing, sought in other words
HANDED_OVER = 3  # turns in a row in which an agent only named another
TO_AND_FRO = 3  # turns in a row in which two agents take turns with each other and say nothing new
BY_TURNS = 5  # the same, with something new each time: one writes and the other reviews, perhaps

Turn = Sequence[Step]
News = frozenset[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`stop`: end the run with this reason; otherwise tell the model."""

    reason: str
    stop: bool


def check(steps: Iterable[Step], *, was_warned: bool) -> Verdict | None:
    """None while the run gets on; a warning once; a stop when the warning changed nothing."""
    turns = [list(turn) for _, turn in groupby(steps, key=lambda step: step.turn)]
    if len(turns) < FIRST_CHECK:
        return None
    found = [(count - limit, reason) for count, limit, reason in circles(turns) if count >= limit]
    if not found:
        return None
    beyond, reason = max(found)
    if not was_warned:
        return Verdict(
            f"You seem to go round in circles: {reason}. Do something else, or answer with what you have.", stop=False
        )
    return Verdict(reason, stop=True) if beyond > 0 else None


def circles(turns: Sequence[Turn]) -> list[tuple[int, int, str]]:
    """(how many turns, how many are warned of, what they do) for each kind of circle."""
    last = turns[-1][-1]
    told = [news_of(turn) for turn in turns]
    to_and_fro = f"“{last.name}” and another agent send each other to and fro"
    return [
        (again(told), AGAIN, f"“{last.name}” was called again with the same arguments and the same answer"),
        (rounds(turns, told), ROUND, f"“{last.name}” was called again with the same arguments and the same answer"),
        (wandering(turns), WANDERING, f"“{last.name}” was called again and its answers lead nowhere"),
        (polled(turns), POLLED, f"“{last.name}” was called again and again with the same arguments"),
        (failing(turns), FAILING, f"“{last.name}” failed again in the same way ({last.code or 'error'})"),
        (empty(turns), EMPTY, f"“{last.name}” found nothing again"),
        (handed_over(turns), HANDED_OVER, to_and_fro),
        (idle_talk(turns), TO_AND_FRO, to_and_fro),
        (len(by_turns(turns)), BY_TURNS, to_and_fro),
    ]


# -- the same again -----------------------------------------------------------------------------------------------


def news_of(turn: Turn) -> News:
    return frozenset((*step.call, step.news) for step in turn)


def again(told: Sequence[News]) -> int:
    """The last turns in a row that were the very same."""
    return in_a_row(told, lambda news: news == told[-1])


def rounds(turns: Sequence[Turn], told: Sequence[News]) -> int:
    """The last turns in a row that were all there before, each counted once however often it came at once.

    Reading again after something was written is how one sees what became of it: such turns alone count as one.
    """
    seen: set[tuple[str, str, str]] = set()
    since_written: set[tuple[str, str, str]] = set()
    row: list[bool] = []  # of each barren turn: was there no reason for it?
    for place, (turn, news) in enumerate(zip(turns, told, strict=True)):
        if place and news == told[place - 1]:
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
    """The last turns in a row that made the very same calls for short answers; batch after batch of a list is work."""
    wanted = {step.call for step in turns[-1]}
    row = in_a_row(turns, lambda turn: {step.call for step in turn} == wanted and all(step.is_short for step in turn))
    return turns[len(turns) - row :]


def wandering(turns: Sequence[Turn]) -> int:
    """Readings of one thing whose numbers go up and down, or that tell what they told before: a die, a switch."""
    row = same_call(turns)
    return 0 if not is_reading(row) or gets_on(map(told_by, row)) else len(row)


def polled(turns: Sequence[Turn]) -> int:
    """The same calls for ever other answers. Of readings that get on each new wording counts, and numbers do not."""
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
    """The last turns in a row in which all calls failed: in one way, or in two by turns."""
    ways = [{(step.name, step.code) for step in turn} if all(s.is_failure for s in turn) else None for turn in turns]
    row = 0
    for place in range(len(ways) - 1, -1, -1):
        if not ways[place] or (row >= 2 and ways[place] != ways[place + 2]):
            break
        row += 1
    return row


def empty(turns: Sequence[Turn]) -> int:
    """The last turns in a row in which one tool found nothing, and each question was an earlier one in other words.

    Asking of one thing after another and finding nothing about any of them is an answer.
    """
    name = turns[-1][-1].name
    row = in_a_row(turns, lambda turn: all(step.name == name and step.is_empty for step in turn))
    asked = [step for turn in turns[len(turns) - row :] for step in turn]
    is_one_question = all(any(rephrases(one, other) for other in asked if other is not one) for one in asked)
    return row if is_one_question else 0


# -- agents among themselves ----------------------------------------------------------------------------------------


def handed_over(turns: Sequence[Turn]) -> int:
    """The last turns in a row in which one agent was asked and did no more than to name another that was asked."""
    names = {turn[0].name for turn in turns if is_one_agent(turn)}
    return in_a_row(turns, lambda turn: is_one_agent(turn) and hands_over(turn[0], names))


def idle_talk(turns: Sequence[Turn]) -> int:
    """The last turns in which two agents were called by turns and said nothing new; the round before them included."""
    row = [turn[0] for turn in by_turns(turns)]
    said: set[str] = set()
    idle = 0
    for place, step in enumerate(row):
        is_new = step.says_more_than(said)
        said |= step.words
        idle = 0 if is_new and place >= 2 else idle + 1
    return idle


def by_turns(turns: Sequence[Turn]) -> list[Turn]:
    """The last turns in a row in which two agents were called by turns, and nothing else; oldest first."""
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
    """How many of the last ones hold."""
    count = 0
    for one in reversed(row):
        if not holds(one):
            break
        count += 1
    return count
