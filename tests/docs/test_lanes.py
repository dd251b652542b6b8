"""The tables in tests/conftest.py that say when a test runs name tests that exist."""

import pytest
from django.conf import settings

from tests import conftest

TABLES = (
    conftest.ON_SQLITE_ALONE + conftest.EACH_CASE_ON_POSTGRES + conftest.FIRST_CASE_ON_POSTGRES + conftest.TAKE_SECONDS
)


@pytest.mark.parametrize("entry", TABLES)
def test_a_test_that_a_table_names_exists(entry):
    path, _, name = entry.partition("::")
    place = settings.BASE_DIR / path
    assert place.exists()
    assert place.is_dir() or f"def {name}" in place.read_text()
