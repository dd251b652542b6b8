"""Calculates how much of a budget to hold for a model call. Pure: no Django, no rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

# Output tokens below which a call is not useful.
SHORTEST_ANSWER = 16


@dataclass(frozen=True, slots=True)
class Room:
    """The unspent part of one budget, and how much of it other calls hold. None: no such limit.

    Costs are whole hundred-millionths of a US dollar, which add up exactly in every database.
    """

    tokens: int | None
    cost: int | None
    held_tokens: int = 0
    held_cost: int = 0

    def fits(self, tokens: int, cost: int) -> bool:
        if self.tokens is not None and tokens > self.tokens:
            return False
        return self.cost is None or cost <= self.cost


@dataclass(frozen=True, slots=True)
class Stake:
    """`amounts` are the (tokens, cost) to hold in each budget, in order; the answer may have
    `max_output` tokens.
    """

    amounts: tuple[tuple[int, int], ...]
    max_output: int


def stake(bid: Any, rooms: Sequence[Room]) -> Stake | None:
    """What to hold of each budget for a model call; None if it would not fit even after all other calls have
    released their holds.

    A budget with room for the maximum cost holds that. A budget with room only for the estimated
    cost holds everything that is left: the call runs alone, so a wrong estimate can only occur
    once.
    """
    for output in outputs(bid):
        likely = bid.likely_input + output, bid.cost(bid.likely_input, output)
        if not all(room.fits(*likely) for room in rooms):
            continue
        most = bid.most_input + output, bid.cost(bid.most_input, output)
        amounts = tuple(amount(room, most, likely) for room in rooms)
        return Stake(amounts, output)
    return None


def outputs(bid: Any) -> Iterator[int]:
    """The answer lengths to try: the agent's setting, and without one also shorter ones."""
    yield bid.most_output
    if bid.is_fixed:
        return
    # Powers of two below it: budgets that run out make answers shorter in few, even steps.
    output = 1 << (bid.most_output.bit_length() - 1)
    while output >= SHORTEST_ANSWER:
        yield output
        output //= 2


def amount(room: Room, most: tuple[int, int], likely: tuple[int, int]) -> tuple[int, int]:
    """The (tokens, cost) to hold in one budget: the most that the call can take, or everything that is left."""
    if room.fits(*most):
        return most
    likely_tokens, likely_cost = likely
    tokens = likely_tokens if room.tokens is None else room.tokens
    cost = likely_cost if room.cost is None else room.cost
    return tokens, cost
