"""A chain's usage is that of the runs below it, however deeply nested, and while they are running."""

from decimal import Decimal

import pytest

from agents.models import Tool, ToolGrant
from agents.tools import ToolFailed
from runs.intake import messages as intake
from runs.models import Run, RunEvent
from runs.models.figures import totals
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
PRICES = {"stub": {"input": "1000000", "output": "1000000"}}  # a dollar a token


@pytest.fixture
def priced(stub_provider):
    stub_provider.prices = PRICES
    stub_provider.save()
    return stub_provider


@pytest.fixture
def helper(make_agent, priced):
    return make_agent("helper", provider=priced)


def ask(key="ask", agent="helper", **more):
    return {"key": key, "agent": agent, "input": {"message": {"value": "Hello"}}, **more}


def spent(run):
    return totals.total_usage(Run.objects.get(pk=run.pk))


def sums_of(*runs):
    return (
        sum(one.input_tokens for one in runs),
        sum(one.output_tokens for one in runs),
        sum(one.cost for one in runs),
    )


def as_tuple(usage):
    return usage.input_tokens, usage.output_tokens, usage.cost


def test_a_chain_s_usage_is_the_sum_of_its_children_and_of_theirs(
    worker, alice, helper, make_agent, priced, make_chain, run_chain, stub, alice_api
):
    boss = make_agent("boss", tools=[Tool.objects.get(name="helper")], provider=priced)
    make_chain(ask(agent=boss.name), name="inner")
    outer = make_chain(ask("one"), {"key": "two", "chain": "inner", "needs": ["one"]}, name="outer")
    stub.script(says("one"), calls(("helper", {"task": "count"})), says("two"), says("three"))
    run = run_chain(outer)
    assert run.status == "succeeded", run.error
    agents = list(Run.objects.filter(agent__isnull=False))
    assert len(agents) == 3 and all(one.input_tokens and one.cost for one in agents)
    assert (run.input_tokens, run.cost) == (0, 0)  # so that budgets and tables count each call once
    assert as_tuple(spent(run)) == sums_of(*agents)
    inner = Run.objects.get(chain_version__chain__name="inner")
    below = [one for one in agents if one.parent_id != run.pk]
    assert len(below) == 2 and as_tuple(spent(inner)) == sums_of(*below)
    total = spent(run).as_json()
    assert alice_api.get(f"{V1}/runs/{run.pk}").json()["usage"] == total and Decimal(total["cost"]) > 0
    assert RunEvent.objects.get(run=run, type="run.finished").data["usage"] == total


def test_a_list_of_chains_reads_their_usage_at_once(
    helper, make_chain, run_chain, stub, alice_api, charlie_api, django_assert_max_num_queries
):
    chain = make_chain(ask())
    for _ in range(4):
        stub.script(says("ok"))
        run_chain(chain)
    with django_assert_max_num_queries(7):
        listed = alice_api.get(f"{V1}/chains/digest/runs/").json()["results"]
    assert len(listed) == 4 and all(one["usage"]["input_tokens"] for one in listed)
    assert charlie_api.get(f"{V1}/runs/{listed[0]['id']}").status_code == 404


def test_the_usage_grows_while_the_chain_runs(worker, alice, helper, make_chain, stub, alice_api):
    stub.script(says("one"), says("two"))
    with worker.capture(execute=True):
        chain = make_chain(ask("one"), ask("two"), strategy="sequential")
        run = intake.start_chain(user=alice, chain=chain)
    worker.work(limit=3)  # the chain, its first agent, the chain again
    run.refresh_from_db()
    assert run.status == "waiting"
    first = alice_api.get(f"{V1}/runs/{run.pk}").json()["usage"]["input_tokens"]
    worker.work()
    whole = alice_api.get(f"{V1}/runs/{run.pk}").json()["usage"]["input_tokens"]
    assert 0 < first < whole


def test_the_table_of_usage_counts_each_call_once(helper, make_chain, run_chain, stub, alice_api):
    stub.script(says("ok"))
    run = run_chain(make_chain(ask()))
    rows = alice_api.get(f"{V1}/usage/?by=user").json()["results"]
    assert rows[0]["input_tokens"] == spent(run).input_tokens


def test_the_page_shows_the_chain_s_cost(helper, make_chain, run_chain, stub, signed_in, alice):
    stub.script(says("ok"))
    run = run_chain(make_chain(ask()))
    shown = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert f"{spent(run).input_tokens} <small>" in shown


def test_the_step_that_failed_reaches_the_client(make_chain, run_chain, functions, alice_api, bob_api):
    functions.answers.append(ToolFailed("the disk is full", code="disk_full"))
    run = run_chain(make_chain({"key": "save", "tool": "save"}))
    error = alice_api.get(f"{V1}/runs/{run.pk}").json()["error"]
    assert (error["code"], error["step"]) == ("disk_full", "save")
    assert bob_api.get(f"{V1}/runs/{run.pk}").status_code == 404


def test_an_agent_s_own_usage_costs_no_query(worker, alice, helper, stub, django_assert_num_queries):
    stub.script(says("ok"))
    run = worker.send_message(alice, "Hello", helper)
    with django_assert_num_queries(0):
        assert as_tuple(totals.total_usage(run)) == sums_of(run)


def test_a_chain_step_that_calls_an_agent_as_a_tool_counts_too(worker, alice, helper, make_chain, run_chain, stub):
    chain = make_chain({"key": "x", "tool": "helper", "input": {"task": {"value": "go"}}})
    assert ToolGrant.objects.filter(chain=chain).count() == 1
    stub.script(says("ok"))
    run = run_chain(chain)
    assert run.status == "succeeded", run.error
    assert spent(run).input_tokens == run.children.get().input_tokens > 0
