"""How agents have done, what workers hold, and who runs now."""

from datetime import timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from django.utils import timezone

from registry.factory import live_agent
from runs.models import Run, Worker
from runs.models.figures import track_records
from runs.models.figures.earlier import build_first_id
from runs.queue import workers

pytestmark = pytest.mark.django_db


@pytest.fixture
def ended(alice):
    def make(agent, status="succeeded", seconds=1.5, error=None, ago=timedelta(hours=1), cost="0.25"):
        began = timezone.now() - ago
        id = UUID(int=build_first_id(began).int + Run.objects.count())  # ids are ordered by time
        return Run.objects.create(
            id=id, principal=alice, agent=agent, status=status, created_at=began, error=error, cost=cost, input_tokens=10,
            finished_at=began + timedelta(seconds=seconds),
        )  # fmt: skip

    return make


def test_figures_come_in_one_query(make_agent, ended, django_assert_num_queries):
    agent = make_agent()
    for _ in range(8):
        ended(agent)
    ended(agent, "failed", 40, {"code": "model_unavailable", "message": ""})
    ended(agent, "cancelled")
    with django_assert_num_queries(1):
        total, parts = track_records.over_time(Run.objects.all(), "day")
    assert (total.runs, total.succeeded, total.cancelled, total.cost) == (10, 8, 1, Decimal("2.5"))
    assert total.errors == {"model_unavailable": 1} and (total.success_rate, total.success_score) == (
        pytest.approx(8 / 9),
        pytest.approx(9 / 11),
    )
    assert 1 < total.p50_s <= 2 and 30 < total.p95_s <= 60
    assert sum(part.runs for _, part in parts) == 10


@pytest.mark.parametrize("seconds", [0.1, 2, 3, 3600])
def test_a_latency_class_includes_its_upper_edge(make_agent, ended, seconds):
    agent = make_agent()
    ended(agent, seconds=seconds)
    ended(agent, seconds=seconds + 0.002)
    (at, figure), *more = track_records.over_time(Run.objects.all(), "day")[1]
    edge = track_records.EDGES.index(seconds)
    assert (figure.classes, more) == ({edge: 1, edge + 1: 1}, [])
    begun = Run.objects.first().created_at
    assert at == begun.replace(minute=0, second=0, microsecond=0)


def test_the_record_of_several_agents_comes_in_two_queries(make_agent, ended, django_assert_num_queries):
    good, bad, new = make_agent("good"), make_agent("bad"), make_agent("new")
    ended(good, ago=timedelta())  # an hour ago may have been yesterday
    ended(bad, "failed", ago=timedelta())
    with django_assert_num_queries(2):  # is there an earlier one? those of today
        found = track_records.lately([good.pk, bad.pk, new.pk])
    assert found[good.pk].success_score > 0.5 > found[bad.pk].success_score and new.pk not in found


def test_whole_days_are_counted_once_and_the_others_each_time(make_agent, ended, django_assert_num_queries):
    agent, now = make_agent(), timezone.now().replace(hour=12)
    for days in (0, 0, 1, 3, 29, 31):  # the last one is no longer in the window
        ended(agent, ago=timezone.now() - now + timedelta(days=days, minutes=1))
    with django_assert_num_queries(3):
        first, parts = track_records.over_time(Run.objects.filter(agent=agent), "month", now)
    ended(agent, ago=timezone.now() - now + timedelta(minutes=1))
    with django_assert_num_queries(2):
        again, _ = track_records.over_time(Run.objects.filter(agent=agent), "month", now)
    assert (first.runs, again.runs, [figure.runs for _, figure in parts]) == (5, 6, [1, 1, 1, 2])
    later, _ = track_records.over_time(Run.objects.filter(agent=agent), "month", now + timedelta(seconds=301))
    assert later.runs == 6


def test_figures_over_http_are_ones_own(alice, alice_api, make_agent, ended):
    ended(make_agent("helper"))
    told = alice_api.get("/api/v1/agents/helper/figures?window=week").json()
    assert (told["runs"], told["success_rate"], told["success_score"]) == (1, 1.0, 0.6667)
    assert len(told["series"]) == 1
    assert alice_api.get("/api/v1/agents/helper/figures?window=era").status_code == 422


def test_a_worker_tells_what_it_has_loaded(alice_api, charlie_api, make_agent):
    agent = make_agent("helper")
    live_agent(agent)
    workers.report_worker("host:1", runs=2)
    workers.report_worker("host:1", runs=1)
    (told,) = seen_by(alice_api)
    assert (told["name"], told["runs"], told["others"]) == ("host:1", 1, 0)
    assert told["loaded"] == [{"agent": "helper", "version": 1, "hash": agent.live_hash}]
    (told,) = seen_by(charlie_api)
    assert (told["loaded"], told["others"]) == ([], 1)


def seen_by(api):
    """This process reports itself as well; the tests' own names begin with "host"."""
    rows = api.get("/api/v1/workers/").json()["results"]
    return [row for row in rows if row["name"].startswith("host:")]


def test_a_silent_worker_is_forgotten(db):
    now = timezone.now()
    workers.report_worker("host:1", runs=0, now=now - timedelta(hours=2))
    workers.report_worker("host:2", runs=0, now=now)
    assert list(Worker.objects.filter(name__startswith="host:").values_list("name", flat=True)) == ["host:2"]


def test_running_now_can_be_filtered(alice, alice_api, make_agent, ended):
    run = ended(make_agent("helper"), "running")
    Run.objects.filter(pk=run.pk).update(lease_owner="host:1")
    for query, count in (
        ("worker=host:1", 1),
        ("worker=host:2", 0),
        ("status=running", 1),
        ("agent=helper", 1),
        ("agent=ghost", 0),
    ):
        assert len(alice_api.get(f"/api/v1/runs/?{query}").json()["results"]) == count
