"""Messages that name no agent, and small models that can only keep to a schema, over HTTP."""

import json
from decimal import Decimal

import pytest
from django.db.models import F
from django.utils import timezone

from agents.models import Provider
from runs.calls import routing
from runs.models import Budget, RouteDecision, Run, Session
from tests.fakes import StubOpenAI, says

pytestmark = pytest.mark.django_db
COOK = {"description": "Suggests recipes.", "capabilities": ["recipes"], "examples": ["What can I cook with leeks?"]}
ADD = json.dumps({"tool": "add", "arguments": {"a": 1, "b": 2}})


@pytest.fixture
def ask(alice_api):
    def ask(text, api=alice_api):
        return api.post("/api/v1/messages/route", {"message": text}).json()

    return ask


@pytest.fixture
def send(worker, alice_api):
    """Send and let the worker work: the run as the API tells of it afterwards."""

    def send(path, text):
        with worker.capture(execute=True):
            sent = alice_api.post(path, {"message": text}, headers={"Prefer": "respond-async"})
        worker.work()
        return alice_api.get(f"/api/v1/runs/{sent.json()['run']['id']}").json()

    return send


def test_a_dry_run_says_who_would_get_it_and_stores_nothing(ask, make_agent):
    make_agent("cook", **COOK)
    told = ask("Two recipes, please")
    assert (told["agent"], told["method"], told["reason"]) == ("cook", "capability", "can do “recipes”")
    assert told["candidates"] == [{"agent": "cook", "score": 1.0, "reason": "can do “recipes”"}]
    assert not Run.objects.exists() and not Session.objects.exists()


def test_without_agents_or_one_that_fits_the_answer_is_nobody(ask, make_agent):
    assert ask("Two recipes, please")["agent"] is None
    make_agent("cook", **COOK)
    told = ask("How tall is the Matterhorn?")
    assert (told["agent"], told["method"]) == (None, "nobody") and told["reason"]


def test_of_two_equally_good_always_the_same_is_chosen(ask, make_agent):
    for name in ("two", "one"):
        make_agent(name, **COOK)
    told = [ask("Two recipes, please") for _ in range(3)]
    assert {one["agent"] for one in told} == {"one"} and "equally good: two" in told[0]["reason"]


def test_charlie_is_not_told_of_alices_agents(ask, make_agent, charlie_api):
    make_agent("cook", **COOK)
    assert ask("Two recipes, please", charlie_api) == ask("zzz", charlie_api)


@pytest.mark.parametrize("body", [{}, {"message": ""}, {"message": 7}, {"message": "Hi", "session": "none"}])
def test_a_malformed_question_is_refused(alice_api, body):
    assert alice_api.post("/api/v1/messages/route", body).status_code in (400, 422)


def test_a_message_that_names_no_agent_finds_one_or_fails_with_a_reason(send, make_agent):
    make_agent("cook", **COOK)
    run = send("/api/v1/messages", "Two recipes, please")
    assert (run["status"], run["agent"]) == ("succeeded", "cook")
    run = send("/api/v1/messages", "How tall is the Matterhorn?")
    assert (run["status"], run["error"]["code"]) == ("failed", "nobody_fits")


@pytest.fixture
def mind(stub, settings):
    """A model that routes, at ten dollars per million tokens."""
    Provider.objects.create(
        name="mind", kind="openai-compatible", base_url=stub.url, prices={"*": {"input": 10, "output": 10}}
    )
    settings.ROUTER_MODEL = "mind:small"
    return stub


def verdict(agent):
    return says(json.dumps({"agent": agent, "confidence": 0.9, "reason": "it is about food"}))


