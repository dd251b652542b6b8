"""Approving a tool that a server offers, with the effect that the person chooses."""

import pytest

from agents.models import AuditEvent, Tool
from connectors.models import Connection, RemoteTool
from connectors.remote import take_offers
from connectors.toolsets.mcp import read_offer

CLAIMS = {
    "reads": {"readOnlyHint": True},
    "adds": {"destructiveHint": False},
    "sets": {"destructiveHint": False, "idempotentHint": True},
    "silent": None,
}
SUGGESTED = {"reads": "read_out", "adds": "write", "sets": "idempotent", "silent": "destructive"}


@pytest.fixture
def server(alice):
    server = Connection.objects.create(owner=alice, name="remote", provider="mcp", base_url="https://example.com/mcp")
    offers = [
        read_offer({"name": name, "inputSchema": {"type": "object"}, "annotations": CLAIMS[name]}) for name in CLAIMS
    ]
    take_offers(server, offers, kind="mcp")
    return server


def approve(api, server, name, **more):
    row = RemoteTool.objects.get(connection=server, remote_name=name)
    return api.post(
        f"/api/v1/connections/{server.pk}/tools/{name}/approve", {"sha256": row.offered_hash, **more}, format="json"
    )


@pytest.mark.parametrize("name", CLAIMS)
def test_a_tool_has_the_claimed_effect_once_it_is_approved(alice_api, server, name):
    assert Tool.objects.get(remote__remote_name=name).effect == "destructive"
    assert approve(alice_api, server, name).json()["effect"] == SUGGESTED[name]


def test_the_person_chooses_another_effect_and_may_change_it_later(alice_api, bob_api, charlie_api, server):
    assert approve(charlie_api, server, "silent", effect="read_out").status_code == 404
    assert approve(bob_api, server, "silent", effect="read_out").status_code == 404, "the connection is not shared"
    assert approve(alice_api, server, "silent", effect="harmless").status_code == 422
    assert approve(alice_api, server, "silent", effect="read_out").json()["effect"] == "read_out"
    assert approve(alice_api, server, "silent", effect="write").json()["effect"] == "write"
    assert Tool.objects.get(remote__remote_name="silent").effect == "write"
    seen = AuditEvent.objects.filter(action="remotetool.approved").order_by("id")
    assert [row.details["effect"] for row in seen] == ["read_out", "write"]


def test_the_page_suggests_the_claim_and_offers_every_effect(alice, alice_api, signed_in, server):
    approve(alice_api, server, "silent", effect="read")
    page = signed_in(alice).get(f"/connections/{server.pk}/").content.decode()
    rows = {name: page.split(f'aria-label="Effect of {name}"')[1].split("</select>")[0] for name in CLAIMS}
    for name, suggested in {**SUGGESTED, "silent": "read"}.items():
        assert f'value="{suggested}" selected' in rows[name] and rows[name].count("selected") == 1
        assert all(f'value="{value}"' in rows[name] for value in Tool.Effect.values)
