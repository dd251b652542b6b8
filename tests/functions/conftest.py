"""Fixtures that several test files of functions share."""

from tests.functions.test_http import internet  # noqa: F401  (a server on loopback)
