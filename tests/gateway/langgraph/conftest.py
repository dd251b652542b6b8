"""LangGraph's own SDK, unchanged, as a client of a running Muster. Modules that need Django
are imported when pytest has set it up.
"""

import pytest


@pytest.fixture
def client(agents, model):
    from tests.gateway.langgraph.sdk import client_of

    live, key = agents
    model.turns.clear()
    model.requests.clear()
    return client_of(live, key)


@pytest.fixture
def stranger(agents, langgraph_stranger_key):
    from tests.gateway.langgraph.sdk import client_of

    return client_of(agents[0], langgraph_stranger_key)


@pytest.fixture(scope="module")
def langgraph_stranger_key(agents):
    from tests.gateway.live_agents import new_key

    return new_key(agents[0], "langgraph_stranger", "*", "approvals:decide")
