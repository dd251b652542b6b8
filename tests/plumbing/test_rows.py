"""Rows written by statements of our own are as `save()` would have left them."""

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.models import Agent, Provider
from plumbing import rows
from plumbing.rows import insert, insert_each, update_each, write
from runs.models import Run, RunValue, Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def provider():
    return Provider.objects.create(name="local", kind="offline")


def test_what_is_inserted_is_what_save_would_have_written(alice, provider):
    rows = [Agent(owner=alice, name=name, provider=provider, capabilities=["a"]) for name in ("one", "two")]
    insert(*rows)
    saved = Agent.objects.create(owner=alice, name="three", provider=provider, capabilities=["a"])
    for row in rows:
        found = Agent.objects.get(pk=row.pk)
        assert not row._state.adding and found.created_at == row.created_at
        left = {field.attname for field in Agent._meta.concrete_fields} - {"id", "name", "created_at", "updated_at"}
        assert {name: getattr(found, name) for name in left} == {name: getattr(saved, name) for name in left}
    insert()  # nothing to insert is no mistake


def test_a_row_that_is_there_already_is_refused(alice, provider):
    insert(Agent(owner=alice, name="one", provider=provider))
    with pytest.raises(IntegrityError), transaction.atomic():
        insert(Agent(owner=alice, name="one", provider=provider))


def test_only_the_named_columns_are_written(alice, provider):
    agent = Agent.objects.create(owner=alice, name="one", provider=provider)
    agent.capabilities, agent.description = ["mul"], "not written"
    write(agent, ("capabilities", "updated_at"))
    found = Agent.objects.get(pk=agent.pk)
    assert (found.capabilities, found.description) == (["mul"], "") and found.updated_at > found.created_at


def test_more_rows_than_a_statement_takes_are_written_in_turns(alice, provider, monkeypatch, django_assert_num_queries):
    width = len(rows.insert_of(Agent, "any").fields)
    monkeypatch.setattr(rows, "PARAMETERS", 3 * width)
    agents = [Agent(owner=alice, name=f"a{number}", provider=provider) for number in range(7)]
    with django_assert_num_queries(3):
        insert(*agents)
    assert dict(Agent.objects.values_list("pk", "name")) == {agent.pk: agent.name for agent in agents}


def test_rows_with_keys_of_their_own_are_bound_one_by_one(alice, django_assert_num_queries):
    runs = [Run(principal=alice, metadata={"n": number}) for number in range(5)]
    with django_assert_num_queries(1):
        insert_each(runs)
    assert [Run.objects.get(pk=run.pk).metadata for run in runs] == [{"n": number} for number in range(5)]
    insert_each([])


def test_what_does_not_vary_is_taken_from_the_first(alice):
    runs = [Run(principal=alice, turns=number, metadata={"n": number}) for number in range(3)]
    insert_each(runs, varying=("id", "turns"))
    found = [Run.objects.get(pk=run.pk) for run in runs]
    assert [(run.turns, run.metadata) for run in found] == [(0, {"n": 0}), (1, {"n": 0}), (2, {"n": 0})]


def test_keys_that_the_database_makes_are_left_to_it(alice):
    run = Run.objects.create(principal=alice)
    insert_each([RunValue(run=run, key=key, value=1) for key in "ab"])
    assert set(RunValue.objects.values_list("key", "value")) == {("a", 1), ("b", 1)}


def test_rows_are_changed_only_where_they_are_as_expected(alice):
    kept, gone = (Run.objects.create(principal=alice, attempt=attempt) for attempt in (1, 2))
    for run in (kept, gone):
        run.status, run.deadline, run.metadata = Run.Status.RUNNING, timezone.now(), {"not": "written"}
    assert update_each([kept, gone], ("status", "deadline"), where={"attempt": 1}) == 1
    assert update_each([gone], ("status",), where={"attempt": 1}) == 0
    found = {run.pk: run for run in Run.objects.all()}
    assert (found[kept.pk].status, found[kept.pk].deadline) == (Run.Status.RUNNING, kept.deadline)
    assert found[kept.pk].metadata == {} and found[gone.pk].status == Run.Status.QUEUED
    assert update_each([], ("status",)) == 0


def test_the_time_of_change_is_kept_up(alice):
    session = Session.objects.create(owner=alice)
    before = session.updated_at
    session.title = "renamed"
    update_each([session], ("title", "updated_at"))
    found = Session.objects.get(pk=session.pk)
    assert found.title == "renamed" and found.updated_at > before
