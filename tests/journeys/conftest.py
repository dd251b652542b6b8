"""A scripted model for journeys in which an agent answers."""

import pytest

from tests.fakes import StubOpenAI


@pytest.fixture(scope="module")
def model():
    with StubOpenAI() as server:
        yield server


@pytest.fixture
def nothing_left_to_say(model):
    model.turns.clear()
