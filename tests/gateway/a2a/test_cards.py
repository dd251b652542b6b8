"""Agent cards: for whom they are, how they are cached and signed."""

import jwt
import pytest
from a2a.types import AgentCard
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from google.protobuf.json_format import ParseDict

from agents.models import Agent, AuditEvent
from tests.gateway.a2a.calls import V1

CARD = "/a2a/{}/.well-known/agent-card.json"


@pytest.fixture
def signing(settings):
    key = ec.generate_private_key(ec.SECP256R1())
    settings.A2A_SIGNING_KEY = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return settings


def test_a_card_is_valid_and_cached(alice_api, agent):
    answer = alice_api.get(f"/a2a/{agent}/.well-known/agent-card.json")
    card = ParseDict(answer.json(), AgentCard(), ignore_unknown_fields=True)
    assert {one.protocol_binding for one in card.supported_interfaces} >= {"JSONRPC", "HTTP+JSON"}
    assert "max-age" in answer["Cache-Control"] and "private" in answer["Cache-Control"]
    again = alice_api.get(f"/a2a/{agent}/.well-known/agent-card.json", HTTP_IF_NONE_MATCH=answer["ETag"])
    assert again.status_code == 304


def test_a_signature_is_verified_with_the_published_key(client, alice_api, agent, signing):
    agent.description = "Räumt auf – schön & gut"
    agent.save()
    agent.publish()
    [key] = client.get("/a2a/jwks.json").json()["keys"]
    assert "d" not in key
    verify = create_signature_verifier(lambda kid, jku: jwt.PyJWK(key) if kid == key["kid"] else None, ["ES256"])
    body = alice_api.get(f"/a2a/{agent}/.well-known/agent-card.json").json()
    verify(ParseDict(body, AgentCard(), ignore_unknown_fields=True))
    body["description"] = "something else"
    with pytest.raises(InvalidSignaturesError):
        verify(ParseDict(body, AgentCard(), ignore_unknown_fields=True))


def test_without_a_signing_key_there_is_no_signature(client, alice_api, agent):
    assert client.get("/a2a/jwks.json").json() == {"keys": []}
    assert "signatures" not in alice_api.get("/.well-known/agent-card.json").json()


def test_the_card_of_the_server_names_the_agents_of_its_reader(alice_api, charlie_api, agent):
    skills = alice_api.get("/.well-known/agent-card.json").json()["skills"]
    assert str(agent) in [skill["id"] for skill in skills]
    skills = charlie_api.get("/.well-known/agent-card.json").json()["skills"]
    assert str(agent) not in [skill["id"] for skill in skills]


def test_a_card_says_when_it_changed(alice_api, agent):
    for path in (CARD.format(agent), "/.well-known/agent-card.json"):
        assert alice_api.get(path)["Last-Modified"].endswith("GMT")


# -- public cards -----------------------------------------------------------------------------------------------------


@pytest.fixture
def public(alice_api, agent):
    """The agent, with a public card; its draft is ahead of its published version."""
    Agent.objects.filter(pk=agent.pk).update(system_prompt="SECRET instructions", capabilities=["travel"])
    agent.refresh_from_db()
    agent.publish()
    answer = alice_api.patch(f"/api/v1/agents/{agent}", {"public_card": True}, content_type="application/json")
    assert answer.json().get("public_card") is True, answer.content
    assert (
        alice_api.patch(
            f"/api/v1/agents/{agent}", {"description": "DRAFT"}, content_type="application/json"
        ).status_code
        == 200
    )
    return agent


def test_a_public_card_is_read_by_anybody_and_says_nothing_private(client, charlie_api, public):
    for reader, reach in ((client, "public"), (charlie_api, "private")):
        answer = reader.get(CARD.format(public))
        card = ParseDict(answer.json(), AgentCard(), ignore_unknown_fields=True)
        assert (answer.status_code, card.name, list(card.skills[0].tags)) == (200, public.name, ["travel"])
        assert reach in answer["Cache-Control"] and "Authorization" in answer["Vary"]
        for private in ("SECRET", "DRAFT", "stub", "offline", "alice"):
            assert private not in answer.content.decode()


def test_the_public_card_opens_nothing_else(client, charlie_api, public):
    for path in ("tasks", "extendedAgentCard"):
        assert client.get(f"/a2a/{public}/{path}", **V1).status_code == 401
    assert charlie_api.get(f"/a2a/{public}/extendedAgentCard", **V1).status_code == 404
    assert charlie_api.get(f"/api/v1/agents/{public}").status_code == 404
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
    assert client.post(f"/a2a/{public}", body, "application/json", **V1).status_code == 401


def test_the_catalogue_without_a_key_has_the_public_cards_only(client, alice_api, charlie_api, public, make_agent):
    make_agent("hidden")
    assert [skill["id"] for skill in client.get("/.well-known/agent-card.json").json()["skills"]] == [public.name]
    assert "hidden" in str(alice_api.get("/.well-known/agent-card.json").json()["skills"])
    assert client.get(CARD.format("hidden")).status_code == 401
    assert charlie_api.get(CARD.format("hidden")).status_code == 404


@pytest.mark.parametrize("change", [{"public_card": False}, {"enabled": False}])
def test_a_card_is_no_longer_public(client, alice_api, public, change):
    assert alice_api.patch(f"/api/v1/agents/{public}", change, content_type="application/json").status_code == 200
    assert client.get(CARD.format(public)).status_code == client.get(CARD.format("nobody")).status_code == 401
    assert client.get("/.well-known/agent-card.json").status_code == 401
    assert AuditEvent.objects.filter(action="agent.changed").exists()


def test_the_card_of_a_deactivated_account_is_no_longer_public(client, charlie_api, alice, public):
    alice.is_active = False
    alice.save()
    assert client.get(CARD.format(public)).status_code == client.get(CARD.format("nobody")).status_code == 401
    assert charlie_api.get(CARD.format(public)).status_code == 404
    assert client.get("/.well-known/agent-card.json").status_code == 401


def test_a_wrong_key_reads_no_public_card(client, public):
    assert client.get(CARD.format(public), HTTP_AUTHORIZATION="Bearer mk_wrong").status_code == 401


def test_one_name_has_one_public_card(bob_api, public, make_agent, bob):
    make_agent("other")
    Agent.objects.filter(name="other").update(owner=bob, name=public.name)
    answer = bob_api.patch(f"/api/v1/agents/{public}", {"public_card": True}, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "name_taken")


def test_own_agents_come_before_the_public_one(bob_api, public, make_agent, bob):
    make_agent("other", description="Mine.")
    Agent.objects.filter(name="other").update(owner=bob, name=public.name)
    assert bob_api.get(CARD.format(public)).json()["description"] == "Mine."
