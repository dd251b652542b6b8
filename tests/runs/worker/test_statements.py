"""What one message costs the database, and that what is asked less often is still asked in time."""

from contextlib import contextmanager

import pytest
from django.db import DataError, connection, transaction

from agents.models import Agent, Tool
from agents.tools import ToolResult
from functions.models import Execution, FunctionVersion, StoredFunction
from functions.tools import FunctionToolset
from registry import toolsets
from runs.intake import messages as intake
from runs.models import Budget, Run, Webhook, WebhookDelivery
from tests.fakes import calls, says
from tests.functions.library import publish

ASYNC = {"Prefer": "respond-async"}


class Cost:
    """Statements but for BEGIN, and transactions that wrote something: each is a commit."""

    def __init__(self):
        self.statements = []
        self.transactions = 0
        self.is_open = False

    def __call__(self, execute, sql, params, many, context):
        if not sql.startswith("BEGIN"):
            self.statements.append(sql)
            self.note(is_write=not sql.startswith("SELECT"))
        return execute(sql, params, many, context)

    def note(self, *, is_write):
        """The first write of a transaction counts; the hooks of its commit say when it is over."""
        if not is_write or self.is_open:
            return
        self.transactions += 1
        if connection.in_atomic_block:
            self.is_open = True
            transaction.on_commit(self.close)

    def close(self):
        self.is_open = False


@contextmanager
def cost():
    made = Cost()
    with connection.execute_wrapper(made):
        yield made


@pytest.fixture
def adder(alice, make_agent, stub_provider):
    publish(alice)
    return make_agent("adder", tools=[Tool.objects.get(name="add")], provider=stub_provider)


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    return make_agent(tools=[make_tool()], provider=stub_provider)


@pytest.mark.django_db(transaction=True)
def test_a_message_with_one_call_costs_26_statements_and_5_transactions(alice_api, adder, stub, worker):
    for _ in range(2):  # what is kept between messages is kept after the first
        stub.script(calls(("add", {"a": 40, "b": 2})), says("It is 42"))
        with cost() as of_web:
            alice_api.post("/api/v1/agents/adder/messages", {"message": "40 + 2?"}, headers=ASYNC)
        with cost() as of_worker:
            worker.work()
    assert Run.objects.latest("id").status == "succeeded"
    assert (len(of_web.statements), of_web.transactions) == (7, 1), of_web.statements
    assert (len(of_worker.statements), of_worker.transactions) == (19, 4), of_worker.statements


@pytest.mark.django_db(transaction=True)
def test_a_message_to_an_agent_without_tools_costs_the_worker_9_statements(
    alice, make_agent, stub_provider, stub, worker
):
    agent = make_agent(provider=stub_provider)
    for _ in range(2):
        stub.script(says("hello"))
        intake.accept_message(user=alice, text="hi", agent=agent)
        with cost() as of_worker:
            worker.work()
    assert Run.objects.latest("id").status == "succeeded"
    assert (len(of_worker.statements), of_worker.transactions) == (9, 2), of_worker.statements


@pytest.mark.django_db
@pytest.mark.parametrize("whose", ["everyone", "user", "team", "agent"])
def test_whoever_the_budget_is_for_the_first_turn_asks_it(whose, worker, alice, team, agent, stub):
    Agent.objects.filter(pk=agent.pk).update(team=team)
    agent.refresh_from_db()
    covered = {"user": alice, "team": team, "agent": agent}
    Budget.objects.create(period="day", max_tokens=1, **{whose: covered[whose]} if whose in covered else {})
    Run.objects.create(principal=alice, agent=agent, status="succeeded", input_tokens=5)
    run = worker.send_message(alice, "hi", agent)
    assert (run.status, run.error["code"]) == ("failed", "budget_exhausted")
    assert stub.requests == []


@pytest.mark.django_db
def test_a_budget_of_others_asks_nothing_of_this_run(worker, alice, charlie, make_agent, agent, stub):
    for other in ({"user": charlie}, {"agent": make_agent("other")}):
        Budget.objects.create(period="day", max_tokens=0, **other)
    stub.script(says("hello"))
    assert worker.send_message(alice, "hi", agent).status == "succeeded"


