"""Agents with more tools than a model should be shown: a few, and a search for the others."""

import pytest

from agents.models import Agent, Membership, Tool, ToolGrant
from agents.tools import ToolResult
from runs.calls import offers
from runs.intake import messages as intake
from runs.models import Run, ToolCallRecord
from runs.queue import endings
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
NOTHING = {"type": "object"}


@pytest.fixture
def shown(settings):
    settings.TOOLS_SHOWN = 20


@pytest.fixture
def many(make_tool, shown):
    """Thirty tools; one of them about the weather."""
    tools = [
        make_tool(f"crm_record_{n}", description=f"Read record type {n}.", input_schema=NOTHING) for n in range(29)
    ]
    return [*tools, make_tool("weather_forecast", description="The weather of a city.", input_schema=NOTHING)]


@pytest.fixture
def agent(make_agent, many, stub_provider):
    return make_agent(tools=many, provider=stub_provider)


@pytest.fixture
def ask(worker, alice, functions):
    functions.answers.append(ToolResult(ok=True, value="rain"))
    return lambda agent, **more: worker.send_message(alice, "What is the weather?", agent, **more)


def tools_of(request):
    return [tool["function"]["name"] for tool in request.get("tools", [])]


def search_for(query="weather city", **more):
    return calls(("search_tools", {"query": query, **more}))


CORE = [f"crm_record_{n}" for n in range(10)]


def test_a_tool_is_found_shown_and_called(ask, agent, stub):
    stub.script(search_for(), calls(("weather_forecast", {})), says("Rain."))
    run = ask(agent)
    assert run.status == "succeeded"
    first, second, third = map(tools_of, stub.requests)
    assert first == [*CORE, "search_tools"] and second == third == [*first, "weather_forecast"]
    search, call = ToolCallRecord.objects.filter(run=run).order_by("id")
    assert search.result["tools"] == [{"name": "weather_forecast", "description": "The weather of a city."}]
    assert (call.outcome, call.result) == ("ok", "rain")


def test_what_is_shown_first_never_changes_its_order_or_its_text(ask, agent, stub):
    stub.script(search_for("record type 20"), search_for("weather"), search_for("record type 21"), says("Done."))
    ask(agent)
    for before, after in zip(stub.requests, stub.requests[1:], strict=False):
        assert after["tools"][: len(before["tools"])] == before["tools"]


def test_the_search_says_what_there_is_to_find(ask, agent, stub):
    stub.script(says("Hello."))
    ask(agent)
    description = stub.requests[0]["tools"][-1]["function"]["description"]
    assert "30 tools" in description and "crm (29)" in description and "weather (1)" in description


def test_few_tools_are_all_shown_without_a_search(ask, agent, stub, settings):
    settings.TOOLS_SHOWN = 30
    stub.script(says("Hello."))
    ask(agent)
    assert len(tools_of(stub.requests[0])) == 30 and "search_tools" not in tools_of(stub.requests[0])


def test_a_step_that_leaves_few_tools_shows_them_all(ask, agent, stub, worker, alice):
    stub.script(says("Hello."))
    with worker.capture(execute=True):
        taken = intake.accept_message(user=alice, text="Hi", agent=agent)
        Run.objects.filter(pk=taken.run.pk).update(policy={"allowed": ["weather_forecast"]})
    worker.work()
    assert tools_of(stub.requests[0]) == ["weather_forecast"]


def test_a_restart_shows_what_was_found_before(ask, agent, stub, worker):
    stub.script(search_for(), calls(("weather_forecast", {})), says("Rain."))
    Tool.objects.filter(name="weather_forecast").update(effect="destructive")
    ToolGrant.objects.filter(tool__name="weather_forecast").update(mode="ask")
    run = ask(agent)
    assert run.status == "waiting"
    run.approvals.update(status="denied")
    with worker.capture(execute=True):
        endings.wake(run.pk)
    worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded" and tools_of(stub.requests[-1]) == [*CORE, "search_tools", "weather_forecast"]


@pytest.mark.parametrize("how", ["mode", "enabled"])
def test_a_tool_that_is_not_allowed_is_neither_found_nor_called(ask, agent, stub, how):
    if how == "mode":
        ToolGrant.objects.filter(tool__name="weather_forecast").update(mode="deny")
    else:
        Tool.objects.filter(name="weather_forecast").update(enabled=False)
    stub.script(search_for(), calls(("weather_forecast", {})), says("Sorry."))
    run = ask(agent)
    search, call = ToolCallRecord.objects.filter(run=run).order_by("id")
    assert search.result["tools"] == [] and call.outcome == "denied"


def test_a_tool_that_was_found_and_then_denied_is_no_longer_shown(ask, agent, stub, monkeypatch):
    stub.script(search_for(), says("Done."))
    searched = offers.search_granted_tools

    def search_and_deny(executor, arguments):
        result = searched(executor, arguments)
        ToolGrant.objects.filter(tool__name="weather_forecast").update(mode="deny")
        return result

    monkeypatch.setattr(offers, "search_granted_tools", search_and_deny)
    ask(agent)
    assert tools_of(stub.requests[1]) == [*CORE, "search_tools"]


def test_only_granted_tools_are_found(ask, agent, make_tool, stub):
    make_tool("weather_secret", description="The weather of a city, for others.")
    stub.script(search_for(), says("Done."))
    run = ask(agent)
    assert [tool["name"] for tool in ToolCallRecord.objects.get(run=run).result["tools"]] == ["weather_forecast"]


def test_bad_queries_are_refused_before_they_are_made(ask, agent, stub):
    stub.script(search_for(""), search_for(limit=1000), says("Done."))
    run = ask(agent)
    assert set(ToolCallRecord.objects.filter(run=run).values_list("outcome", flat=True)) == {"failed"}


def test_tools_of_the_caller_and_built_in_ones_are_always_shown(
    worker, alice_api, make_agent, many, make_tool, stub_provider, stub
):
    delegate = Tool.objects.create(
        owner=None, name="delegate", kind="builtin", input_schema=NOTHING, source={"builtin": "delegate"}
    )
    make_agent(tools=[*many, delegate], provider=stub_provider)
    stub.script(search_for("weather mine"), says("Done."))
    mine = {"name": "mine_weather", "description": "The weather, mine.", "input_schema": NOTHING}
    with worker.capture(execute=True):
        alice_api.post("/api/v1/agents/helper/messages", {"message": "Hi", "tools": [mine]}, headers={
            "Prefer": "respond-async",
        })  # fmt: skip
    worker.work()
    first, second = map(tools_of, stub.requests)
    assert first == [*CORE, "delegate", "mine_weather", "search_tools"]
    assert second == [*first, "weather_forecast"]


def test_nobody_names_a_tool_like_the_search(alice_api):
    body = {"name": "search_tools", "source": "def search_tools(x: int) -> int:\n    return x\n"}
    assert alice_api.post("/api/v1/functions/", body).status_code == 422


def test_a_turn_costs_the_same_queries_whatever_the_number_of_a_teams_tools(
    ask, agent, stub, team, bob, worker, django_assert_max_num_queries
):
    """Bob runs Alice's agent with thirty tools of their team: the team is asked once."""
    Tool.objects.update(team=team)
    Agent.objects.update(team=team)
    agent.provider.team = team
    agent.provider.save()
    stub.script(says("Hello."))
    assert Membership.objects.filter(user=bob).exists()
    with django_assert_max_num_queries(60) as queries:
        run = worker.send_message(bob, "Hi", Agent.objects.get(pk=agent.pk))
    assert run.status == "succeeded"
    assert sum("agents_membership" in query["sql"] for query in queries.captured_queries) <= 8
