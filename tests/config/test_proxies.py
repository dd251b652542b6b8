"""A caller's address behind a proxy: believed where a trusted proxy sent it, from nobody else."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.proxies import RealAddress, networks

PROXIES = ["10.0.0.0/8", "::1"]


async def seen(settings, peer, *forwarded, proxies=PROXIES):
    settings.TRUSTED_PROXIES = proxies
    found = {}

    async def application(scope, receive, send):
        found.update(scope)

    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    await RealAddress(application)({"type": "http", "client": [peer, 1], "headers": headers}, None, None)
    return found["client"][0]


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("10.1.1.1", ["203.0.113.7"], "203.0.113.7"),
        ("::1", ["2001:db8::5"], "2001:db8::5"),
        ("10.1.1.1", ["198.51.100.1, 203.0.113.7, 10.2.2.2"], "203.0.113.7"),
        ("10.1.1.1", ["198.51.100.1", "203.0.113.7"], "203.0.113.7"),
        ("10.1.1.1", ["203.0.113.7, nonsense"], "10.1.1.1"),
        ("10.1.1.1", [], "10.1.1.1"),
        ("203.0.113.9", ["127.0.0.1"], "203.0.113.9"),
    ],
)
async def test_the_nearest_address_that_is_no_proxy_is_the_caller(settings, peer, forwarded, expected):
    assert await seen(settings, peer, *forwarded) == expected


async def test_without_trusted_proxies_the_header_changes_nothing(settings):
    assert await seen(settings, "127.0.0.1", "8.8.8.8", proxies=[]) == "127.0.0.1"


def test_a_proxy_that_is_no_address_is_refused_at_the_start():
    with pytest.raises(ImproperlyConfigured, match="MUSTER_TRUSTED_PROXIES"):
        networks(["proxy.example"])
