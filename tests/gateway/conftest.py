"""What the tests of the protocols share: one running Muster with agents whose model is scripted."""

import pytest

from tests.fakes import StubOpenAI


@pytest.fixture(scope="session")
def model():
    """The model of these agents: `model.script(…)`."""
    with StubOpenAI() as stub:
        yield stub


@pytest.fixture(scope="session")
def agents(live, model):
    """The running Muster with the agents, and their owner's key that may also decide approvals."""
    from tests.gateway.live_agents import make_agents, new_key  # not before pytest has set up tests.live

    make_agents(live, model)
    owner = live.http.get("/v1/models/plain").json()["owned_by"]
    return live, new_key(live, owner, "*", "approvals:decide")