@pytest.mark.django_db
def test_the_budget_of_an_agent_that_the_router_chose_is_asked(worker, alice, make_agent):
    cook = make_agent("cook", capabilities=["recipes"])
    Budget.objects.create(agent=cook, period="day", max_tokens=0)
    run = worker.send_message(alice, "Two recipes, please", None)
    assert run.agent == cook
    assert (run.status, run.error["code"]) == ("failed", "budget_exhausted")


@pytest.mark.django_db
def test_a_message_that_comes_behind_a_run_at_work_follows_it(worker, alice, agent, stub, functions):
    """Its claim saw nobody behind it; the session's number at the end says that somebody came."""
    came = []

    def send_another(call, context):
        session = Run.objects.get(pk=context.run_id).session
        came.append(intake.accept_message(user=alice, text="two", session=session, on_busy="enqueue").run)
        return ToolResult(ok=True, value=3)

    functions.answers.append(send_another)
    stub.script(calls(("add", {"a": 1, "b": 2})), says("first"), says("second"))
    first = worker.send_message(alice, "one", agent)
    second = Run.objects.get(pk=came[0].pk)
    assert (first.status, second.status) == ("succeeded", "succeeded")
    assert [message.text for message in first.session.messages.order_by("seq")] == ["one", "two", "first", "second"]


@pytest.mark.django_db
def test_a_message_that_came_before_the_claim_follows_too(worker, alice, agent, stub):
    stub.script(says("first"), says("second"))
    with worker.capture(execute=True):
        first = intake.accept_message(user=alice, text="one", agent=agent)
        second = intake.accept_message(user=alice, text="two", session=first.session, on_busy="enqueue").run
    worker.work()
    assert set(Run.objects.values_list("pk", "status")) == {(first.run.pk, "succeeded"), (second.pk, "succeeded")}


@pytest.mark.django_db
def test_a_webhook_made_while_a_run_works_hears_of_its_end(worker, alice, agent, stub, functions):
    def listen(call, context):
        Webhook.objects.create(owner=alice, url="https://hooks.example/")
        return ToolResult(ok=True, value=3)

    functions.answers.append(listen)
    stub.script(calls(("add", {"a": 1, "b": 2})), says("done"))
    run = worker.send_message(alice, "hi", agent)
    [delivery] = WebhookDelivery.objects.all()
    assert (delivery.type, delivery.body["run"]) == ("run.finished", str(run.pk))


class Deleting(FunctionToolset):
    """Somebody deletes the function while it runs."""

    def call(self, tool, call, context):
        result = super().call(tool, call, context)
        StoredFunction.objects.update(published=None)
        FunctionVersion.objects.all().delete()
        StoredFunction.objects.all().delete()
        return result


@pytest.mark.django_db(transaction=True)
def test_a_call_keeps_its_result_though_its_function_was_deleted_meanwhile(worker, alice, adder, stub, monkeypatch):
    monkeypatch.setitem(toolsets.TOOLSETS, "function", Deleting())
    stub.script(calls(("add", {"a": 40, "b": 2})), says("It is 42"))
    run = worker.send_message(alice, "40 + 2?", adder)
    assert (run.status, run.tool_calls.get().result) == ("succeeded", 42)
    kept = Execution.objects.get()
    assert (str(kept.call), kept.function_id, kept.function_name) == (str(run.tool_calls.get().pk), None, "add")
    assert [event.seq for event in run.events.all()] == list(range(1, 8))


@pytest.mark.django_db
def test_a_record_of_the_toolset_that_no_row_can_hold_does_not_cost_the_call_its_result(
    worker, alice, agent, stub, functions, caplog
):
    def keep():
        raise DataError("unsupported Unicode escape sequence")

    functions.answers.append(ToolResult(ok=True, value=3, counts={"created": 2}, untrusted=True, keep=keep))
    stub.script(calls(("add", {"a": 1, "b": 2})), says("done"))
    run = worker.send_message(alice, "hi", agent)
    assert (run.status, run.tool_calls.get().result) == ("succeeded", 3)
    assert (run.created, run.has_untrusted) == (2, True)
    assert "could not be stored" in caplog.text
