"""Whoever changes one field of a row takes nothing back that others stored in its other fields meanwhile."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.apps import apps
from django.db import connections, transaction
from django.http import Http404

from agents.models import Agent, Chain, Prompt, Provider, Team
from functions.models import StoredFunction
from knowledge.models import Collection
from plumbing.stored_rows import StoredRow
from runs.models import Message, Session

# Rows that are only inserted, or whose columns are written one by one by a single worker under a lease.
WRITTEN_BY_NAME = {
    "AccountItem", "AgentVersion", "Artifact", "Attachment", "AuditEvent", "BrowserSession", "ChainVersion", "Chunk",
    "ChunkVector", "DeliveredItem", "DeviceCall", "Duty", "Evaluation", "EventPayload", "Execution", "FunctionVersion",
    "Hold", "IdempotentRequest", "MemoryWrite", "Message", "ModelCall", "Notice", "RecordChange", "RouteDecision", "Run",
    "RunEvent", "RunValue", "ScheduleOccurrence", "SiteHold", "Starter", "StepRun", "Tally", "ToolCallRecord",
    "TriggerFiring", "Worker",
}  # fmt: skip
OURS = ("agents", "functions", "connectors", "devices", "knowledge", "runs")


def test_every_row_that_people_change_writes_only_what_changed():
    ours = [model for app in OURS for model in apps.get_app_config(app).get_models()]
    whole = {model.__name__ for model in ours if not issubclass(model, StoredRow)}

    assert whole - WRITTEN_BY_NAME - {"SkillVersion"} == set()


def make_rows(alice):
    """One row of each kind, and two of its fields with other values."""
    provider = Provider.objects.create(name="one", kind="offline", owner=alice)
    agent = Agent.objects.create(name="one", owner=alice, provider=provider)
    return [
        (provider, "default_model", "m", "enabled", False),
        (agent, "description", "d", "system_prompt", "p"),
        (
            StoredFunction.objects.create(name="one", owner=alice, source="def one(): pass"),
            "description",
            "d",
            "timeout",
            5,
        ),
        (Chain.objects.create(name="one", owner=alice), "description", "d", "enabled", False),
        (Prompt.objects.create(name="one", owner=alice), "description", "d", "text", "t"),
        (Team.objects.create(name="one"), "name", "two", "max_running", 3),
        (Collection.objects.create(name="one", owner=alice), "description", "d", "version", 7),
        (Session.objects.create(owner=alice), "title", "t", "last_seq", 9),
        (Session.objects.create(owner=alice), "metadata", {"a": 1}, "has_untrusted", True),
    ]


@pytest.mark.django_db
def test_two_who_read_a_row_and_change_different_fields_both_succeed(alice):
    for row, first, one, second, two in make_rows(alice):
        mine, yours = type(row).objects.get(pk=row.pk), type(row).objects.get(pk=row.pk)
        setattr(mine, first, one)
        mine.save()
        setattr(yours, second, two)
        yours.save()
        row.refresh_from_db()

        assert (getattr(row, first), getattr(row, second)) == (one, two), type(row).__name__


@pytest.mark.django_db
def test_what_is_changed_inside_a_json_field_is_written(alice):
    session = Session.objects.get(pk=Session.objects.create(owner=alice, metadata={"a": [1]}).pk)
    session.metadata["a"].append(2)
    session.save()

    assert Session.objects.get(pk=session.pk).metadata == {"a": [1, 2]}


@pytest.mark.django_db
def test_a_row_that_was_deleted_meanwhile_does_not_come_back(alice):
    session = Session.objects.get(pk=Session.objects.create(owner=alice).pk)
    Session.objects.filter(pk=session.pk).delete()
    session.title = "New"

    with pytest.raises(Http404), transaction.atomic():
        session.save()
    assert not Session.objects.filter(pk=session.pk).exists()


@pytest.mark.django_db
def test_nothing_is_written_if_nothing_changed(alice, django_assert_num_queries):
    session = Session.objects.get(pk=Session.objects.create(owner=alice).pk)
    with django_assert_num_queries(0):
        session.save()


@pytest.mark.django_db
def test_a_conversation_whose_counter_was_set_back_takes_messages_again(worker, alice, make_agent):
    agent = make_agent()
    first = worker.send_message(alice, "hello", agent)
    Session.objects.filter(pk=first.session_id).update(last_seq=0)

    again = worker.send_message(alice, "again", agent, session=str(first.session_id))

    assert again.status == "succeeded", again.error
    numbers = list(Message.objects.filter(session=first.session_id).values_list("seq", flat=True))
    assert numbers == [1, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_changes_and_publications_at_once_are_all_kept(alice_api, make_agent):
    """Through the API, on several threads: what was answered with success is there afterwards."""
    api = alice_api
    make_agent("raced")

    def change(fields):
        return api.patch("/api/v1/agents/raced", fields, content_type="application/json")

    def at_once(*requests):
        barrier = Barrier(len(requests))

        def send(request):
            try:
                barrier.wait(60)
                return request()
            finally:
                connections.close_all()

        with ThreadPoolExecutor(len(requests)) as threads:
            return list(threads.map(send, requests))

    for number in range(12):
        change({"system_prompt": f"p{number}"})
        changed, published = at_once(
            lambda number=number: change({"description": f"d{number}"}),
            lambda: api.post("/api/v1/agents/raced/publish", {}),
        )
        assert changed.status_code == 200 and published.status_code == 200
        now = api.get("/api/v1/agents/raced").json()
        assert now["description"] == f"d{number}"
        assert now["published_version"] == published.json()["version"]
        at_once(
            lambda number=number: change({"description": f"x{number}"}),
            lambda number=number: change({"system_prompt": f"y{number}"}),
        )
        now = api.get("/api/v1/agents/raced").json()
        assert (now["description"], now["system_prompt"]) == (f"x{number}", f"y{number}")
