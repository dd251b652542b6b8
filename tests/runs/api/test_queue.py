"""Pools, limits and batches from outside: who sets them, what a run records, and what it says when no worker serves it."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from agents.models import Agent, AuditEvent, Chain, Membership, Provider, Team
from runs.intake import children
from runs.models import Run, Schedule, Worker
from runs.models.figures import site
from runs.queue import claims, limits, workers
from runs.schedules import occurrences
from tests.schedules import START

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
ASYNC = {"Prefer": "respond-async"}
JSON = "application/json"


@pytest.fixture
def agent(make_agent, stub_provider, team):
    return make_agent(provider=stub_provider, team=team)


@pytest.fixture
def chain(make_chain, team, worker):
    return make_chain({"key": "one", "tool": "add", "input": {}}, name="night", team=team)


@pytest.fixture
def rows(agent, chain, team):
    """(path, body, row) of everything that has a pool or a limit."""
    Provider.objects.filter(pk=agent.provider_id).update(team=team, owner=agent.owner)
    return [
        (f"{V1}/agents/helper", {"pool": "gpu", "max_running": 3}, agent),
        (f"{V1}/chains/night", {"pool": "gpu"}, chain),
        (f"{V1}/providers/{agent.provider.name}", {"max_running": 3}, agent.provider),
        (f"{V1}/teams/{team.name}", {"max_running": 3}, team),
    ]


def sent(client, body, *, agent="helper", status=202):
    answer = client.post(f"{V1}/agents/{agent}/messages", {"message": "Hello", **body}, headers=ASYNC)
    assert answer.status_code == status, answer.content
    return answer.json()["run"] if status == 202 else answer.json()["error"]


def shown(client, run):
    return client.get(f"{V1}/runs/{run if isinstance(run, str) else run.pk}").json()


def one_minute_ago(**rows):
    Run.objects.filter(**rows).update(queued_at=timezone.now() - timedelta(minutes=1))


# -- pools and limits --------------------------------------------------------------------------------------------------


def test_the_owner_sets_pools_and_limits_and_the_live_version_stays(alice_api, rows):
    for path, body, row in rows:
        before = alice_api.get(path).json()
        assert {name: before[name] for name in body} == {name: "" if name == "pool" else None for name in body}
        assert alice_api.patch(path, body, JSON).status_code == 200
        now = alice_api.get(path).json()
        assert {name: now[name] for name in body} == body
        assert now.get("published_version") == before.get("published_version")
        kind = row._meta.model_name
        assert AuditEvent.objects.filter(action=f"{kind}.changed", subject_id=str(row.pk)).count() == 1
    assert sent(alice_api, {})["pool"] == "gpu"  # at once: nothing was published
    assert alice_api.post(f"{V1}/chains/night/runs", {"input": {}}).json()["pool"] == "gpu"


def test_a_put_without_them_takes_them_back(alice_api, agent, rows):
    alice_api.patch(*rows[0][:2], JSON)
    body = {"name": "helper", "provider": agent.provider.name, "model_name": "stub"}
    assert alice_api.put(f"{V1}/agents/helper", body, JSON).status_code == 200
    agent.refresh_from_db()
    assert (agent.pool, agent.max_running) == ("", None)


def test_a_team_mate_and_a_stranger_change_none_of_them(api, bob, charlie, rows):
    for path, body, row in rows:
        assert api(bob).patch(path, body, JSON).status_code == 403, path
        assert api(charlie).patch(path, body, JSON).status_code == 404, path
        row.refresh_from_db()
        assert (getattr(row, "pool", ""), getattr(row, "max_running", None)) == ("", None)


@pytest.mark.parametrize("value", [0, -1, "3", True, 1.5, 1_000_001, [3]])
def test_a_limit_is_a_whole_number_from_one_on(alice_api, rows, value):
    for path, body, _ in rows:
        if "max_running" in body:
            assert alice_api.patch(path, {"max_running": value}, JSON).status_code == 422, path


@pytest.mark.parametrize("value", ["GPU", "a b", "-gpu", "x" * 33, 5, None, ["gpu"]])
def test_a_pool_is_a_short_word(alice_api, rows, value):
    for path in (f"{V1}/agents/helper", f"{V1}/chains/night"):
        assert alice_api.patch(path, {"pool": value}, JSON).status_code == 422, path
    assert {*Agent.objects.values_list("pool", flat=True), *Chain.objects.values_list("pool", flat=True)} == {""}


def test_a_limit_set_over_the_api_holds(alice, alice_api, agent, worker):
    alice_api.patch(f"{V1}/agents/helper", {"max_running": 1}, JSON)
    first = sent(alice_api, {})["id"]
    sent(alice_api, {})
    assert [run and str(run.pk) for run in (claims.claim_next("default"), claims.claim_next("default"))] == [
        first,
        None,
    ]


def test_the_admin_asks_for_them_with_help(alice, site_admin, signed_in, rows):
    browser = signed_in(site_admin)
    for _, body, row in rows:
        page = browser.get(reverse(f"admin:agents_{row._meta.model_name}_change", args=[row.pk])).content.decode()
        for name in body:
            assert f'name="{name}"' in page, (row, name)
            assert row._meta.get_field(name).help_text[:30] in page


# -- batches -----------------------------------------------------------------------------------------------------------


def test_a_batch_goes_behind_a_message_that_came_later(alice_api, agent, worker):
    batch, chat = sent(alice_api, {"priority": "batch"}), sent(alice_api, {})
    assert (batch["priority"], chat["priority"]) == ("batch", "person")
    assert batch["options"]["priority"] == "batch" and batch["options"]["asked"] == ["priority"]
    assert [str(claims.claim_next("default").pk) for _ in range(2)] == [chat["id"], batch["id"]]


@pytest.mark.parametrize("value", ["person", "high", "", 3, 0, True, ["batch"]])
def test_nobody_asks_for_another_priority(alice_api, agent, chain, worker, value):
    sent(alice_api, {"priority": value}, status=422)
    assert alice_api.post(f"{V1}/runs/", {"agent": "helper", "message": "x", "priority": value}).status_code == 422
    assert alice_api.post(f"{V1}/chains/night/runs", {"priority": value}).status_code == 422
    assert not Run.objects.exists()


def test_what_a_batch_starts_is_a_batch(alice, alice_api, agent, make_agent, worker):
    make_agent("second", provider=agent.provider)
    parent = Run.objects.get(pk=sent(alice_api, {"priority": "batch"})["id"])
    child = children.start_child(parent, Agent.objects.select_related("published", "provider").get(name="second"))
    assert child.priority == Run.Priority.BATCH
    prepared = alice_api.post(f"{V1}/runs/", {"agent": "helper", "message": "Tidy", "priority": "batch"})
    assert (prepared.status_code, prepared.json()["priority"]) == (201, "batch")


def test_a_chain_as_a_batch_stays_one_when_it_is_retried(alice, alice_api, chain, worker):
    started = alice_api.post(f"{V1}/chains/night/runs", {"priority": "batch"}).json()
    assert (started["priority"], started["options"]) == ("batch", {"priority": "batch", "asked": ["priority"]})
    Run.objects.get(pk=started["id"]).change("failed")
    again = alice_api.post(f"{V1}/runs/{started['id']}/retry", {"step": "one"})
    assert (again.status_code, again.json()["priority"]) == (202, "batch")


def test_a_schedule_starts_batches_of_agents_and_chains(alice_api, chain, make_schedule, stub_provider):
    make_schedule(options={"priority": "batch"})
    make_schedule("nightly", agent=None, chain=chain, options={"priority": "batch"})
    make_schedule("usual")
    for schedule in Schedule.objects.all():
        occurrence = schedule.occurrences.create(due_at=START, start_at=START)
        assert occurrences.build_occurrence_run(occurrence).priority == (2 if schedule.name == "usual" else 3)


def test_a_schedule_of_a_chain_takes_no_other_option(alice_api, chain):
    body = {"name": "nightly", "chain": "night", "crontab": "0 3 * * *"}
    refused = alice_api.post(f"{V1}/schedules/", {**body, "options": {"priority": "batch", "max_steps": 2}})
    assert refused.status_code == 422
    made = alice_api.post(f"{V1}/schedules/", {**body, "options": {"priority": "batch"}})
    assert (made.status_code, made.json()["options"]) == (201, {"priority": "batch"})


def test_one_idempotency_key_is_not_used_for_both(alice_api, chain, worker):
    key = {"Idempotency-Key": "k1"}
    assert alice_api.post(f"{V1}/chains/night/runs", {}, headers=key).status_code == 202
    assert alice_api.post(f"{V1}/chains/night/runs", {"priority": "batch"}, headers=key).status_code == 409


# -- a pool without workers --------------------------------------------------------------------------------------------


def test_a_run_in_a_pool_without_workers_says_so(alice, alice_api, agent, signed_in, worker):
    workers.report_worker("host:cpu", runs=0)
    Agent.objects.update(pool="gpu")
    run = sent(alice_api, {})["id"]
    assert (
        shown(alice_api, run)["why_queued"] == "" and site.pools()["ok"]
    )  # a worker may be about to say that it is there
    one_minute_ago()
    assert "“gpu”" in shown(alice_api, run)["why_queued"]
    assert "“gpu”" in alice_api.get(f"{V1}/runs/").json()["results"][0]["why_queued"]
    assert "No live worker serves the pool “gpu”" in signed_in(alice).get(f"/runs/{run}/").content.decode()
    assert (site.pools()["ok"], site.pools()["unserved"]) == (False, "gpu")

    Worker.objects.filter(name="host:cpu").update(pools=["default", "gpu"])
    assert shown(alice_api, run)["why_queued"] == "" and site.pools()["ok"]
    Worker.objects.update(seen_at=timezone.now() - timedelta(minutes=3))
    assert "“gpu”" in shown(alice_api, run)["why_queued"] and not site.pools()["ok"]
    claims.claim_next("gpu")
    assert shown(alice_api, run)["why_queued"] == "" and site.pools()["ok"]


def test_a_run_that_follows_another_waits_for_that_one(alice_api, agent, worker):
    first = sent(alice_api, {})
    session = shown(alice_api, first["id"])["session"]
    second = sent(alice_api, {"session": session, "on_busy": "enqueue"})["id"]
    one_minute_ago()
    Worker.objects.all().delete()
    assert shown(alice_api, first["id"])["why_queued"] and not shown(alice_api, second)["why_queued"]


def test_the_pools_are_read_once_for_a_list(alice_api, agent, worker, django_assert_max_num_queries):
    for _ in range(5):
        sent(alice_api, {})
    one_minute_ago()
    workers.report_worker(
        "host:1", runs=0
    )  # with a worker that serves the pool, its format is compared with each run's
    with django_assert_max_num_queries(4):
        assert len(alice_api.get(f"{V1}/runs/").json()["results"]) == 5


def test_workers_name_their_pools(alice_api, settings):
    settings.WORKER_POOLS = ["gpu", "default"]
    workers.report_worker("host:1", runs=0)
    (told,) = [row for row in alice_api.get(f"{V1}/workers/").json()["results"] if row["name"] == "host:1"]
    assert told["pools"] == ["gpu", "default"]


def test_a_team_of_two_administrators_may_be_limited_by_either(api, bob, team):
    Membership.objects.filter(user=bob).update(role="administrator")
    assert api(bob).patch(f"{V1}/teams/{team.name}", {"max_running": 2}, JSON).status_code == 200
    assert Team.objects.get().max_running == 2 and limits.full_teams().count() == 0
