"""Takes notices in a test as a worker does."""

from datetime import datetime
from typing import Any

from plumbing.fair import Shares
from runs.worker.notices import sending


def claim_notices(now: datetime) -> list[Any]:
    """The keys of those that are due, as a worker with nothing else to send takes them."""
    claimed = sending.claim_for_persons(now, sending.AT_ONCE, Shares(sending.EACH_PERSON))
    return [pk for pk, _ in claimed]
