"""An owner deletes what was shared once; those who used it get a typed error, never the row kept alive."""

import pytest

from agents.models import Agent, Provider, Tool
from functions.models import StoredFunction
from tests.functions.library import publish

V1 = "/api/v1"
JSON = "application/json"


@pytest.fixture
def mine(bob, offline):
    return Agent.objects.create(name="mine", owner=bob, provider=offline)


def test_unsharing_a_function_unshares_its_tool_at_once(alice, alice_api, bob_api, team):
    publish(alice, team=team)
    assert bob_api.get(f"{V1}/tools/add").status_code == 200
    alice_api.patch(f"{V1}/functions/add", {"team": None}, JSON)
    assert bob_api.get(f"{V1}/tools/add").status_code == 404
    assert bob_api.post(f"{V1}/functions/add/execute", {"arguments": {"a": 1}}).status_code == 404


def test_a_function_that_others_were_granted_is_deleted_once_unshared(alice, alice_api, bob_api, team, mine):
    publish(alice, team=team)
    assert bob_api.put(f"{V1}/agents/mine/grants/", [{"tool": "add"}], JSON).status_code == 200
    assert alice_api.delete(f"{V1}/functions/add").status_code == 409
    alice_api.patch(f"{V1}/functions/add", {"team": None}, JSON)
    assert alice_api.delete(f"{V1}/functions/add").status_code == 204
    assert not StoredFunction.objects.exists() and not Tool.objects.filter(name="add").exists()
    assert bob_api.get(f"{V1}/agents/mine/grants/").json()["results"] == []


def test_one_s_own_grants_still_keep_it(alice, alice_api, agent, team):
    publish(alice)
    alice_api.put(f"{V1}/agents/librarian/grants/", [{"tool": "add"}], JSON)
    assert alice_api.delete(f"{V1}/functions/add").status_code == 409


def test_a_provider_that_others_used_is_deleted_once_unshared(alice, alice_api, bob_api, team):
    Provider.objects.create(name="models", owner=alice, team=team, kind="offline")
    bob_api.post(f"{V1}/agents/", {"name": "mine", "provider": "models"})
    bob_api.post(f"{V1}/agents/mine/publish")
    assert alice_api.delete(f"{V1}/providers/models").status_code == 409
    alice_api.patch(f"{V1}/providers/models", {"team": None}, JSON)
    assert alice_api.delete(f"{V1}/providers/models").status_code == 204
    answer = bob_api.post(f"{V1}/agents/mine/messages", {"message": "hello"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "provider_disabled")


def test_a_run_says_whose_agent_answered(alice, bob, bob_api, team, agent, offline):
    Agent.objects.filter(pk=agent.pk).update(team=team)
    agent.publish(author=alice)
    sent = bob_api.post(f"{V1}/agents/librarian/messages", {"message": "hi"}, headers={"Prefer": "respond-async"})
    assert sent.json()["run"]["agent_owner"] == "alice"
