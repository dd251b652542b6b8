"""The thread that renews leases."""

import pytest
from django.conf import settings
from django.db import OperationalError

from runs.lifecycle import leases


class Ended(BaseException):
    """Ends the endless loop."""


@pytest.mark.parametrize("error", [OperationalError, RuntimeError, ValueError, MemoryError, OSError])
def test_no_error_ends_the_renewal_of_leases(error, monkeypatch):
    keeper, pauses, renewals = leases.Keeper(), [], []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) > 3:
            raise Ended

    def renew():
        renewals.append(1)
        raise error("boom")

    monkeypatch.setattr(leases.time, "sleep", sleep)
    monkeypatch.setattr(keeper, "renew", renew)
    with pytest.raises(Ended):
        keeper.renew_for_ever()
    assert len(renewals) == 3 and pauses[0] == settings.LEASE_S / 3
