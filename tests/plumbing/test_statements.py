"""Prepared statements read and write what the ORM would have read and written."""

import inspect
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import django
import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import IntegrityError, connection, models, transaction
from django.db.models import query
from django.db.models.sql import UpdateQuery
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone
from uuid_utils.compat import uuid7

from agents.exceptions import NotFound
from agents.models import Agent, Provider, Team
from agents.models.team import Membership
from plumbing import json_values
from plumbing.json_values import JsonText
from plumbing.statements import Select, Update, insert_each, insert_plain, insert_rows, update_each, write_row
from plumbing.statements import rows as statement_rows
from plumbing.statements.rows import REMEMBERED
from runs.events.record import EventColumns
from runs.models import Run, RunEvent, RunValue, Session

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
    assert [Agent.objects.named(who, "one") for who in (alice, bob, charlie)] == [shared, site, site]
    assert Agent.objects.exclude(owner=None).named(bob, "one") == shared
    own = Agent.objects.create(owner=bob, name="one", provider=provider)
    assert Agent.objects.named(bob, "one") == own
    with pytest.raises(NotFound):
        Agent.objects.exclude(owner=None).named(charlie, "one")
    with pytest.raises(NotFound):
        Agent.objects.named(AnonymousUser(), "one")
    with pytest.raises(NotFound):
        Agent.objects.named(alice, "one\0")


def test_the_private_parts_of_django_are_as_they_were_checked():
    """Checked with Django 5.2. After an upgrade, read plumbing/statements/ beside Django's source, then change this."""
    assert django.VERSION[:2] == (5, 2), "check plumbing/statements/ against this version of Django"
    compiler = Run.objects.select_related("session").query.get_compiler("default")
    compiler.as_sql()
    assert {"select_fields", "related_klass_infos", "model"} <= set(compiler.klass_info)
    assert hasattr(compiler, "annotation_col_map") and hasattr(compiler, "col_count")
    assert list(inspect.signature(SQLCompiler.get_converters).parameters) == ["self", "expressions"]
    assert list(inspect.signature(query.get_related_populators).parameters) == ["klass_info", "select", "db"]
    assert list(inspect.signature(UpdateQuery.add_update_values).parameters) == ["self", "values"]
    assert Run.objects.all()._fields is None and Run.objects.values_list("pk")._fields == ("pk",)
    assert Run()._state.adding is True and Run()._state.db is None
    if connection.vendor == "postgresql":
        from django.db.backends.postgresql.base import ServerBindingCursor

        assert hasattr(connection, "_prepare_cursor") and hasattr(ServerBindingCursor, "execute")


# -- rows --------------------------------------------------------------------------------------------------------------


def test_what_is_inserted_is_what_save_would_have_written(alice, provider):
    rows = [Agent(owner=alice, name=name, provider=provider, capabilities=["a"]) for name in ("one", "two")]
    insert_rows(*rows)
    saved = Agent.objects.create(owner=alice, name="three", provider=provider, capabilities=["a"])
    for row in rows:
        found = Agent.objects.get(pk=row.pk)
        assert not row._state.adding and found.created_at == row.created_at
        left = {field.attname for field in Agent._meta.concrete_fields} - {"id", "name", "created_at", "updated_at"}
        assert {name: getattr(found, name) for name in left} == {name: getattr(saved, name) for name in left}
    insert_rows()  # nothing to insert is no mistake


def test_a_row_that_is_there_already_is_refused(alice, provider):
    insert_rows(Agent(owner=alice, name="one", provider=provider))
    with pytest.raises(IntegrityError), transaction.atomic():
        insert_rows(Agent(owner=alice, name="one", provider=provider))


def test_only_the_named_columns_are_written(alice, provider):
    agent = Agent.objects.create(owner=alice, name="one", provider=provider)
    agent.capabilities, agent.description = ["mul"], "not written"
    write_row(agent, ("capabilities", "updated_at"))
    found = Agent.objects.get(pk=agent.pk)
    assert (found.capabilities, found.description) == (["mul"], "") and found.updated_at > found.created_at


def test_more_rows_than_a_statement_takes_are_written_in_turns(alice, provider, monkeypatch, django_assert_num_queries):
    width = len(statement_rows.make_insert(Agent, "any").columns)
    monkeypatch.setattr(statement_rows, "PARAMETERS", 3 * width)
    agents = [Agent(owner=alice, name=f"a{number}", provider=provider) for number in range(7)]
    with django_assert_num_queries(3):
        insert_rows(*agents)
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


def test_a_row_with_many_columns_is_bound_to_no_more_values_than_psycopg_remembers_a_statement_of(alice):
    bound = []

    def note(execute, sql, params, many, context):
        bound.append(len(params))
        return execute(sql, params, many, context)

    run = Run(principal=alice, input={"a": None})
    with connection.execute_wrapper(note):
        insert_rows(run)
    assert len(Run._meta.concrete_fields) > REMEMBERED >= bound[0]
    stored = Run.objects.get(pk=run.pk)
    assert [getattr(stored, field.attname) for field in Run._meta.concrete_fields] == [
        getattr(run, field.attname) for field in Run._meta.concrete_fields
    ]


def test_data_that_is_json_already_is_stored_as_it_is(alice):
    run = Run.objects.create(principal=alice)
    data = {"text": "Größe “5”", "numbers": [1, 2.5, 2**70, None, True], "nested": {"a": {}}}
    text = JsonText(json_values.dump_json(data).decode())
    rows = [EventColumns(uuid7(), run.pk, number, "tool.log", timezone.now(), text) for number in (1, 2)]
    insert_plain(RunEvent, rows)
    stored = list(RunEvent.objects.filter(run=run).order_by("seq"))
    assert [(one.pk, one.seq, one.at, one.data) for one in stored] == [(row.id, row.seq, row.at, data) for row in rows]
