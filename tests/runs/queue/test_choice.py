"""Which run a worker takes next: priority, fair shares, limits over all workers, pools, formats."""

import pytest

from agents.models import AgentVersion, Provider
from agents.spec import FORMAT
from runs.intake import messages as intake
from runs.models import Run
from runs.queue import claims, fair_queue
from tests.fakes import says

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(make_agent, stub_provider):
    return make_agent(provider=stub_provider)


@pytest.fixture
def queue_run(agent, worker):
    def send(user, agent=agent, **fields):
        run = intake.message_run(user=user, agent=agent, trigger=fields.pop("trigger", "message"))
        for name, value in fields.items():
            setattr(run, name, value)
        intake.open_sessions([(run, "hello", None)])
        return run

    return send


def taken(number, pool="default", **more):
    return [claims.claim_next(pool, **more) for _ in range(number)]


def test_a_person_comes_before_triggers_schedules_and_batches(alice, queue_run):
    runs = [queue_run(alice, priority=3)] + [queue_run(alice, trigger=one) for one in ("schedule", "event", "message")]
    assert [run.pk for run in taken(4)] == [run.pk for run in reversed(runs)]
    assert taken(1) == [None]


def test_two_people_take_turns_whoever_was_first(alice, charlie, agent, queue_run):
    type(agent).objects.filter(pk=agent.pk).update(owner=None)
    agent.refresh_from_db()
    for _ in range(20):
        queue_run(alice)
    for _ in range(5):
        queue_run(charlie)
    first = [run.principal for run in taken(12)]
    assert first.count(charlie) == 5


def test_a_floor_leaves_higher_priorities_waiting_if_there_is_something_below(alice, queue_run):
    chat, batch = queue_run(alice), queue_run(alice, priority=3)
    assert taken(1, floor=3)[0].pk == batch.pk
    assert taken(1, floor=3)[0].pk == chat.pk
    floors = [fair_queue.floor(turn) for turn in range(16)]
    assert sorted(floors) == [0] * 12 + [1, 1, 2, 3]


@pytest.mark.parametrize("whose", ["agent", "provider", "team"])
def test_a_limit_holds_over_all_claims_and_others_pass(whose, alice, team, agent, make_agent, queue_run):
    if whose == "team":
        type(agent).objects.filter(pk=agent.pk).update(team=team)
        agent.refresh_from_db()
    row = {"agent": agent, "provider": agent.provider, "team": team}[whose]
    type(row).objects.filter(pk=row.pk).update(max_running=2)
    held = [queue_run(alice) for _ in range(4)]
    free = make_agent("free", provider=Provider.objects.create(name="other", kind="offline", owner=alice))
    last = queue_run(alice, agent=free)
    assert [run and run.pk for run in taken(4)] == [held[0].pk, held[1].pk, last.pk, None]


def test_a_run_of_another_pool_is_left(alice, agent, queue_run):
    type(agent).objects.filter(pk=agent.pk).update(pool="gpu")
    agent.refresh_from_db()
    run = queue_run(alice)
    assert run.pool == "gpu" and taken(1) == [None] and fair_queue.waiting_pools(["default", "gpu"]) == {"gpu"}
    assert taken(1, pool="gpu")[0].pk == run.pk


def test_a_definition_of_a_newer_muster_is_left_to_a_newer_worker(alice, agent, worker, stub):
    with worker.capture(execute=True):
        run = intake.accept_message(user=alice, text="hi", agent=agent).run
    AgentVersion.objects.update(format=FORMAT + 1)
    worker.work()
    left = Run.objects.get(pk=run.pk)
    assert (left.status, left.needs, left.lease_owner) == ("queued", FORMAT + 1, "")
    assert claims.claim_next("default") is None and stub.requests == []
    AgentVersion.objects.update(format=FORMAT)
    Run.objects.update(needs=FORMAT)
    stub.script(says("hello"))
    worker.ring("default")
    worker.work()
    assert Run.objects.get(pk=run.pk).status == "succeeded"
