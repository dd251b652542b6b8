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
    if not isinstance(subject, Approval):
        title = _("A question from %(agent)s") % {"agent": agent}
        body = _("%(agent)s waits for your answer.") % {"agent": agent}
        return Words(title, body, build_question_url(subject))
    tool = make_plain_line(subject.tool)
    title = _("Approval needed: %(tool)s") % {"tool": tool}
    if subject.run.principal_id == notice.person_id:
        body = _("%(agent)s asks before it calls “%(tool)s”.") % {"agent": agent, "tool": tool}
    else:
        person = make_plain_line(subject.run.principal.get_username())
        body = _("%(agent)s asks before it calls “%(tool)s”, in a run of %(person)s.") % {
            "agent": agent,
            "tool": tool,
            "person": person,
        }
    return Words(title, body, links.sign_approval_link(subject.pk, notice.person_id))


def who_asks(subject: Approval | InputRequest) -> str:
    run = subject.run
    if run.agent_id:
        return run.agent.name
    if run.chain_version_id:
        return run.chain_version.chain.name
    return "Muster"


def build_question_url(question: InputRequest) -> str:
    return f"{settings.PUBLIC_URL}/approvals/#question-{question.pk}"


def make_plain_line(text: str, limit: int = 80) -> str:
    """One line without control characters, so that a name cannot add a header or reverse the text after it."""
    signs: list[str] = []
    for sign in text:
        # Categories of control characters begin with C, those of spaces and line ends with Z.
        category = unicodedata.category(sign)
        signs.append(" " if category[0] in "CZ" else sign)
    line = " ".join("".join(signs).split())
    if len(line) <= limit:
        return line
    return f"{line[: limit - 1]}…"