def test_what_the_routers_model_takes_is_the_runs(send, make_agent, stub_provider, mind):
    make_agent("cook", **COOK, provider=stub_provider)
    mind.script(verdict("cook"), says("Eat."))
    run = send("/api/v1/messages", "I am hungry")
    assert (run["status"], run["agent"], run["turns"]) == ("succeeded", "cook", 1)
    usage = run["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], Decimal(usage["cost"])) == (22, 14, Decimal("0.00018"))
    mind.script(verdict("NOBODY"))
    run = send("/api/v1/messages", "How tall is the Matterhorn?")
    assert (run["error"]["code"], run["usage"]["input_tokens"]) == ("nobody_fits", 11)


def test_with_a_budget_used_up_a_route_is_found_without_the_model(
    alice, ask, send, make_agent, stub_provider, mind, time_machine
):
    time_machine.move_to(timezone.now().replace(hour=12))  # no month ends meanwhile
    make_agent("cook", **COOK, provider=stub_provider)
    Budget.objects.create(user=alice, period="month", max_tokens=10_000)
    mind.script(verdict("cook"), says("Eat."), verdict("cook"))
    send("/api/v1/messages", "I am hungry")
    assert (ask("I am hungry")["method"], len(mind.requests)) == ("classifier", 3)
    Budget.objects.update(max_tokens=70)
    assert (ask("I am hungry")["method"], ask("Suggests leeks recipes")["agent"]) == ("nobody", "cook")
    assert send("/api/v1/messages", "I am hungry")["error"]["code"] == "nobody_fits"
    assert len(mind.requests) == 3


@pytest.fixture
def small(alice, make_agent, make_tool, settings, functions):
    """An agent with one tool, behind a server that knows `response_format` and no tools."""
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    with StubOpenAI(only_response_format=True) as server:
        kind = {"kind": "openai-compatible", "tool_calling": "schema"}
        make_agent(
            provider=Provider.objects.create(owner=alice, name="small", base_url=server.url, **kind),
            tools=[make_tool()],
        )
        yield server


@pytest.mark.django_db(transaction=True)  # two calls are made in two threads
@pytest.mark.parametrize(
    ("written", "outcomes"),
    [
        ("I would rather talk.", []),
        (ADD, ["ok"]),
        (f"{ADD}\n{ADD.replace('1', '3')}", ["ok", "ok"]),
        (f"Sure:\n```json\n{ADD}\n```", ["ok"]),
        ('{"tool": "fly", "arguments": {}}', ["denied"]),
        ('{"tool": "add", "arguments": {"a": "many"}}', ["failed"]),
        ('{"tool": "add", "arguments": {"a": 1', []),
    ],
    ids=["prose", "a call", "two calls", "a fenced call", "an unknown tool", "wrong arguments", "half an object"],
)
def test_whatever_a_small_model_writes_the_run_ends_well(send, alice_api, small, written, outcomes):
    small.script(says(written), says('{"tool": "answer", "text": "Done."}'))
    run = send("/api/v1/agents/helper/messages", "Add 1 and 2")
    made = alice_api.get(f"/api/v1/runs/{run['id']}/tool-calls").json()["results"]
    assert (run["status"], [call["outcome"] for call in made]) == ("succeeded", outcomes)
    assert small.requests[0]["response_format"]["type"] == "json_schema" and "tools" not in small.requests[0]


def test_a_routed_message_moves_to_the_pool_of_its_agent(send, make_agent):
    cook = make_agent("cook", **COOK)
    type(cook).objects.filter(pk=cook.pk).update(pool="gpu")
    told = send("/api/v1/messages", "Two recipes, please")
    run = Run.objects.get(pk=told["id"])  # put back by the first worker, and taken by the next
    assert (run.status, run.pool, run.attempt, run.crashes) == ("succeeded", "gpu", 2, 0)
    assert RouteDecision.objects.filter(run=run).count() == 1


def test_a_worker_that_serves_the_agent_s_pool_goes_on_at_once(send, make_agent, settings):
    cook = make_agent("cook", **COOK)
    type(cook).objects.filter(pk=cook.pk).update(pool="gpu")
    settings.WORKER_POOLS = ["default", "gpu"]
    told = send("/api/v1/messages", "Two recipes, please")
    run = Run.objects.get(pk=told["id"])
    assert (run.status, run.pool, run.attempt) == ("succeeded", "gpu", 1)


def test_a_worker_that_lost_the_run_while_it_chose_records_no_decision(worker, alice_api, make_agent, monkeypatch):
    make_agent("cook", **COOK)

    def chosen_by_another_worker_meanwhile(*arguments, **options):
        Run.objects.update(attempt=F("attempt") + 1, lease_owner="another:1")
        return choose(*arguments, **options)

    choose = routing.choose_route
    monkeypatch.setattr(routing, "choose_route", chosen_by_another_worker_meanwhile)
    with worker.capture(execute=True):
        alice_api.post("/api/v1/messages", {"message": "Two recipes, please"}, headers={"Prefer": "respond-async"})
    worker.work()
    run = Run.objects.get()
    assert run.status == "running" and run.agent is None
    assert not RouteDecision.objects.exists() and not run.events.filter(type="run.routed").exists()
