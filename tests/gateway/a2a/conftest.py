"""An agent for the tests of A2A."""

import pytest


@pytest.fixture
def agent(make_agent):
    return make_agent()
