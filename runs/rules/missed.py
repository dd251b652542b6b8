"""Decides about due times that were missed, or that come while an earlier run is in progress. Pure."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

GRACE_S = 60.0  # later than this counts as missed, sooner as late


@dataclass(frozen=True, slots=True)
class Verdict:
    due_at: datetime
    starts: bool
    reason: str = ""


def settle_missed(due: list[datetime], now: datetime, policy: str, window_s: float) -> list[Verdict]:
    """One verdict per due time, in order. Due times within the grace period always start; `policy`
    decides on the rest.
    """
    late = [moment for moment in due if (now - moment).total_seconds() > GRACE_S]
    on_time = [Verdict(moment, True) for moment in due if moment not in set(late)]
    if policy == "all":
        return [judge_window(moment, now, window_s) for moment in late] + on_time
    if policy == "once" and late and not on_time:
        *earlier, latest = late
        caught_up = f"{late_by(latest, now)} late, for {len(late)} due time(s)"
        return [Verdict(each, False, "missed; the latest one was started instead") for each in earlier] + [
            Verdict(latest, True, caught_up)
        ]
    return [
        Verdict(moment, False, f"nothing was there to start it; seen {late_by(moment, now)} later") for moment in late
    ] + on_time


def judge_window(moment: datetime, now: datetime, window_s: float) -> Verdict:
    if now - moment <= timedelta(seconds=window_s):
        return Verdict(moment, True, f"{late_by(moment, now)} late")
    return Verdict(moment, False, f"{late_by(moment, now)} late, which is outside the window")


def late_by(moment: datetime, now: datetime) -> str:
    return str(timedelta(seconds=round((now - moment).total_seconds())))


def on_overlap(policy: str, *, running: int, waiting: int, misses_none: bool = False) -> str:
    """start, wait, skip or cancel (the earlier run, then start). `waiting`: earlier occurrences that
    wait. `misses_none`: the schedule starts each due time (missed policy `all`), so that any number
    waits, in order.
    """
    if policy == "queue" and (running or waiting):
        return "wait" if misses_none or not waiting else "skip"
    if not running or policy == "allow":
        return "start"
    return "cancel" if policy == "cancel" else "skip"


def is_outdated(due_at: datetime, now: datetime, window_s: float) -> bool:
    """Whether a due time that waited for earlier runs has left the window of the policy `all`."""
    return now - due_at > timedelta(seconds=max(window_s, GRACE_S))


def jittered(due_at: datetime, jitter_s: float, key: str) -> datetime:
    """The due time delayed by jitter that depends only on key and time, so that two workers agree."""
    if jitter_s <= 0:
        return due_at
    digest = hashlib.sha256(f"{key}:{due_at.isoformat()}".encode()).digest()
    return due_at + timedelta(seconds=jitter_s * int.from_bytes(digest[:6], "big") / 2**48)
