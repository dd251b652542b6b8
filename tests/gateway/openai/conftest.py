"""OpenAI's own SDK, unchanged, as a client of a running Muster. Modules that need Django
are imported when pytest has set it up.
"""

import openai
import pytest


@pytest.fixture
def client(agents, model):
    live, _ = agents
    model.turns.clear()
    model.requests.clear()
    return openai.OpenAI(base_url=f"{live.url}/v1", api_key=live.key, max_retries=0, timeout=60)


@pytest.fixture(scope="module")
def stranger_key(agents):
    """A key of somebody who has nothing."""
    from tests.gateway.live_agents import new_key

    return new_key(agents[0], "stranger", "*")
