"""A fake MCP server, and a connection to it. Modules that need Django are imported when pytest has
set it up.
"""

import pytest


@pytest.fixture
def allowed(settings):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]


@pytest.fixture
def fake(allowed, closed_sessions):
    from tests.connectors.fake_mcp import FakeMcp

    with FakeMcp() as made:
        yield made


@pytest.fixture
def server(alice, fake):
    """A connection to the fake with its tools listed."""
    from connectors.models import Connection
    from connectors.toolsets.mcp import fetch_server_tools

    row = Connection.objects.create(owner=alice, name="fake", provider="mcp", base_url=fake.address)
    fetch_server_tools(row, alice.pk)
    return row
