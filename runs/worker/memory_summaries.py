"""Finds conversations that have rested, starts a run that notes their facts, and stores what it noted.

One transaction advances `Session.remembered_to` and stores the run, another clears `Session.remembering` and stores
the memories. So nothing is noted or stored twice, with two tickers and after a crash.
"""

import logging
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from agents.exceptions import Conflict, Invalid, MusterError
from agents.models import Agent, SiteHold
from agents.models.team import others_among
from knowledge.memory import storage
from knowledge.memory.storage import Author, Place
from knowledge.models import Memory
from plumbing import clock
from plumbing.statements import insert_rows
from runs.intake import checks
from runs.intake.messages import first_event
from runs.loop import facts
from runs.models import Message, Run, Session
from runs.queue import endings, fair_queue, wakeups

log = logging.getLogger(__name__)
Summary = Agent.MemorySummary
# Older conversations are left as they are when the setting is switched on.
LOOK_BACK = timedelta(days=1)
AT_ONCE = 50
# Seconds without a message after which facts of a conversation are noted.
AFTER_S = 900


def tick_memory_summaries(now: datetime | None = None) -> dict[str, int]:
    """How many memories were stored, and how many runs started."""
    now = now or clock.now()
    stored = 0
    for session_id in find_summarized_conversations():
        stored += store_facts(session_id)
    started = 0
    for session_id in find_rested_conversations(now):
        started += start_summary(session_id, now)
    return {"stored": stored, "started": started}


# -- start ------------------------------------------------------------------------------------------------------------


def find_rested_conversations(now: datetime) -> list[UUID]:
    """Conversations of people with an agent that is set so, whose last run ended long enough ago."""
    agents = list(Agent.objects.exclude(memory_summary=Summary.OFF).values_list("pk", flat=True))
    if not agents:
        return []
    until = now - timedelta(seconds=AFTER_S)
    ended = Run.objects.filter(
        SiteHold.absent(), parent=None, agent__in=agents, trigger=Run.Trigger.MESSAGE, embed=None,
        finished_at__gt=until - LOOK_BACK, finished_at__lte=until,
        session__remembering=None, session__last_seq__gt=F("session__remembered_to"),
    )  # fmt: skip
    # Several runs may belong to one conversation: more are read than are needed, and each counts once.
    session_ids = ended.order_by("finished_at").values_list("session_id", flat=True)[: AT_ONCE * 10]
    return list(dict.fromkeys(session_ids))[:AT_ONCE]


@transaction.atomic
def start_summary(session_id: Any, now: datetime) -> int:
    """Advance the mark of this conversation and queue its run, unless somebody wrote again or was first."""
    rows = Session.objects.select_for_update(of=("self",), skip_locked=True)
    session = rows.select_related("agent__published", "agent__provider", "owner").filter(pk=session_id).first()
    if session is None or not is_due(session, now):
        return 0
    run = build_summary_run(session) if has_words(session) else None
    session.remembered_to = session.last_seq
    session.remembering = run.pk if run else None
    session.save(update_fields=["remembered_to", "remembering"])
    if run is None:
        return 0
    fair_queue.line_up(run)
    insert_rows(run)
    insert_rows(first_event(run))
    wakeups.enqueue(run)
    return 1


def is_due(session: Session, now: datetime) -> bool:
    if session.remembering or session.remembered_to >= session.last_seq:
        return False
    if endings.session_is_busy(session):
        return False
    if session.agent is None or session.agent.memory_summary == Summary.OFF:
        return False
    runs = Run.objects.filter(session=session, parent=None).order_by("-id")
    last_ended_at = runs.values_list("finished_at", flat=True)[0]
    return last_ended_at <= now - timedelta(seconds=AFTER_S)


def has_words(session: Session) -> bool:
    rows = Message.objects.filter(session=session, seq__gt=session.remembered_to, role=Message.Role.USER)
    return rows.exists()


def build_summary_run(session: Session) -> Run | None:
    """None if the person can no longer use the agent: their conversation is not looked at again."""
    try:
        agent = checks.check_usable(session.agent, session.owner)
        version = checks.version_of_agent(agent)
    except MusterError as error:
        log.info("No facts are noted of session %s: %s", session.pk, error)
        return None
    run = Run(
        principal=session.owner, agent=agent, version=version, trigger=Run.Trigger.MEMORY,
        policy=facts.build_fact_policy(session), has_untrusted=session.has_untrusted, last_event=1,
        metadata={"session": str(session.pk)}, deadline=checks.deadline(version.read_spec()),
    )  # fmt: skip
    fair_queue.classify(run)
    return run


# -- store ------------------------------------------------------------------------------------------------------------


def find_summarized_conversations() -> list[UUID]:
    """Conversations whose run has ended, or was deleted."""
    rows = Session.objects.filter(remembering__isnull=False).values_list("pk", "remembering")
    waiting = dict(rows[:500])
    live = set(Run.objects.filter(pk__in=waiting.values()).live().values_list("pk", flat=True))
    return [session_id for session_id, run_id in waiting.items() if run_id not in live]


@transaction.atomic
def store_facts(session_id: Any) -> int:
    """What the run noted becomes memories of its person. Returns how many are new."""
    session = Session.objects.select_for_update(of=("self",)).filter(pk=session_id).first()
    if session is None or session.remembering is None:
        return 0
    run = Run.objects.select_related("agent").filter(pk=session.remembering).first()
    session.remembering = None
    session.save(update_fields=["remembering"])
    if run is None or run.status != Run.Status.SUCCEEDED or run.agent is None:
        return 0
    is_untrusted = run.has_untrusted or session.has_untrusted
    author = Author(run.agent.name, run_id=run.pk, root_id=run.pk, is_untrusted=is_untrusted, is_summary=True)
    # What strangers may have written waits for the person's yes, whatever the agent is set to.
    at_once = run.agent.memory_summary == Summary.AUTO and not is_untrusted
    stored = 0
    for fact in run.output["facts"]:
        stored += add_fact(run, fact, author, at_once)
    return stored


def add_fact(run: Run, fact: dict[str, Any], by: Author, at_once: bool) -> bool:
    """A fact beyond the limits of the person is left out; the run's output still shows it."""
    try:
        _, is_new = storage.store_new_memory(choose_fact_place(run), fact, by, at_once=at_once)
    except (Conflict, Invalid) as error:
        log.info("A fact of run %s is not stored: %s", run.pk, error)
        return False
    return is_new


def choose_fact_place(run: Run) -> Place:
    """Where a fact is stored. A fact that another person's agent noted is known to that agent alone."""
    is_of_others = run.agent is not None and others_among([run.agent.owner_id], run.principal_id)
    if is_of_others:
        return Place(run.principal_id, Memory.Scope.PERSON_AGENT, run.agent_id)
    return Place(run.principal_id)
