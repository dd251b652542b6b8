"""A paired device, and how long a worker waits for its answer."""

import pytest
from asgiref.sync import sync_to_async


@pytest.fixture(autouse=True)
def long_hold(monkeypatch):
    """An answer that comes is waited for, however busy the machine is."""
    monkeypatch.setattr("devices.calls.HOLD_S", 30.0)


@pytest.fixture
def short_hold(monkeypatch, long_hold):
    """For calls that a worker lets go of because no answer comes."""
    monkeypatch.setattr("devices.calls.HOLD_S", 0.5)


@pytest.fixture
async def laptop(alice):
    from tests.devices.scripted import paired  # needs Django, which pytest sets up later

    return await sync_to_async(paired)(alice)
