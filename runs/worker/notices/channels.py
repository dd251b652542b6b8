"""The ways in which a notice leaves: e-mail, a push service, a Teams workflow. Each makes one attempt."""

import json
import logging
import smtplib
from collections.abc import Callable
from typing import Any

import httpx2
from django.conf import settings
from django.core.mail import EmailMessage
from django.utils.translation import gettext as _

from agents.models import Preference
from plumbing.http import outbound
from plumbing.http.failures import describe_failure
from runs.models import Notice, PushSubscription

from . import push
from .words import Words

log = logging.getLogger(__name__)
TIMEOUT_S = 10.0


class NotSent(Exception):
    """It may be tried again later."""


class Undeliverable(Exception):
    """Trying again cannot help."""


def send_email(notice: Notice, words: Words) -> None:
    account = f"{settings.PUBLIC_URL}/account/#notices"
    paragraphs = [
        words.body,
        _("Open this page to decide. You are asked to sign in."),
        words.url,
        _("You can switch these messages off in your account: %(url)s") % {"url": account},
    ]
    address = notice.person.email
    if not address:
        raise Undeliverable("the person has no e-mail address any more")
    # The header keeps answering machines from answering.
    headers = {"Auto-Submitted": "auto-generated"}
    message = EmailMessage(words.title, "\n\n".join(paragraphs), to=[address], headers=headers)
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused:
        raise Undeliverable("the mail server refuses the address of the person")
    except ValueError:
        raise Undeliverable("a header of the e-mail would have two lines")
    except smtplib.SMTPException as error:
        log.warning("The mail server did not take an e-mail: %r", error)
        raise NotSent("the mail server did not take it")
    except OSError as error:
        log.warning("The mail server cannot be reached: %r", error)
        raise NotSent("the mail server cannot be reached")


def send_push(notice: Notice, words: Words) -> None:
    """A subscription that the push service no longer knows is deleted."""
    subscription = PushSubscription.objects.filter(pk=notice.address, owner_id=notice.person_id).first()
    if subscription is None:
        raise Undeliverable("the browser has unsubscribed")
    subject = notice.subject
    about = {"title": words.title, "body": words.body, "url": words.url, "tag": str(subject.pk)}
    content = json.dumps(about, ensure_ascii=False).encode()
    body, headers = push.message(subscription, content, topic=subject.pk.hex, until=subject.expires_at)
    status = post_notice(subscription.endpoint, body, headers)
    if status in (404, 410):
        subscription.delete()
        raise Undeliverable("the browser has unsubscribed")
    accept(status)


def send_teams(notice: Notice, words: Words) -> None:
    """An Adaptive Card. Text runs are not read as Markdown, so a name cannot contain a link."""
    url = Preference.of(notice.person).teams_url
    if not url:
        raise Undeliverable("the person has removed the address")
    title = {"type": "TextRun", "text": words.title, "weight": "Bolder"}
    text = {"type": "TextRun", "text": words.body}
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "RichTextBlock", "inlines": [title]}, {"type": "RichTextBlock", "inlines": [text]}],
        "actions": [{"type": "Action.OpenUrl", "title": _("Open"), "url": words.url}],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    message = json.dumps({"type": "message", "attachments": [attachment]}, ensure_ascii=False).encode()
    status = post_notice(url, message, {"Content-Type": "application/json"})
    accept(status)


def accept(status: int) -> None:
    if status in (408, 429) or status >= 500:
        raise NotSent(f"answered {status}")
    if not 200 <= status < 300:
        raise Undeliverable(f"answered {status}")


def post_notice(url: str, body: bytes, headers: dict[str, Any]) -> int:
    """The status of the answer. Private addresses are refused, redirects are not followed."""
    all_headers = {"User-Agent": "Muster-Notice/1", **headers}
    try:
        with (
            outbound.until(TIMEOUT_S),
            outbound.client(settings.PRIVATE_HOSTS_ALLOWED) as client,
            client.stream("POST", url, content=body, headers=all_headers) as answer,
        ):
            return answer.status_code
    except outbound.AddressRefused as error:
        raise Undeliverable(f"refused: {error}")
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
        raise Undeliverable("the address cannot be used")
    except httpx2.HTTPError as error:
        raise NotSent(f"the address cannot be reached: {describe_failure(error)}")


CHANNELS: dict[str, Callable[[Notice, Words], None]] = {
    Notice.Channel.EMAIL: send_email,
    Notice.Channel.PUSH: send_push,
    Notice.Channel.TEAMS: send_teams,
}
