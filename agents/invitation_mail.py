"""The e-mail to a person who is invited to a team."""

import logging
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.utils import translation
from django.utils.translation import gettext_noop as _

from agents.models import Invitation, Preference
from plumbing.texts import translate

log = logging.getLogger(__name__)


def send_invitation_mail(invitation: Invitation) -> bool:
    """Whether it was sent. The invitation stands on the pages anyway, so a mail server that is away is no error."""
    person: Any = invitation.user
    preference = Preference.of(person)
    if not (settings.EMAIL_IS_ON and person.email and preference.email_notices):
        return False
    with translation.override(preference.language or settings.LANGUAGE_CODE):
        names = {"inviter": invitation.invited_by, "team": invitation.team}
        title = translate(_("%(inviter)s invites you to the team “%(team)s”") % names)
        body = translate(_("Open this page to accept or decline. You are asked to sign in."))
    # The header keeps answering machines from answering.
    headers = {"Auto-Submitted": "auto-generated"}
    text = f"{title}.\n\n{body}\n\n{settings.PUBLIC_URL}/teams/"
    # User names and names of teams have no control characters, so none of them can add a header.
    try:
        EmailMessage(title, text, to=[person.email], headers=headers).send()
    except (OSError, ValueError) as error:  # smtplib's errors are of OSError
        log.warning("An invitation could not be sent by e-mail: %r", error)
        return False
    return True
