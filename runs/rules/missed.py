"""Decides about due times that were missed, or that come while an earlier run is in progress. Pure."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

# Later than this counts as missed, sooner as late.
GRACE_S = 60.0


@dataclass(frozen=True, slots=True)
class Verdict:
    due_at: datetime
    starts: bool
    reason: str = ""


def settle_missed(due: list[datetime], now: datetime, policy: str, window_s: float) -> list[Verdict]:
    """One verdict per due time, in order. Due times within the grace period always start; `policy`
    decides on the rest.
    """
    late: list[datetime] = []
    on_time: list[Verdict] = []
    for moment in due:
        if (now - moment).total_seconds() > GRACE_S:
            late.append(moment)
        else:
            on_time.append(Verdict(moment, True))
    if policy == "all":
        return [judge_window(moment, now, window_s) for moment in late] + on_time
    # A due time that is on time starts a run anyway: then nothing has to be made up for.
    if policy == "once" and late and not on_time:
        return start_latest(late, now)
    skipped = [
        Verdict(moment, False, f"nothing was there to start it; seen {format_delay(moment, now)} later")
        for moment in late
    ]
    return skipped + on_time


def start_latest(late: list[datetime], now: datetime) -> list[Verdict]:
    """One run for all that was missed."""
    *earlier, latest = late
    verdicts = [Verdict(moment, False, "missed; the latest one was started instead") for moment in earlier]
    reason = f"{format_delay(latest, now)} late, for {len(late)} due time(s)"
    verdicts.append(Verdict(latest, True, reason))
    return verdicts


def judge_window(moment: datetime, now: datetime, window_s: float) -> Verdict:
    delay = format_delay(moment, now)
    if now - moment <= timedelta(seconds=window_s):
        return Verdict(moment, True, f"{delay} late")
    return Verdict(moment, False, f"{delay} late, which is outside the window")


def format_delay(moment: datetime, now: datetime) -> str:
    """`0:05:00`, to the second."""
    seconds = (now - moment).total_seconds()
    return str(timedelta(seconds=round(seconds)))


def on_overlap(policy: str, *, running: int, waiting: int, misses_none: bool = False) -> str:
    """What to do with a due time while earlier runs are in progress: start, wait, skip, or cancel (the earlier
    run, then start).

    `waiting`: earlier occurrences that wait. `misses_none`: the schedule starts each due time (missed policy
    `all`), so that any number waits, in order.
    """
    if policy == "queue" and (running or waiting):
        may_wait = misses_none or not waiting
        return "wait" if may_wait else "skip"
    if not running or policy == "allow":
        return "start"
    if policy == "cancel":
        return "cancel"
    return "skip"


def is_outdated(due_at: datetime, now: datetime, window_s: float) -> bool:
    """Whether a due time that waited for earlier runs has left the window of the policy `all`."""
    allowed_s = max(window_s, GRACE_S)
    return now - due_at > timedelta(seconds=allowed_s)


def add_jitter(due_at: datetime, jitter_s: float, key: str) -> datetime:
    """The due time with a delay of up to `jitter_s`. The delay depends only on key and time, so that two workers
    agree on it.
    """
    if jitter_s <= 0:
        return due_at
    digest = hashlib.sha256(f"{key}:{due_at.isoformat()}".encode()).digest()
    # Six bytes of the digest as a fraction between 0 and 1.
    fraction = int.from_bytes(digest[:6], "big") / 2**48
    return due_at + timedelta(seconds=jitter_s * fraction)
