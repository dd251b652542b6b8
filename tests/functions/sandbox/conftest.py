"""A pool of the sandbox."""

from __future__ import annotations

import pytest

from functions import sandbox


@pytest.fixture
def pool():
    pool = sandbox.Pool(spares=2)
    yield pool
    pool.close()
