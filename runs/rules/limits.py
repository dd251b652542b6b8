"""The time limit of one call. Pure."""

from datetime import datetime, timedelta


def deadline(now: datetime, seconds: float, *others: datetime | None) -> datetime:
    """The end of the call's own limit, or the earliest deadline that applies: its run's, its caller's."""
    own = now + timedelta(seconds=seconds)
    given = [other for other in others if other is not None]
    return min([own, *given])
