"""Choosing a run beside a backlog whose agent, provider or team is at its limit."""

import threading

import pytest
from django.db import connection
from uuid_utils.compat import uuid7

from agents.models import Agent, Chain, Provider, Team
from plumbing import statements
from plumbing.clock import near
from runs.models import Run
from runs.queue import claims
from tests.reading import amount_read

pytestmark = pytest.mark.django_db
FEW, MANY = 200, 20_000


@pytest.fixture
def capped(make_agent, stub_provider, team):
    agent = make_agent("capped", provider=stub_provider)
    Agent.objects.filter(pk=agent.pk).update(team=team)
    agent.refresh_from_db()
    return agent


@pytest.fixture
def free(make_agent, alice):
    return make_agent("free", provider=Provider.objects.create(name="other", kind="offline", owner=alice))


def fill(agent, person, places):
    rows = [Run(id=uuid7(), principal=person, agent=agent, place=place) for place in places]
    statements.insert_each(rows, varying=("id", "place"))


def work_on(agent, person, number):
    lease = {"status": "running", "lease_owner": "another", "lease_expires_at": near().replace(year=2100)}
    Run.objects.bulk_create(Run(principal=person, agent=agent, **lease) for _ in range(number))


def read_beside(backlog, alice, capped, free):
    """What is read to claim the only run that is not held back, and to find that none is left."""
    fill(capped, alice, range(Run.objects.filter(agent=capped).count(), backlog))
    last = Run.objects.create(principal=alice, agent=free, place=MANY)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    first, run = amount_read(lambda: claims.claim_next("default"))
    assert run is not None and run.pk == last.pk
    Run.objects.filter(pk=last.pk).delete()
    then, nothing = amount_read(lambda: claims.claim_next("default"))
    assert nothing is None
    return first, then


@pytest.mark.parametrize("whose", ["agent", "provider", "team"])
def test_a_backlog_at_its_limit_is_not_read_by_each_claim(whose, alice, capped, free, team):
    work_on(capped, alice, 2)
    others = {"owner": alice, "provider": free.provider, "model_name": "x"}
    Agent.objects.bulk_create(Agent(name=f"other-{number}", **others) for number in range(300))
    row = {"agent": capped, "provider": capped.provider, "team": team}[whose]
    type(row).objects.filter(pk=row.pk).update(max_running=2)
    read_beside(FEW, alice, capped, free)  # what is compiled or planned at first use
    small, large = (read_beside(size, alice, capped, free) for size in (FEW, MANY))
    for few, many in zip(small, large, strict=True):
        assert many < few * 1.2 + 20, (small, large)


def queue(person, place, **fields):
    return Run.objects.create(principal=person, place=place, **fields)


def test_all_others_go_past_it_in_their_order(alice, capped, free, make_agent, make_chain, team):
    """Of agents, of chains and without an agent yet; a chain of the full team waits too."""
    Team.objects.filter(pk=team.pk).update(max_running=1)
    held = [queue(alice, place, agent=capped) for place in range(3)]
    third = make_agent("third", provider=free.provider)
    chain, of_team = (make_chain({"key": "a", "tool": "add"}, name=name) for name in ("ours", "theirs"))
    Chain.objects.filter(pk=of_team.pk).update(team=team)
    held.append(queue(alice, 3, chain_version=of_team.published))
    owners = [{"agent": free}, {"agent": third}, {"chain_version": chain.published}, {}]
    order = [{"priority": number // 10, "place": 4 + number} for number in range(24)]
    runs = [queue(alice, **each, **owners[number * 7 % 4]) for number, each in reversed([*enumerate(order)])]
    found = [claims.claim_next("default") for _ in range(26)]
    assert [run and run.pk for run in found] == [held[0].pk, *(run.pk for run in reversed(runs)), None]
    Run.objects.filter(pk=held[0].pk).update(lease_expires_at=None)
    assert [run and run.pk for run in (claims.claim_next("default"), claims.claim_next("default"))] == [
        held[1].pk,
        None,
    ]


def test_priorities_below_the_floor_are_taken_beside_it(alice, capped, free):
    Agent.objects.filter(pk=capped.pk).update(max_running=0)
    for priority in (0, 3):
        queue(alice, 0, agent=capped, priority=priority)
    runs = [queue(alice, 1, agent=free, priority=priority) for priority in (0, 3)]
    assert claims.claim_next("default", floor=3).pk == runs[1].pk
    assert claims.claim_next("default", floor=3).pk == runs[0].pk
    assert claims.claim_next("default", floor=3) is None


@pytest.mark.django_db(transaction=True)
def test_the_second_row_of_an_agent_comes_before_a_batch_of_another(alice, capped, free, make_agent):
    """While another worker takes the first one."""
    if connection.vendor == "sqlite":
        pytest.skip("writers take turns")
    Agent.objects.filter(pk=capped.pk).update(max_running=1)
    work_on(capped, alice, 1)
    queue(alice, 0, agent=capped)
    first, second = (queue(alice, place, agent=free) for place in (1, 2))
    queue(alice, 0, agent=make_agent("third", provider=free.provider), priority=3)
    import psycopg  # not installed where only SQLite is used

    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SELECT id FROM runs_run WHERE id = %s FOR UPDATE", [first.pk])
        assert claims.claim_next("default").pk == second.pk
    assert claims.claim_next("default").pk == first.pk


@pytest.mark.django_db(transaction=True)
def test_workers_that_claim_at_the_same_moment_keep_the_limit(alice, capped, free):
    Agent.objects.filter(pk=capped.pk).update(max_running=2)
    rows = [queue(alice, place, agent=capped if place % 2 else free) for place in range(24)]
    taken = []

    def take():
        try:
            for _ in range(6):
                taken.append(claims.claim_next("default"))
        finally:
            connection.close()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    agents = [run.agent_id for run in taken if run is not None]
    assert (agents.count(capped.pk), agents.count(free.pk), len(rows)) == (2, 12, 24)
