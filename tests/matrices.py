"""Full matrices are for `make exhaustive`; the usual run tries a choice that has every pair."""

import os


def is_exhaustive() -> bool:
    """`make exhaustive`: full matrices, and every test that uses the database on both."""
    return os.environ.get("EXHAUSTIVE") == "1"
