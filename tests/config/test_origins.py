"""A page of another origin opens no socket: scheme, host and port count."""

import pytest

from config.origins import SentOriginValidator


@pytest.mark.parametrize(
    ("origin", "host", "is_ours"),
    [
        ("http://localhost:8000", "localhost:8000", True),
        ("http://localhost", "localhost", True),
        ("https://localhost", "localhost", True),
        ("https://localhost", "localhost:443", True),
        ("http://localhost:9999", "localhost:8000", False),
        ("http://localhost", "localhost:8000", False),
        ("http://127.0.0.1:8000", "localhost:8000", False),
        ("http://evil.example", "evil.example", False),
        ("https://muster.example", "inside:8000", True),
        ("https://muster.example:8443", "inside:8000", False),
        ("http://muster.example", "inside:8000", False),
        ("null", "localhost:8000", False),
        ("file://", "localhost:8000", False),
        ("http://localhost:99999999", "localhost:8000", False),
        ("http://localhost:8000", "", False),
    ],
)
def test_an_origin_is_ours_with_its_port_only(settings, origin, host, is_ours):
    settings.PUBLIC_URL, settings.CSRF_TRUSTED_ORIGINS = "https://muster.example", []
    assert SentOriginValidator(None, ["localhost", "127.0.0.1"]).is_ours(origin, host) is is_ours
