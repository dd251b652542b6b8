"""Finds approvals and questions that nobody was notified of, and makes a row for each message.

The rows of approvals and questions say what is due, so the run that asks writes nothing more.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import DateTimeField

from agents.models import Preference
from plumbing import clock
from plumbing.statements import Select
from runs.models import Approval, InputRequest, Notice, PushSubscription, Run

# Approvals and questions of one turn.
AT_ONCE = 100
# Of a team, for one approval.
PEOPLE = 50
# Seconds that an approval or question must have been open: people who are there answer sooner.
AFTER_S = 10
Channel = Notice.Channel


def plan_notices(now: datetime | None = None) -> int:
    """The number of notices that were made."""
    now = now or clock.now()
    before = now - timedelta(seconds=AFTER_S)
    count = 0
    for [pk] in APPROVALS.all(now=now, before=before):
        count += plan_notice(Approval, pk, "approval", now)
    for [pk] in QUESTIONS.all(now=now, before=before):
        count += plan_notice(InputRequest, pk, "question", now)
    return count


def query_unnoticed(rows: Any, at: Any) -> Any:
    due = rows.filter(noticed_at=None, created_at__lte=at.before, expires_at__gt=at.now)
    return due.filter(run__status__in=Run.LIVE).order_by("created_at").values_list("pk", flat=True)[:AT_ONCE]


APPROVALS = Select(lambda at: query_unnoticed(Approval.objects.open(), at), now=DateTimeField(), before=DateTimeField())
QUESTIONS = Select(
    lambda at: query_unnoticed(InputRequest.objects.open().filter(kind=InputRequest.Kind.FORM), at),
    now=DateTimeField(), before=DateTimeField(),
)  # fmt: skip


@transaction.atomic
def plan_notice(model: Any, pk: Any, name: str, now: datetime) -> int:
    """One approval or question: taking it and its notices are written together."""
    unnoticed = model.objects.open().filter(pk=pk, noticed_at=None)
    if not unnoticed.update(noticed_at=now):
        # Another worker was first, or it was just decided.
        return 0
    subject = model.objects.select_related("run").get(pk=pk)
    people = subject.deciders()[:PEOPLE] if name == "approval" else [subject.run.principal]
    rows: list[Notice] = []
    for person in people:
        for channel, address in list_channels(person):
            notice = Notice(person=person, channel=channel, address=address, next_attempt_at=now)
            setattr(notice, name, subject)
            rows.append(notice)
    Notice.objects.bulk_create(rows)
    return len(rows)


def list_channels(person: Any) -> Iterable[tuple[str, str]]:
    """(channel, address) of each way in which this person wants to be notified."""
    preference = Preference.of(person)
    if preference.email_notices and person.email and settings.EMAIL_IS_ON:
        yield Channel.EMAIL, ""
    if preference.push_notices:
        for pk in PushSubscription.objects.filter(owner=person).values_list("pk", flat=True):
            yield Channel.PUSH, str(pk)
    if preference.teams_url:
        yield Channel.TEAMS, ""
