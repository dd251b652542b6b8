"""An agent that fails more often, costs more or takes longer than usual is reported: over REST, on the dashboard and to
webhooks, once a day.
"""

from datetime import UTC, datetime, timedelta

import pytest
from uuid_utils.compat import uuid7

from runs.models import Run, Webhook, WebhookDelivery
from runs.models.figures import anomalies
from runs.worker import anomaly_notices

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
NOW = datetime(2026, 6, 20, 15, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock(time_machine):
    time_machine.move_to(NOW, tick=False)


@pytest.fixture
def ended(alice):
    """`ended(agent, days_ago, count, …)`: that many ended runs of that day."""

    def make(agent, days_ago, count=5, *, failed=0, cost=0.01, seconds=2, owner=alice):
        at = NOW - timedelta(days=days_ago)
        for number in range(count):
            Run.objects.create(
                id=uuid7(int(at.timestamp()), 0), principal=owner, agent=agent, cost=cost, created_at=at,
                status="failed" if number < failed else "succeeded", finished_at=at + timedelta(seconds=seconds),
            )  # fmt: skip

    return make


@pytest.fixture
def usual(make_agent, ended):
    agent = make_agent("clerk")
    for days_ago in range(1, 6):
        ended(agent, days_ago, 10, failed=days_ago % 2)
    return agent


def found():
    return {one.measure: one for one in anomalies.today(Run.objects.all(), NOW)}


@pytest.mark.parametrize(
    ("today", "measure"),
    [({"failed": 4}, "failures"), ({"cost": 0.05}, "cost"), ({"seconds": 30}, "latency"), ({}, None)],
)
def test_each_measure_is_compared_with_the_earlier_days(usual, ended, django_assert_num_queries, today, measure):
    ended(usual, 0, 8, **today)
    with django_assert_num_queries(1):
        told = found()
    assert set(told) == ({measure} if measure else set())
    if measure:
        one = told[measure]
        assert (one.agent, one.runs) == ("clerk", 8) and one.value > one.limit > one.usual
        assert "clerk" in one.message


def test_few_runs_or_days_say_nothing(usual, make_agent, ended):
    ended(usual, 0, 4, failed=4)
    new = make_agent("new")
    ended(new, 1, 10)
    ended(new, 0, 10, failed=10)
    assert found() == {}


def test_over_rest_everybody_reads_their_own(usual, ended, alice_api, bob_api, charlie_api):
    ended(usual, 0, 8, failed=6)
    [one] = alice_api.get(f"{V1}/anomalies/").json()["results"]
    assert (one["agent"], one["measure"], one["value"], one["runs"]) == ("clerk", "failures", 0.75, 8)
    for api in (bob_api, charlie_api):
        assert api.get(f"{V1}/anomalies/").json()["results"] == []


def test_a_webhook_hears_of_it_once_a_day(usual, ended, alice, charlie):
    hook = Webhook.objects.create(owner=alice, url="https://example.com/a", events=["agent.anomaly"])
    Webhook.objects.create(owner=alice, url="https://example.com/b", events=["run.finished"])
    Webhook.objects.create(owner=charlie, url="https://example.com/c", events=["agent.anomaly"])
    ended(usual, 0, 8, failed=6)
    assert (anomaly_notices.tick_anomalies(NOW), anomaly_notices.tick_anomalies(NOW + timedelta(hours=1))) == (1, 0)
    delivery = WebhookDelivery.objects.get()
    assert (delivery.webhook, delivery.body["type"]) == (hook, "agent.anomaly")
    assert (delivery.body["data"]["agent"], delivery.body["data"]["measure"]) == ("clerk", "failures")
    ended(usual, 0, 8, cost=1)
    assert anomaly_notices.tick_anomalies(NOW) == 1  # another measure


def test_a_webhook_may_ask_for_it_over_rest(alice_api, settings):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    body = {"url": "http://127.0.0.1:9/hook", "events": ["agent.anomaly"]}
    assert alice_api.post(f"{V1}/webhooks/", body).status_code == 201


def test_the_dashboard_says_so(usual, ended, signed_in, alice):
    ended(usual, 0, 8, failed=6)
    shown = signed_in(alice).get("/").content.decode()
    assert "75% of today&#x27;s runs of “clerk” failed" in shown


def test_running_runs_are_counted(alice, alice_api, charlie_api, signed_in, make_agent):
    for status in ("queued", "running", "running", "waiting", "succeeded"):
        Run.objects.create(principal=alice, agent=make_agent(status + str(Run.objects.count())), status=status)
    assert alice_api.get(f"{V1}/runs/live").json() == {"queued": 1, "running": 2, "waiting": 1}
    assert charlie_api.get(f"{V1}/runs/live").json() == {"queued": 0, "running": 0, "waiting": 0}
    assert "<dt>Running now</dt><dd>2" in signed_in(alice).get("/").content.decode()
