"""The session of a message: the one it names, or a new one."""

from typing import Any
from uuid import UUID

from django.utils.translation import gettext_noop as _

from agents.exceptions import Invalid, NotFound
from agents.models import Agent
from runs.exceptions import SessionBusy, SessionClosed
from runs.models import Run, Session
from runs.models.session import SCHEDULED
from runs.queue import endings

from .parts import parsed_id

DEEPEST = 100  # sessions below each other
INTERRUPTED = "interrupted by another message"
UNATTENDED = (Run.Trigger.SCHEDULE, Run.Trigger.EVENT)  # nobody wrote their message


def choose_session(
    run: Run,
    session: Session | str | None,
    agent: Agent | None,
    on_busy: str,
    *,
    device: str | None,
    title: str,
    parent: str | None = None,
    thread: str | None = None,
) -> Session:
    """The session of this run: the one named, whose row stays locked until the message is in, or one not stored yet:
    a new one, or the caller's.
    """
    if session is None:
        run.session = open_session(run, agent, device=device, title=title, thread=thread)
        if parent is not None:
            place_below(run, parent)
        return run.session
    if isinstance(session, Session) and session._state.adding:
        session.has_untrusted = run.has_untrusted
        run.session = session
        return session
    if parent is not None:
        raise Invalid(_("A message has a session or the parent of a new one, not both."), code="session_and_parent")
    if on_busy == "interrupt":
        interrupt(run.principal, session)
    run.session = locked_session(run.principal, session)
    if run.session.status == Session.Status.CLOSED:
        raise SessionClosed(hint=_("Start another session."))
    if agent is not None and run.session.agent_id not in (None, agent.pk):
        raise Invalid(
            _("This session belongs to agent “%(agent)s”.") % {"agent": run.session.agent},
            hint=_("Send to that agent, or start another session."),
        )
    run.has_untrusted = run.has_untrusted or run.session.has_untrusted
    busy = endings.session_is_busy(run.session)
    if busy is not None:
        follow_busy_run(run, busy, on_busy)
    return run.session


def open_session(run: Run, agent: Agent | None, *, device: str | None, title: str, thread: str | None) -> Session:
    """A new session, not stored yet."""
    is_unattended = run.trigger in UNATTENDED
    return Session(
        owner=run.principal,
        agent=agent,
        title=title[:80].strip(),
        device=device,
        variables={"agent_depth": 0},
        has_untrusted=run.has_untrusted,
        folder=SCHEDULED if is_unattended else "",
        thread=thread,
    )


def interrupt(user: Any, session: Session | str) -> None:
    """Before the session is locked, since a run that ends locks its own row first. If the message is refused, this is
    rolled back.
    """
    session_id = find_session_id(session)
    if session_id is None:
        return
    row = Session.objects.visible_to(user).filter(pk=session_id).first()
    if row is not None:
        endings.clear(row, by=user, reason=INTERRUPTED)


def find_session_id(session: Session | str) -> UUID | None:
    """None if it is not the id of any session."""
    return session.pk if isinstance(session, Session) else parsed_id(session)


def place_below(run: Run, parent: str) -> None:
    """A new session below another of the same user: it has that session's mark and, unless one is
    named, its device.
    """
    visible = Session.objects.visible_to(run.principal)
    above = visible.filter(pk=parsed_id(parent)).first()
    if above is None:
        raise NotFound(_("There is no such parent session that you can see."), hint=_("Leave “parent” out."))
    if above.depth >= DEEPEST:
        raise Invalid(_("Sessions can be nested %(number)s deep.") % {"number": DEEPEST}, code="too_deep")
    session = run.session
    assert session is not None
    session.parent = above
    session.depth = above.depth + 1
    session.device = session.device or above.device
    is_marked = run.has_untrusted or above.has_untrusted
    run.has_untrusted = session.has_untrusted = is_marked


def locked_session(user: Any, session: Session | str) -> Session:
    session_id = find_session_id(session)
    locked = None
    if session_id is not None:
        rows = Session.objects.visible_to(user).select_for_update(of=("self",)).select_related("agent")
        locked = rows.filter(pk=session_id).first()
    if locked is None:
        raise NotFound(_("There is no such session that you can see."), hint=_("Leave “session” out to start one."))
    return locked


def follow_busy_run(run: Run, busy: Run, on_busy: str) -> None:
    if on_busy == "reject":
        raise SessionBusy(
            hint=_('Wait for it, or send "on_busy": "enqueue" or "interrupt".'), details=[{"run": str(busy.pk)}]
        )
    run.after = busy
    if on_busy == "interrupt":
        assert run.session is not None  # the session is busy
        run.after = endings.clear(run.session, by=run.principal, reason=INTERRUPTED)  # what came since then
