"""What waits for silent receivers does not make the search for the next delivery slow."""

from datetime import timedelta

import pytest
from django.db import connection
from uuid_utils.compat import uuid7

from plumbing import clock
from runs.models import Webhook, WebhookDelivery
from runs.worker import webhooks
from tests.reading import amount_read

WEBHOOKS = 20
RUNS_OF_EACH = 5


def store_backlog(owner, number, ago):
    """So many deliveries that are due: for each webhook the same number, about a few runs."""
    hooks = [Webhook.objects.create(owner=owner, url=f"https://silent-{place}.example/") for place in range(WEBHOOKS)]
    runs = [uuid7() for _ in range(RUNS_OF_EACH)]
    due = clock.now() - ago
    WebhookDelivery.objects.bulk_create(
        WebhookDelivery(
            webhook=hooks[place % WEBHOOKS],
            run=runs[place // WEBHOOKS % RUNS_OF_EACH],
            type="run.finished",
            body={},
            next_attempt_at=due,
        )
        for place in range(number)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


@pytest.mark.django_db
def test_the_search_grows_no_faster_than_the_backlog(alice, bob):
    of_bob = Webhook.objects.create(owner=bob, url="https://answers.example/")
    his = WebhookDelivery.objects.create(
        webhook=of_bob, run=uuid7(), type="run.finished", body={}, next_attempt_at=clock.now()
    )
    amounts = []
    for number in (400, 1200):  # 1,600 in all
        store_backlog(alice, number, timedelta(minutes=5))
        amount, claimed = amount_read(lambda: webhooks.claim_due_deliveries(clock.now()), "runs_webhookdelivery")
        assert str(his.pk) in claimed
        amounts.append(amount)
    assert amounts[1] < 6 * amounts[0], amounts


@pytest.mark.django_db
def test_deliveries_about_one_run_to_one_webhook_keep_their_order(alice):
    hook = Webhook.objects.create(owner=alice, url="https://answers.example/")
    run, other_run = uuid7(), uuid7()
    due = clock.now()
    first, _second, of_other = (
        WebhookDelivery.objects.create(webhook=hook, run=of, type="run.finished", body={}, next_attempt_at=due)
        for of in (run, run, other_run)
    )
    claimed = webhooks.claim_due_deliveries(clock.now())
    assert sorted(claimed) == sorted([str(first.pk), str(of_other.pk)])
