"""Trying an agent's draft: the same path and limits as any message, and recorded as a try."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Agent, AgentVersion
from runs.models import Run
from runs.models.figures import anomalies, track_records
from runs.worker import pruning
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
MESSAGES = "/api/v1/agents/helper/messages"
ASYNC = {"Prefer": "respond-async"}


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    """Published with a tool, then changed."""
    agent = make_agent(tools=[make_tool()], provider=stub_provider)
    Agent.objects.filter(pk=agent.pk).update(system_prompt="Answer in verse.")
    return agent


@pytest.fixture
def send(worker, alice_api):
    def send(body, api=None):
        with worker.capture(execute=True):
            response = (api or alice_api).post(MESSAGES, body, headers=ASYNC)
        worker.work()
        return response

    return send


def prompts(stub):
    return [request["messages"][0]["content"] for request in stub.requests]


def test_a_draft_answers_with_what_is_not_published(send, agent, stub):
    stub.script(says("in verse"), says("as before"))
    tried = send({"message": "Hi", "draft": True}).json()["run"]
    send({"message": "Hi"})
    assert "Answer in verse." in prompts(stub)[0]
    assert "Answer in verse." not in prompts(stub)[1]
    assert (tried["trigger"], tried["agent_version"], tried["status"]) == ("draft", None, "queued")


def test_a_version_needs_the_name_of_an_agent(alice_api, agent):
    answer = alice_api.post("/api/v1/messages", {"message": "Hi", "version": 1}, headers=ASYNC)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "version_without_agent")
    assert answer.json()["error"]["details"][0]["field"] == "version" and not Run.objects.exists()


def test_its_run_is_recorded_as_a_try_and_nothing_is_published(send, agent, stub, alice_api):
    stub.script(says("a"), says("b"))
    send({"message": "Hi", "draft": True})
    send({"message": "Hi", "draft": True})
    run = Run.objects.first()
    assert (run.status, run.trigger, str(run.version)) == ("succeeded", "draft", "helper (draft)")
    assert AgentVersion.everything.filter(number=None).count() == 1, "the same content is stored once"
    versions = alice_api.get("/api/v1/agents/helper/versions/").json()["results"]
    assert [one["version"] for one in versions] == [1]
    assert len(alice_api.get("/api/v1/runs/?trigger=draft").json()["results"]) == 2


def test_publishing_what_was_tried_gives_it_a_number(send, agent, stub, alice_api):
    stub.script(says("a"), says("b"))
    send({"message": "Hi", "draft": True})
    assert alice_api.post("/api/v1/agents/helper/publish").json()["version"] == 2
    send({"message": "Hi"})
    assert Run.objects.first().version.number == 2
    assert alice_api.post("/api/v1/agents/helper/rollback", {"version": 1}).status_code == 200


def test_an_agent_that_was_never_published_can_be_tried(send, alice, stub_provider, stub):
    Agent.objects.create(name="helper", owner=alice, provider=stub_provider, model_name="stub")
    stub.script(says("Hello"))
    assert send({"message": "Hi"}).json()["error"]["code"] == "not_published"
    send({"message": "Hi", "draft": True})
    assert Run.objects.get().status == "succeeded"


def test_a_tool_that_asks_asks_in_a_draft_too(send, agent, stub):
    agent.grants.update(mode="ask")
    stub.script(calls(("add", {"a": 1, "b": 2})))
    send({"message": "add", "draft": True})
    assert (Run.objects.get().status, Run.objects.get().waiting_for) == ("waiting", "approval")


def test_a_draft_has_the_limits_of_a_message(send, agent, stub_provider):
    stub_provider.enabled = False
    stub_provider.save()
    assert send({"message": "Hi", "draft": True}).json()["error"]["code"] == "provider_disabled"
    Agent.objects.filter(pk=agent.pk).update(enabled=False)
    assert send({"message": "Hi", "draft": True}).json()["error"]["code"] == "not_published"
    assert not Run.objects.exists()


def test_a_draft_that_cannot_be_published_cannot_be_tried(send, agent):
    Agent.objects.filter(pk=agent.pk).update(system_prompt="{{ nobody }}", variables={"who": {"type": "string"}})
    answer = send({"message": "Hi", "draft": True})
    assert (answer.status_code, answer.json()["error"]["details"][0]["field"]) == (422, "system_prompt")
    assert not Run.objects.exists()


def test_a_team_mate_uses_what_is_live_but_not_the_draft(send, agent, stub, team, bob_api):
    Agent.objects.filter(pk=agent.pk).update(team=team)
    agent.provider.team = team
    agent.provider.save()
    assert send({"message": "Hi", "draft": True}, bob_api).status_code == 403
    stub.script(says("as before"))
    assert send({"message": "Hi"}, bob_api).status_code == 202


def test_a_stranger_finds_no_draft(send, agent, charlie_api):
    assert send({"message": "Hi", "draft": True}, charlie_api).status_code == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (MESSAGES, {"draft": True, "version": 1}),
        (MESSAGES, {"draft": "yes"}),
        ("/api/v1/messages", {"draft": True}),
    ],
)
def test_what_cannot_be_meant_is_refused(path, body, agent, alice_api):
    assert alice_api.post(path, {"message": "Hi", **body}, headers=ASYNC).status_code == 422


def test_a_retry_of_a_try_is_a_try(send, agent, stub, worker, alice_api):
    stub.script(says("a"), says("b"))
    run = send({"message": "Hi", "draft": True}).json()["run"]["id"]
    with worker.capture(execute=True):
        again = alice_api.post(f"/api/v1/runs/{run}/retry", {}).json()
    assert (again["trigger"], again["agent_version"]) == ("draft", None)


def test_tries_do_not_count_when_the_router_compares_agents(send, agent, stub):
    stub.script(says("a"), says("b"))
    send({"message": "Hi", "draft": True})
    assert track_records.lately([agent.pk]) == {}
    send({"message": "Hi"})
    assert track_records.lately([agent.pk])[agent.pk].runs == 1


def test_tries_are_no_anomaly(agent, alice):
    def fail(trigger):
        now = timezone.now()
        for _ in range(anomalies.FEWEST_RUNS):
            Run.objects.create(principal=alice, agent=agent, status="failed", trigger=trigger, finished_at=now)

    fail("draft")
    assert not anomalies.by_day(Run.objects.all())
    fail("message")
    assert anomalies.by_day(Run.objects.all())


def test_tried_drafts_are_pruned_after_their_runs(send, agent, stub):
    stub.script(says("a"))
    send({"message": "Hi", "draft": True})
    far = timezone.now() + timedelta(days=4000)
    pruning.prune(far)
    assert not AgentVersion.everything.filter(number=None).exists()
    assert AgentVersion.objects.count() == 1


def test_a_deleted_agent_takes_its_tried_drafts_along(agent, alice_api):
    agent.refresh_from_db()
    agent.frozen_draft()
    assert alice_api.delete("/api/v1/agents/helper").status_code == 204
    assert not AgentVersion.everything.exists()
