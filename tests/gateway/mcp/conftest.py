"""The MCP server of a running Muster as the tests reach it, and clients of its OAuth. Modules that need Django
are imported when pytest has set it up.
"""

import pytest


@pytest.fixture
def site(agents, model):
    from tests.gateway.mcp.site import Site

    live, key = agents
    model.turns.clear()
    model.requests.clear()
    return Site(live, key)


@pytest.fixture(scope="module")
def stranger(agents):
    """A key of somebody else."""
    from tests.gateway.live_agents import new_key

    live, _ = agents
    return new_key(live, "mcp-stranger", "*", "approvals:decide")


@pytest.fixture(autouse=True)
def many_registrations(monkeypatch):
    """All tests come from one address, within a minute."""
    monkeypatch.setattr("gateway.mcp.oauth.REGISTRATIONS", 100_000)


@pytest.fixture
def registered(client, db):
    """The id of a client."""
    from tests.gateway.mcp.oauth_requests import register

    return register(client).json()["client_id"]


@pytest.fixture
def tokens(alice, signed_in, client, registered):
    """What the client got after Alice’s consent."""
    from tests.gateway.mcp.oauth_requests import consent, exchange

    return exchange(client, registered, consent(signed_in(alice), registered)["code"]).json()
