"""A service asks us to wait a minute: the run waits by a timer and without a worker, then goes on where it was."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Tool
from connectors.accounts import catalog
from connectors.models import Connection
from runs.intake import messages as intake
from runs.models import Run, StepRun
from runs.queue import endings
from runs.worker import recovery
from tests import travel
from tests.connectors.loopback import Fault, Loopback
from tests.fakes import calls, says

MINUTE = {"Retry-After": "60"}


@pytest.fixture
def gmail_tool(make_tool):
    """A tool of the Gmail connector, as the catalogue holds it."""

    def make(method):
        operation = catalog.get_connector_operation("gmail", method)
        return make_tool(
            f"gmail_{method}", kind="connector", input_schema=operation.input_schema, effect=operation.effect,
            source={"connector": "gmail", "method": method}, untrusted=True,
        )  # fmt: skip

    return make


@pytest.fixture
def account(alice, gmail, connect):
    return connect(alice, "gmail", token_expires_at=timezone.now() + timedelta(days=1))


@pytest.fixture
def clerk(make_agent, stub_provider, gmail_tool):
    return make_agent("clerk", provider=stub_provider, tools=[gmail_tool("fetch_new")], timeout=600)


def later(worker, seconds):
    """So much later the tick looks again, and what it wakes is worked on."""
    with travel.later(seconds):
        with worker.capture(execute=True):
            recovery.tick_recovery()
        worker.work(limit=500)


def test_a_run_waits_a_minute_without_a_worker_and_misses_nothing(alice, account, clerk, gmail, stub, worker):
    gmail.deliver("one")
    gmail.deliver("two")
    gmail.faults += [Fault("/messages", status=429, headers=MINUTE)]
    stub.script(calls(("gmail_fetch_new", {})), says("two messages"))
    run = worker.send_message(alice, "any mail?", clerk)
    assert (run.status, run.waiting_for) == ("waiting", "timer")
    assert 50 < (run.wake_at - timezone.now()).total_seconds() <= 60
    later(worker, 30)
    assert Run.objects.get().status == "waiting" and gmail.count("/messages") == 1  # too early: nobody is asked
    later(worker, 61)
    run.refresh_from_db()
    assert (run.status, run.processed) == ("succeeded", 2)
    call = run.tool_calls.get()
    assert call.attempt == 1 and [one["subject"] for one in call.result["messages"]] == ["one", "two"]


def test_woken_early_by_something_else_it_asks_nobody(alice, account, clerk, gmail, stub, worker):
    gmail.deliver("one")
    gmail.faults += [Fault("/messages", status=429, headers=MINUTE)]
    stub.script(calls(("gmail_fetch_new", {})), says("one"))
    run = worker.send_message(alice, "any mail?", clerk)
    with worker.capture(execute=True):
        endings.wake(run.pk)
    worker.work()
    run.refresh_from_db()
    assert (run.status, run.waiting_for, gmail.count("/messages")) == ("waiting", "timer", 1)


def test_a_run_that_ends_sooner_is_told_at_once(alice, account, clerk, gmail, stub, worker):
    clerk.timeout = 20
    clerk.save()
    clerk.publish(author=alice)
    gmail.faults += [Fault("/messages", status=429, headers=MINUTE)]
    stub.script(calls(("gmail_fetch_new", {})), says("later, then"))
    run = worker.send_message(alice, "any mail?", clerk)
    assert run.status == "succeeded"
    error = run.tool_calls.get().error
    assert error["code"] == "rate_limited" and error["details"] == {"retry_after_s": 60.0}


def test_what_was_read_before_is_handed_over_and_the_rest_comes_after_the_minute(
    alice, account, clerk, gmail, stub, worker
):
    wanted = [gmail.deliver(f"m{number}") for number in range(40)]
    gmail.faults += [Fault(f"/messages/{wanted[20]}", status=429, headers=MINUTE)]
    stub.script(calls(("gmail_fetch_new", {})), calls(("gmail_fetch_new", {})), says("all"))
    run = worker.send_message(alice, "any mail?", clerk)
    later(worker, 61)
    run.refresh_from_db()
    first, second = (call.result["messages"] for call in run.tool_calls.order_by("id"))
    assert run.status == "succeeded" and 0 < len(first) < 40
    assert sorted(one["id"] for one in first + second) == sorted(wanted)


def test_a_chain_s_step_waits_alike(alice, account, gmail, gmail_tool, make_chain, run_chain, worker):
    gmail_tool("fetch_new")
    gmail.deliver("one")
    gmail.faults += [Fault("/messages", status=429, headers=MINUTE)]
    chain = make_chain({"key": "fetch", "tool": "gmail_fetch_new", "input": {}}, timeout=600)
    run = run_chain(chain)
    assert (run.status, run.waiting_for) == ("waiting", "timer")
    later(worker, 61)
    run.refresh_from_db()
    assert run.status == "succeeded", run.error
    assert StepRun.objects.get(run=run).attempt == 1


def test_items_of_a_step_that_are_throttled_wait_while_the_others_go_on(
    alice, account, gmail, gmail_tool, make_chain, worker
):
    gmail_tool("read")
    ids = [gmail.deliver(f"m{number}") for number in range(6)]
    gmail.faults += [Fault(f"/messages/{ids[1]}", status=429, headers=MINUTE)]
    step = {"key": "read", "tool": "gmail_read", "for_each": "input.ids", "input": {"id": "item"}, "max_parallel": 2}
    chain = make_chain(step, timeout=600)
    with worker.capture(execute=True):
        run = intake.start_chain(user=alice, chain=chain, input={"ids": ids})
    worker.work(limit=500)
    run.refresh_from_db()
    waiting = StepRun.objects.filter(run=run, item__gte=0, status="waiting")
    assert [row.item for row in waiting] == [1] and run.status == "waiting"
    later(worker, 61)
    run.refresh_from_db()
    assert run.status == "succeeded", run.error
    assert [one["subject"] for one in run.output] == [f"m{number}" for number in range(6)]


class Till(Loopback):
    def __init__(self):
        super().__init__()
        self.routes.append(("POST", re.compile("/charges"), lambda asked: {"charged": asked.json["order"]}))

    def document(self):
        order = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
        body = {"required": True, "content": {"application/json": {"schema": order}}}
        return {
            "openapi": "3.1.0",
            "info": {"title": "Till", "version": "1"},
            "servers": [{"url": self.url}],
            "paths": {"/charges": {"post": {"operationId": "charge", "requestBody": body}}},
        }


def test_an_http_operation_that_is_throttled_is_made_once_and_later(
    alice, alice_api, make_agent, stub_provider, stub, worker
):
    with Till() as till:
        connection = Connection.objects.create(owner=alice, name="till", provider="openapi")
        imported = alice_api.post(f"/api/v1/connections/{connection.pk}/import", {"document": till.document()})
        assert imported.status_code == 200, imported.json()
        cashier = make_agent("cashier", provider=stub_provider, tools=[Tool.objects.get(kind="http")], timeout=600)
        till.faults += [Fault("/charges", status=429, headers=MINUTE)]
        stub.script(calls(("till_charge", {"body": {"order": "o1"}})), says("charged"))
        run = worker.send_message(alice, "charge o1", cashier)
        assert (run.status, run.waiting_for) == ("waiting", "timer")
        later(worker, 61)
        run.refresh_from_db()
        assert run.status == "succeeded" and till.count("/charges") == 2
        assert run.tool_calls.get().result["body"] == {"charged": "o1"}
