"""What a team also needs to use what is shared with it, and sharing that too."""

import pytest

from agents.models import Agent, AuditEvent, Chain, ChainStep, Provider, Secret, Tool, ToolGrant
from functions.models import StoredFunction
from tests.functions.library import publish

V1 = "/api/v1"
JSON = "application/json"
COST = 'def shipping_cost(kg: float) -> float:\n    """What a parcel costs."""\n    return kg * 2\n'


@pytest.fixture
def own_model(alice):
    return Provider.objects.create(name="studio-model", kind="offline", owner=alice)


@pytest.fixture
def needy(alice, agent, own_model):
    """Alice's agent on her own provider, with a function of hers that sends a secret of hers."""
    function = publish(alice, COST, "shipping_cost")
    StoredFunction.objects.filter(pk=function.pk).update(secrets=["carrier"])
    Secret.objects.create(name="carrier", owner=alice, value="x", hosts=["carrier.example"])
    agent.provider = own_model
    agent.save()
    tool = Tool.objects.get(kind="function", source__function=function.pk)
    ToolGrant.objects.create(agent=agent, tool=tool)
    return agent


def names(needs):
    return [(need["kind"], need["name"], need["may_share"]) for need in needs]


NEEDS = [("provider", "studio-model", True), ("stored function", "shipping_cost", True), ("secret", "carrier", True)]


def test_sharing_an_agent_without_what_it_needs_is_warned(alice_api, needy, bob):
    answer = alice_api.patch(f"{V1}/agents/librarian", {"team": "alice-and-bob"}, JSON).json()
    (warning,) = answer["warnings"]
    assert warning["code"] == "not_shared" and "studio-model" in warning["message"]
    assert names(warning["needs"]) == NEEDS
    assert alice_api.get(f"{V1}/agents/librarian").json()["warnings"] == answer["warnings"]


def test_what_it_needs_is_shared_with_one_request(alice_api, bob_api, needy, team):
    path = f"{V1}/sharing/agents/librarian"
    assert names(alice_api.get(f"{path}?team=alice-and-bob").json()["needs"]) == NEEDS
    answer = alice_api.post(path, {"team": "alice-and-bob"}).json()
    assert names(answer["shared"]) == NEEDS and answer["needs"] == []
    assert alice_api.patch(f"{V1}/agents/librarian", {"team": "alice-and-bob"}, JSON).json()["warnings"] == []
    for path in ("providers/studio-model", "functions/shipping_cost", "tools/shipping_cost", "secrets/carrier"):
        assert bob_api.get(f"{V1}/{path}").status_code == 200, path
    shared = set(AuditEvent.objects.filter(action__endswith=".shared").values_list("action", flat=True))
    assert shared == {"provider.shared", "storedfunction.shared", "secret.shared"}


def test_what_belongs_to_somebody_else_is_named_with_the_reason(bob, bob_api, alice, offline):
    function = publish(alice, COST, "shipping_cost")
    agent = Agent.objects.create(name="clerk", owner=bob, provider=offline)
    tool = Tool.objects.get(kind="function", source__function=function.pk)
    ToolGrant.objects.create(agent=agent, tool=tool)
    answer = bob_api.post(f"{V1}/sharing/agents/clerk", {"team": "alice-and-bob"}).json()
    assert answer["shared"] == []
    (need,) = answer["needs"]
    assert (need["may_share"], need["problem"]) == (False, "it belongs to alice")


def test_what_is_shared_with_another_team_stays_there(alice_api, alice, needy, own_model, team):
    alice_api.post(f"{V1}/teams/", {"name": "others"})
    assert alice_api.patch(f"{V1}/providers/studio-model", {"team": "others"}, JSON).status_code == 200
    needs = alice_api.post(f"{V1}/sharing/agents/librarian", {"team": "alice-and-bob"}).json()["needs"]
    assert [need["problem"] for need in needs] == ["it is shared with the team “others” already"]


def test_a_chain_needs_its_steps_and_what_they_need(alice_api, alice, needy, team):
    needy.publish()
    chain = Chain.objects.create(name="digest", owner=alice)
    ChainStep.objects.create(chain=chain, key="one", target_kind="agent", target="librarian", position=0)
    needs = alice_api.get(f"{V1}/sharing/chains/digest?team=alice-and-bob").json()["needs"]
    assert names(needs) == [("agent", "librarian", True), *NEEDS]


@pytest.mark.parametrize("kind", ["providers", "functions"])
def test_each_kind_is_asked_in_the_same_way(alice_api, needy, team, kind):
    name = {"providers": "studio-model", "functions": "shipping_cost"}[kind]
    answer = alice_api.get(f"{V1}/sharing/{kind}/{name}?team=alice-and-bob")
    assert answer.status_code == 200
    assert names(answer.json()["needs"]) == ([] if kind == "providers" else NEEDS[2:])


def test_strangers_and_team_mates_do_not_see_what_it_needs(alice_api, bob_api, charlie_api, api, alice, needy, team):
    alice_api.patch(f"{V1}/agents/librarian", {"team": "alice-and-bob"}, JSON)
    path = f"{V1}/sharing/agents/librarian"
    assert bob_api.get(f"{V1}/agents/librarian").json()["warnings"] == []
    for client, status in ((bob_api, 403), (charlie_api, 404)):
        assert client.get(f"{path}?team=alice-and-bob").status_code == status
        assert client.post(path, {"team": "alice-and-bob"}).status_code == status
    assert Provider.objects.get(name="studio-model").team is None
    assert api(alice, "agents:read").post(path, {"team": "alice-and-bob"}).status_code == 403


@pytest.mark.parametrize(("path", "status"), [("users/alice", 404), ("agents/nothing", 404)])
def test_what_is_no_row_is_not_found(alice_api, team, path, status):
    assert alice_api.get(f"{V1}/sharing/{path}?team=alice-and-bob").status_code == status


@pytest.mark.parametrize("team_name", ["", "nothing", "others"])
def test_the_team_is_one_of_one_s_own(alice_api, charlie_api, needy, team_name):
    charlie_api.post(f"{V1}/teams/", {"name": "others"})
    answer = alice_api.get(f"{V1}/sharing/agents/librarian?team={team_name}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "unknown_team")


def test_an_agent_of_the_site_is_not_published_on_a_private_provider(api, site_admin, agent, own_model):
    type(agent).objects.filter(pk=agent.pk).update(owner=None, provider=own_model)
    answer = api(site_admin).post(f"{V1}/agents/librarian/publish")
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "private_provider"
    assert "Give the provider to the site" in answer.content.decode()
