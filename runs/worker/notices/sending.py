"""Sends the notices that are due, outside of runs and of the ticker's thread."""

import logging
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F
from django.utils import translation

from agents.models import Preference, SiteHold
from plumbing import clock
from plumbing.fair import FairQueue, Shares, of_others
from runs.models import Approval, Notice, Run

from . import planning
from .channels import CHANNELS, NotSent, Undeliverable
from .words import render_notice

log = logging.getLogger(__name__)
State = Notice.State
# Seconds after the 1st … 4th failure; then it is given up.
WAITS_S = (30, 120, 600, 3600)
# Longer than any attempt takes.
LEASE_S = 300.0
AT_ONCE = 16
# Whose addresses hang waits for those, and nobody else does.
EACH_PERSON = 4
QUEUE = FairQueue("notice", AT_ONCE, EACH_PERSON)
# Queries of one tick: each next one passes over those who have their share.
LOOKS = 8


def tick_notices() -> int:
    """Make the notices that are due, and begin to send as many as there are threads."""
    now = clock.now()
    planning.plan_notices(now)
    QUEUE.forget_ended()
    claimed = claim_for_persons(now, QUEUE.count_room(), QUEUE.count_shares())
    for pk, person in claimed:
        QUEUE.start(person, pk, deliver, pk)
    return len(claimed)


def claim_for_persons(now: datetime, room: int, shares: Shares) -> list[tuple[Any, int]]:
    """Take those that are due, the oldest first, and of each person no more than their share."""
    pending = Notice.objects.filter(state=State.PENDING)
    until = now + timedelta(seconds=LEASE_S)
    values = {"state": State.SENDING, "next_attempt_at": until}
    claimed: list[tuple[Any, int]] = []
    for _ in range(LOOKS):
        if len(claimed) >= room:
            break
        due = list(due_rows(now, shares.find_full()))
        for pk, person in due:
            if len(claimed) >= room or not shares.has_room(person):
                continue
            if pending.filter(pk=pk).update(**values):
                shares.add(person)
                claimed.append((pk, person))
        if len(due) < AT_ONCE:
            break
    return claimed


def due_rows(now: datetime, full: list[int]) -> Any:
    due = Notice.objects.filter(SiteHold.absent(), state=State.PENDING, next_attempt_at__lte=now)
    due = of_others(due, "person", full)
    return due.order_by("next_attempt_at").values_list("pk", "person")[:AT_ONCE]


def take_back(now: datetime | None = None) -> int:
    """What a sender that died had taken is due again, unless it was tried often enough. It may have left: then the
    person gets it twice, which is better than a run that waits unnoticed.
    """
    now = now or clock.now()
    late = Notice.objects.filter(state=State.SENDING, next_attempt_at__lte=now)
    died = {"attempts": F("attempts") + 1, "last_error": "its sender ended before it was sent"}
    late.filter(attempts__gte=len(WAITS_S)).update(state=State.DEAD, **died)
    return late.update(state=State.PENDING, **died)


def deliver(pk: Any) -> None:
    """One attempt, unless it was decided in the meantime or the person may no longer decide."""
    rows = Notice.objects.select_related(
        "person", "approval__run__agent", "approval__run__principal", "approval__run__chain_version__chain",
        "question__run__agent", "question__run__chain_version__chain",
    )  # fmt: skip
    notice = rows.filter(pk=pk, state=State.SENDING).first()
    if notice is None:
        return
    if not is_needed(notice):
        close_notice(notice, State.DROPPED)
        return
    try:
        language = Preference.of(notice.person).language or settings.LANGUAGE_CODE
        send = CHANNELS[notice.channel]
        with translation.override(language):
            send(notice, render_notice(notice))
    except Undeliverable as error:
        close_notice(notice, State.DEAD, str(error))
    except NotSent as error:
        retry_notice(notice, str(error))
    except Exception:
        log.exception("Notice %s", notice.pk)
        close_notice(notice, State.DEAD, "it failed; the server's log says why")
    else:
        close_notice(notice, State.SENT, sent_at=clock.near())


def is_needed(notice: Notice) -> bool:
    subject = notice.subject
    if subject.status != Approval.Status.OPEN or subject.expires_at <= clock.near():
        return False
    if subject.run.status not in Run.LIVE or not notice.person.is_active:
        return False
    # A question is answered by the person of its run alone.
    if notice.approval is None:
        return True
    return Approval.objects.decidable_by(notice.person).filter(pk=notice.approval_id).exists()


def retry_notice(notice: Notice, error: str) -> None:
    if notice.attempts >= len(WAITS_S):
        close_notice(notice, State.DEAD, error)
        return
    wait = clock.Now(WAITS_S[notice.attempts])
    change_notice(notice, state=State.PENDING, next_attempt_at=wait, last_error=error[:300])


def close_notice(notice: Notice, state: str, error: str = "", **fields: Any) -> None:
    change_notice(notice, state=state, last_error=error[:300], **fields)


def change_notice(notice: Notice, **fields: Any) -> None:
    Notice.objects.filter(pk=notice.pk, state=State.SENDING).update(attempts=F("attempts") + 1, **fields)
