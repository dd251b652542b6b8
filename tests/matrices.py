"""Full matrices are for `make exhaustive`; the usual run tries a choice that has every pair."""

import os
from collections.abc import Collection
from typing import Any

import pytest


def is_exhaustive() -> bool:
    """`make exhaustive`: full matrices, and every test that uses the database on both."""
    return os.environ.get("EXHAUSTIVE") == "1"


def each(values: Collection[Any], *usual: Any) -> list[Any]:
    """The cells of a full matrix as parameters: only the `usual` ones run outside `make exhaustive`."""
    assert set(usual) <= set(values), f"{usual} are not all in {values}"
    parameters = []
    for value in values:
        if value in usual:
            parameters.append(value)
        else:
            parameters.append(pytest.param(value, marks=pytest.mark.exhaustive))
    return parameters
