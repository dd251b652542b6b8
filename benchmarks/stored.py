"""Rows that a benchmark wants stored beforehand, written in bulk into the installation of the environment."""

import os
from datetime import datetime, timedelta
from uuid import UUID

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.db import connection  # noqa: E402
from django.db.models import F  # noqa: E402
from django.utils import timezone  # noqa: E402

from agents.models import Agent  # noqa: E402
from runs.models import Message, ModelCall, Run, RunEvent, Session  # noqa: E402
from runs.models.figures.earlier import build_first_id  # noqa: E402

BATCH = 2_500


def add_events(run_id: str, count: int) -> None:
    """Events after those the run has; its last one is its end again, as a stream stops there."""
    run = Run.objects.get(pk=run_id)
    end = RunEvent.objects.get(run=run, type="run.finished")
    now, last = timezone.now(), end.seq
    RunEvent.objects.filter(pk=end.pk).update(seq=F("seq") + count)
    data = {"id": "0", "message": "a line that a tool wrote, of a usual length", "level": "info"}
    rows = (RunEvent(run=run, seq=last + number, type="tool.log", at=now, data=data) for number in range(count))
    RunEvent.objects.bulk_create(rows, batch_size=BATCH)
    Run.objects.filter(pk=run_id).update(last_event=last + count)


def add_runs(count: int, days: int = 29) -> None:
    """Ended runs of “adder” of the last days, each with a session, two messages, a model call and
    three events.
    """
    agent = Agent.objects.get(name="adder")
    for done in range(0, count, BATCH):
        add_batch(agent, BATCH, timezone.now() - timedelta(days=days) * (1 - (done + BATCH) / count))
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")  # as autovacuum does a minute later; without it a list is sorted whole
            cursor.execute("CHECKPOINT")  # what a year would have written long ago


def add_batch(agent: Agent, count: int, now: datetime) -> None:
    common = {"agent": agent, "version_id": agent.published_id, "status": "succeeded", "turns": 2}
    sessions = [Session(owner_id=agent.owner_id, agent=agent, last_seq=2) for _ in range(count)]
    runs = [
        Run(
            id=UUID(int=build_first_id(now).int + number), principal_id=agent.owner_id, session=session, last_event=3,
            created_at=now, finished_at=now + timedelta(seconds=2), **common,
        )
        for number, session in enumerate(sessions)
    ]  # fmt: skip
    text = [{"type": "text", "text": "Add the numbers a = 40 and b = 2"}]
    Session.objects.bulk_create(sessions)
    Run.objects.bulk_create(runs)
    Message.objects.bulk_create(
        Message(session=run.session, seq=seq, run=run, role=role, content=text)
        for run in runs
        for seq, role in ((1, "user"), (2, "assistant"))
    )
    ModelCall.objects.bulk_create(ModelCall(run=run, turn=1, started_at=now, response={"text": "42"}) for run in runs)
    RunEvent.objects.bulk_create(
        RunEvent(run=run, seq=seq, type=type, at=now, data={"attempt": 1})
        for run in runs
        for seq, type in ((1, "run.queued"), (2, "run.started"), (3, "run.finished"))
    )
