"""Notices: who gets one, when, how often, and that nothing a tool is called can change what is sent."""

import itertools
import json
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.core import mail
from django.utils import timezone

from agents.models import Membership, Preference
from plumbing import clock
from runs.calls import approvals
from runs.models import Approval, Notice, PushSubscription
from runs.worker.notices import channels, planning, sending

from .claiming import claim_notices

pytestmark = pytest.mark.django_db
BACKENDS = {
    "memory": "django.core.mail.backends.locmem.EmailBackend",
    "broken": "tests.runs.worker.notices.test_notices.Broken",
}


class Broken:
    """A mail server that is away."""

    def __init__(self, *_, **__):
        pass

    def send_messages(self, messages):
        raise ConnectionRefusedError


@pytest.fixture(autouse=True)
def mail_server(settings):
    settings.EMAIL_IS_ON, settings.EMAIL_BACKEND = True, BACKENDS["memory"]
    settings.PUBLIC_URL = "https://muster.example.org"


@pytest.fixture
def alice(alice):
    alice.email = "alice@example.org"
    alice.save()
    return alice


def sent():
    """Plan and send what is due, on this thread."""
    planning.plan_notices()
    for pk in claim_notices(clock.now()):
        sending.deliver(pk)
    return list(mail.outbox)


def test_the_person_whose_run_waits_gets_one_mail_and_no_second(asked, alice):
    approval = asked()
    [message] = sent()
    assert message.to == ["alice@example.org"] and message.subject == "Approval needed: add"
    assert f"{settings_url()}/approvals/link/" in message.body
    assert len(sent()) == 1
    notice = Notice.objects.get()
    assert (notice.approval, notice.person, notice.channel, notice.state) == (approval, alice, "email", "sent")


def settings_url():
    from django.conf import settings

    return settings.PUBLIC_URL


def test_what_is_decided_within_seconds_sends_nothing(asked, alice, settings):
    approval = asked()
    Approval.objects.update(created_at=timezone.now())
    assert sent() == []
    approvals.decide_approval(approval, "approve", by=alice)
    Approval.objects.update(created_at=timezone.now() - timedelta(minutes=1))
    assert sent() == [] and not Notice.objects.exists()


def test_what_is_decided_after_it_was_planned_is_dropped(asked, alice):
    approval = asked()
    assert planning.plan_notices() == 1
    approvals.decide_approval(approval, "deny", by=alice)
    assert sent() == [] and Notice.objects.get().state == "dropped"


def test_without_a_mail_server_an_address_or_the_wish_nothing_is_sent(asked, alice, settings):
    asked()
    settings.EMAIL_IS_ON = False
    assert sent() == []
    for change in ({"email_notices": False}, {"email_notices": True}):
        settings.EMAIL_IS_ON = True
        Preference.objects.update_or_create(user=alice, defaults=change)
        Approval.objects.update(noticed_at=None)
        get_user_model().objects.filter(pk=alice.pk).update(
            email="" if change["email_notices"] else "alice@example.org"
        )
        assert sent() == [] and not Notice.objects.exists()


def test_a_team_that_decides_gets_it_without_its_viewers_and_without_the_starter(asked, alice, bob, charlie, team):
    for person in (bob, charlie):
        person.email = f"{person.username}@example.org"
        person.save()
    Membership.objects.create(team=team, user=charlie, role=Membership.Role.VIEWER)
    asked(team=team, decides="team", not_starter=True)
    [message] = sent()
    assert message.to == ["bob@example.org"] and "in a run of alice" in message.body


def test_who_left_the_team_before_it_was_sent_gets_nothing(asked, alice, bob, team):
    bob.email = "bob@example.org"
    bob.save()
    asked(team=team, decides="team", not_starter=True)
    assert planning.plan_notices() == 1
    Membership.objects.filter(user=bob).delete()
    assert sent() == [] and Notice.objects.get().state == "dropped"


def test_who_gets_notices_is_who_may_decide(asked, alice, bob, charlie, team):
    """`Approval.deciders` and `may_decide` are one rule, written from both ends."""
    Membership.objects.create(team=team, user=charlie, role=Membership.Role.VIEWER)
    approval = asked(team=team)
    Approval.objects.update(decider=bob, decider_team=team, decider_role="author")
    for decides, not_starter in itertools.product(("starter", "owner", "team", "role"), (False, True)):
        Approval.objects.update(decides=decides, not_starter=not_starter)
        approval.refresh_from_db()
        may = {one for one in (alice, bob, charlie) if Approval.objects.decidable_by(one).exists()}
        assert set(approval.deciders()) == may, (decides, not_starter)


def test_a_mail_server_that_is_away_is_tried_again_and_given_up_in_the_end(asked, alice, settings):
    asked()
    settings.EMAIL_BACKEND = BACKENDS["broken"]
    for attempts in range(1, len(sending.WAITS_S) + 1):
        sent()
        notice = Notice.objects.get()
        assert (notice.state, notice.attempts) == ("pending", attempts) and notice.next_attempt_at > timezone.now()
        Notice.objects.update(next_attempt_at=timezone.now() - timedelta(seconds=1))
    sent()
    assert (
        Notice.objects.get().state == "dead" and Notice.objects.get().last_error == "the mail server cannot be reached"
    )


