"""Calculates how much of a budget to hold for a model call. Pure: no Django, no rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

SHORTEST_ANSWER = 16  # output tokens below which a call is not useful


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
        return (self.tokens is None or tokens <= self.tokens) and (self.cost is None or cost <= self.cost)


@dataclass(frozen=True, slots=True)
class Stake:
    """`amounts` are the (tokens, cost) to hold in each budget, in order; the answer may have
    `max_output` tokens.
    """

    amounts: tuple[tuple[int, int], ...]
    max_output: int


def stake(bid: Any, rooms: Sequence[Room]) -> Stake | None:
    """What to hold for this bid; None if it would not fit even after all other calls have released
    their holds.

    A budget with room for the maximum cost holds that. A budget with room only for the estimated
    cost holds everything that is left: the call runs alone, so a wrong estimate can only occur
    once.
    """
    for output in outputs(bid):
        likely = bid.likely_input + output, bid.cost(bid.likely_input, output)
        if all(room.fits(*likely) for room in rooms):
            most = bid.most_input + output, bid.cost(bid.most_input, output)
            return Stake(tuple(amount(room, most, likely) for room in rooms), output)
    return None


def outputs(bid: Any) -> Iterator[int]:
    """The answer lengths to try: the agent's setting, and without one also shorter ones."""
    yield bid.most_output
    output = 1 << (bid.most_output.bit_length() - 1)
    while not bid.is_fixed and output >= SHORTEST_ANSWER:
        yield output
        output //= 2


def amount(room: Room, most: tuple[int, int], likely: tuple[int, int]) -> tuple[int, int]:
    if room.fits(*most):
        return most
    tokens = likely[0] if room.tokens is None else room.tokens
    cost = likely[1] if room.cost is None else room.cost
    return tokens, cost
