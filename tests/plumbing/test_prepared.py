"""Statements compiled once give what the QuerySet they were made of gives."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection, models
from django.utils import timezone

from agents.exceptions import NotFound
from agents.models import Agent, Provider, Team
from agents.models.team import Membership
from plumbing.prepared import Select, Update
from runs.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def provider():
    return Provider.objects.create(name="local", kind="offline", prices={"m": {"input": "0.5"}})


def test_models_come_with_what_is_joined(alice, provider, django_assert_num_queries):
    agent = Agent.objects.create(owner=alice, name="one", provider=provider, capabilities=["add", "mul"])
    statement = Select(
        lambda at: Agent.objects.select_related("provider", "published").filter(pk=at.id), id=models.IntegerField()
    )
    for _ in range(2):
        with django_assert_num_queries(1):
            found = statement.first(id=agent.pk)
            assert found == agent and found.capabilities == ["add", "mul"] and found.created_at == agent.created_at
            assert found.provider.prices == {"m": {"input": "0.5"}} and found.published is None


def test_another_value_gives_another_row(alice, provider):
    statement = Select(lambda at: Agent.objects.filter(name=at.name).values_list("name", "pk"), name=models.CharField())
    rows = {name: Agent.objects.create(owner=alice, name=name, provider=provider).pk for name in ("one", "two")}
    assert [statement.all(name=name) for name in rows] == [[(name, pk)] for name, pk in rows.items()]
    assert statement.first(name="three") is None


def test_an_update_says_how_many_rows_it_changed(alice):
    run = Run.objects.create(principal=alice)
    later = timezone.now() + timedelta(hours=1)
    statement = Update(
        lambda at: (Run.objects.filter(pk=at.run), {"deadline": at.until, "turns": models.F("turns") + at.more}),
        run=models.UUIDField(), until=models.DateTimeField(), more=models.IntegerField(),
    )  # fmt: skip
    assert [statement.run(run=run.pk, until=later, more=2) for _ in range(2)] == [1, 1]
    run.refresh_from_db()
    assert (run.deadline, run.turns) == (later, 4)
    assert statement.run(run=Run().pk, until=later, more=1) == 0


@pytest.mark.django_db(transaction=True)
def test_threads_share_a_statement_and_not_a_connection(alice):
    statement = Select(lambda at: Team.objects.filter(name=at.name), name=models.CharField())
    Team.objects.create(name="sales")

    def look(_):
        try:
            return statement.first(name="sales").name
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(look, range(20))) == {"sales"}


def test_a_name_means_the_nearest_row_that_this_person_sees(alice, bob, charlie, provider):
    team = Team.objects.create(name="makers")
    Membership.objects.bulk_create([Membership(team=team, user=alice), Membership(team=team, user=bob)])
    site = Agent.objects.create(name="one", provider=provider)
    shared = Agent.objects.create(owner=alice, team=team, name="one", provider=provider)
    assert [Agent.objects.named(who, "one") for who in (alice, bob, charlie)] == [shared, shared, site]
    own = Agent.objects.create(owner=bob, name="one", provider=provider)
    assert Agent.objects.named(bob, "one") == own
    with pytest.raises(NotFound):
        Agent.objects.exclude(owner=None).named(charlie, "one")
    with pytest.raises(NotFound):
        Agent.objects.named(AnonymousUser(), "one")
    with pytest.raises(NotFound):
        Agent.objects.named(alice, "one\0")