def test_a_notice_whose_sender_was_killed_is_sent_again_after_its_lease(asked, alice):
    asked()
    planning.plan_notices()
    [taken] = claim_notices(clock.now())
    assert Notice.objects.get().state == "sending" and sent() == [], "its sender may still be at work"
    later = clock.now() + timedelta(seconds=sending.LEASE_S + 1)
    sending.take_back(later)
    assert claim_notices(later) == [taken]
    sending.deliver(taken)
    assert len(mail.outbox) == 1 and Notice.objects.get().state == "sent"
    sending.take_back(later + timedelta(days=1))
    assert sent() == list(mail.outbox) and len(mail.outbox) == 1


def test_one_person_has_a_share_of_the_senders(asked, alice, bob, monkeypatch):
    """Whose push services hang waits for those, and nobody else does."""
    monkeypatch.setattr(sending, "EACH_PERSON", 2)
    approval = asked()
    Notice.objects.all().delete()
    at = timezone.now() - timedelta(minutes=1)

    def due(person, number):
        address = f"https://push{number}.example"
        return Notice(approval=approval, person=person, channel="push", address=address, next_attempt_at=at)

    Notice.objects.bulk_create([due(alice, number) for number in range(40)])
    bobs = due(bob, 0)
    bobs.next_attempt_at = timezone.now()
    bobs.save()
    claimed = claim_notices(clock.now())
    assert len(claimed) == 3 and bobs.pk in claimed


def test_a_notice_whose_senders_keep_dying_is_given_up(asked, alice):
    asked()
    planning.plan_notices()
    now = clock.now()
    for _ in range(len(sending.WAITS_S) + 1):
        assert claim_notices(now)
        now += timedelta(seconds=sending.LEASE_S + 1)
        sending.take_back(now)
    notice = Notice.objects.get()
    assert (notice.state, notice.attempts) == ("dead", 5) and claim_notices(now) == []


@pytest.mark.parametrize(
    "name",
    [
        "add\nBcc: eve@example.net",
        "add\r\n\r\n<b>text</b>",
        "add\u2028Bcc: eve@example.net",
        "add\u202egnp.exe",
        "add\x00",
    ],
)
def test_the_name_of_a_tool_adds_no_header_and_no_line(asked, alice, name):
    """Names come from MCP servers too."""
    approval = asked()
    Approval.objects.filter(pk=approval.pk).update(tool=name.replace("\x00", "\x01"))
    [message] = sent()
    raw = message.message()
    assert message.recipients() == ["alice@example.org"] and raw["Bcc"] is None and raw["Cc"] is None
    assert len(message.subject.splitlines()) == 1 and "\u202e" not in message.subject and "\x01" not in message.subject
    assert raw.get_content_type() == "text/plain"


def test_arguments_of_the_call_never_leave_with_a_notice(asked, alice):
    approval = asked()
    secret = "<img src=x onerror=alert(1)> hunter2 [free](http://evil.example)"
    Approval.objects.filter(pk=approval.pk).update(
        arguments={"to": secret}, reason=secret, findings=[{"value": secret}]
    )
    [message] = sent()
    assert "hunter2" not in message.message().as_string() and "evil" not in message.body


def test_an_address_with_a_line_break_gets_nothing(asked, alice):
    get_user_model().objects.filter(pk=alice.pk).update(email="alice@example.org\nBcc: eve@example.net")
    asked()
    assert sent() == [] and Notice.objects.get().state == "dead"


def test_a_question_is_noticed_too_with_a_link_to_the_inbox(question, alice):
    [message] = sent()
    assert message.subject.startswith("A question from") and f"/approvals/#question-{question.pk}" in message.body
    assert len(sent()) == 1


def test_the_notice_is_in_the_persons_language_and_falls_back_to_english(asked, alice):
    Preference.objects.create(user=alice, language="de")
    asked()
    [message] = sent()
    assert "/approvals/link/" in message.body


def test_teams_gets_a_card_whose_text_is_not_markdown(asked, alice, monkeypatch):
    Preference.objects.create(user=alice, email_notices=False, teams_url="https://flows.example.com/x")
    approval = asked()
    Approval.objects.filter(pk=approval.pk).update(tool="[click](http://evil.example)")
    posted = []
    monkeypatch.setattr(
        channels, "post_notice", lambda url, body, headers: posted.append((url, json.loads(body))) or 202
    )
    sent()
    [(url, body)] = posted
    card = body["attachments"][0]["content"]
    assert url == "https://flows.example.com/x" and card["actions"][0]["url"].startswith("https://muster.example.org/")
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}


def test_teams_and_push_addresses_inside_the_network_are_refused(asked, alice, settings):
    Preference.objects.create(user=alice, email_notices=False, teams_url="https://127.0.0.1:1/x")
    asked()
    settings.PRIVATE_HOSTS_ALLOWED = []  # the model of these tests is on this host
    sent()
    notice = Notice.objects.get()
    assert notice.state == "dead" and notice.last_error.startswith("refused")


def test_nobody_sees_the_notices_or_browsers_of_others(asked, alice, bob, charlie):
    asked()
    PushSubscription.objects.create(
        owner=alice, endpoint="https://push.example.com/1", digest="1", p256dh="x", auth="y"
    )
    planning.plan_notices()
    for person in (bob, charlie):
        assert not Notice.objects.visible_to(person) and not PushSubscription.objects.visible_to(person)
    assert Notice.objects.visible_to(alice).count() == 2


def test_a_tick_takes_four_statements_while_nothing_waits(db, django_assert_max_num_queries):
    with django_assert_max_num_queries(4):
        sending.tick_notices()
