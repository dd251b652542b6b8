"""What a notice says. Arguments of calls are never in it: they may be secret, and strangers may have written them."""

import unicodedata
from dataclasses import dataclass

from django.conf import settings
from django.utils.translation import gettext as _

from runs.events import links
from runs.models import Approval, InputRequest, Notice


@dataclass(frozen=True, slots=True)
class Words:
    title: str
    body: str
    url: str


def render_notice(notice: Notice) -> Words:
    """In the active language."""
    subject = notice.subject
    agent = make_plain_line(who_asks(subject))
    if isinstance(subject, Approval):
        title = _("Approval needed: %(tool)s") % {"tool": make_plain_line(subject.tool)}
        if subject.run.principal_id == notice.person_id:
            body = _("%(agent)s asks before it calls “%(tool)s”.") % {
                "agent": agent,
                "tool": make_plain_line(subject.tool),
            }
        else:
            body = _("%(agent)s asks before it calls “%(tool)s”, in a run of %(person)s.") % {
                "agent": agent,
                "tool": make_plain_line(subject.tool),
                "person": make_plain_line(subject.run.principal.get_username()),
            }
        return Words(title, body, links.sign_approval_link(subject.pk, notice.person_id))
    title = _("A question from %(agent)s") % {"agent": agent}
    return Words(title, _("%(agent)s waits for your answer.") % {"agent": agent}, build_question_url(subject))


def who_asks(subject: Approval | InputRequest) -> str:
    run = subject.run
    if run.agent_id:
        return run.agent.name
    return run.chain_version.chain.name if run.chain_version_id else "Muster"


def build_question_url(question: InputRequest) -> str:
    return f"{settings.PUBLIC_URL}/approvals/#question-{question.pk}"


def make_plain_line(text: str, limit: int = 80) -> str:
    """One line without control characters, so that a name cannot add a header or reverse the text after it."""
    kept = "".join(" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in text)
    line = " ".join(kept.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
