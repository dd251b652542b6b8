"""One address cannot take all connections; a proxy's are those of many."""

import json
from types import SimpleNamespace

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from supervisor import connections

HOME, OTHER, PROXY = "192.0.2.1", "192.0.2.2", "10.0.0.1"


class Line:
    """A listening port: it makes transports of accepted connections."""

    transport = None


@pytest.fixture
def edge(settings):
    settings.MAX_CONNECTIONS_PER_ADDRESS = 3
    settings.TRUSTED_PROXIES = ["10.0.0.0/8"]
    factory, line = Factory.forProtocol(Protocol), Line()
    factory.reactor = Clock()
    limit = connections.limit_connections(factory, line)
    return SimpleNamespace(factory=factory, limit=limit, clock=factory.reactor)


def connect(edge, host):
    """What the site builds for one more connection, which stays open."""
    built = edge.factory.buildProtocol(IPv4Address("TCP", host, 1))
    edge.limit.add(connections.group_client_address(host))
    return built


def test_an_address_has_no_more_than_its_connections(edge):
    for _ in range(3):
        assert type(connect(edge, HOME)) is Protocol
    assert type(connect(edge, HOME)) is connections.Refused
    assert type(connect(edge, OTHER)) is Protocol
    for _ in range(2):
        edge.limit.remove(HOME)
    assert type(connect(edge, HOME)) is Protocol


def test_who_is_refused_is_told_why_and_goes_soon(edge):
    refused, transport = connections.Refused(edge.clock.callLater), StringTransport()
    refused.makeConnection(transport)
    head, _, body = transport.value().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ") and json.loads(body)["error"]["code"] == "too_many_connections"
    edge.clock.advance(connections.ANSWERED_S + 0.1)
    assert transport.disconnected or transport.disconnecting or transport.aborting


def test_refusals_are_bounded_too(edge):
    built = [connect(edge, HOME) for _ in range(3 + connections.MOST_REFUSED + 1)]
    assert built[-1] is None and type(built[-2]) is connections.Refused


@pytest.mark.parametrize("proxy", [PROXY, f"::ffff:{PROXY}"])
def test_a_trusted_proxy_brings_the_connections_of_many(edge, proxy):
    assert {type(connect(edge, proxy)) for _ in range(10)} == {Protocol}


def test_no_limit_is_no_limit(edge):
    edge.limit.limit = 0
    assert {type(connect(edge, HOME)) for _ in range(10)} == {Protocol}


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:2", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_a_home_is_one_client(host, client):
    assert connections.group_client_address(host) == client
