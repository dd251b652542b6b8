"""A deactivated account: nothing is sent to its webhooks, and nothing starts in its name."""

import pytest
from django.utils import timezone

from agents import roles
from agents.exceptions import Invalid
from runs.intake import checks
from runs.models import Webhook, WebhookDelivery
from runs.worker import webhooks

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting(alice, monkeypatch):
    """A delivery that is due, and what is sent."""
    sent = []
    monkeypatch.setattr(webhooks, "post_delivery", lambda delivery: sent.append(delivery.pk) or (200, ""))
    hook = Webhook.objects.create(owner=alice, url="https://hooks.example.com/x")
    due = {"next_attempt_at": timezone.now()}
    return WebhookDelivery.objects.create(webhook=hook, body={"text": "secret"}, **due), sent


def test_webhooks_of_a_deactivated_account_get_nothing(alice, waiting):
    delivery, sent = waiting
    alice.is_active = False
    alice.save()
    webhooks.deliver(str(delivery.pk))
    delivery.refresh_from_db()
    assert (sent, delivery.state) == ([], "dead") and "deactivated" in delivery.last_error


def test_webhooks_of_others_go_on(bob, waiting):
    delivery, sent = waiting
    bob.is_active = False
    bob.save()
    webhooks.deliver(str(delivery.pk))
    assert sent == [delivery.pk]


def test_nothing_starts_in_the_name_of_a_deactivated_account(alice, agent):
    assert checks.check_usable(agent, alice) == agent and roles.allows(alice, roles.ACT)
    alice.is_active = False
    alice.save()
    assert not roles.allows(alice, roles.ACT)
    with pytest.raises(Invalid):
        checks.check_usable(agent, alice)
