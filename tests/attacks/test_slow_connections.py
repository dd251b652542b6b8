"""Nobody keeps the web server busy with tiny pieces, or with many connections through a proxy."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock

from config.proxies import RealAddress
from supervisor import reads
from supervisor.reads import RestingServer

PROXY = "10.0.0.1"


class Socket:
    """A client that sends one byte, as often as somebody reads."""

    def __init__(self, piece=b"x"):
        self.piece = piece
        self.reads = 0

    def recv(self, size):
        self.reads += 1
        return self.piece

    def setblocking(self, is_blocking):
        pass

    def fileno(self):
        return 0


class Reactor(Clock):
    def __init__(self):
        super().__init__()
        self.reading = set()

    def addReader(self, one):  # noqa: N802  (Twisted's names)
        self.reading.add(one)

    def removeReader(self, one):  # noqa: N802
        self.reading.discard(one)

    def run(self, seconds, reads_per_s=1000):
        """Whoever wants to read may do so that often."""
        for _ in range(int(seconds * reads_per_s)):
            for one in list(self.reading):
                one.doRead()
            self.advance(1 / reads_per_s)


@pytest.fixture
def connect():
    reactor = Reactor()

    def connect(piece=b"x"):
        socket = Socket(piece)
        address = SimpleNamespace(_realPortNumber=1)
        server = RestingServer(socket, Protocol(), ("192.0.2.1", 1), address, 1, reactor)
        server.protocol.makeConnection(server)
        return server

    connect.reactor = reactor
    return connect


def test_bytes_one_by_one_are_read_a_few_times_a_second(connect):
    crowd = [connect() for _ in range(100)]
    connect.reactor.run(4)
    most = reads.FREE_READS + 4 / reads.REST_S + 2
    assert max(one.socket.reads for one in crowd) <= most


def test_large_pieces_are_read_at_once(connect):
    one = connect(b"x" * reads.SMALL_BYTES)
    connect.reactor.run(1)
    assert one.socket.reads >= 990


def test_a_complete_request_or_frame_renews_the_budget(connect):
    one = connect()
    for _ in range(20):
        connect.reactor.run(0.02)
        one.small_reads = 0
    assert one.socket.reads >= 390


def test_a_protocol_that_pauses_stays_paused_after_a_rest(connect):
    one = connect()
    connect.reactor.run(0.1)
    assert one not in connect.reactor.reading, "it rests"
    one.pauseProducing()
    connect.reactor.advance(1)
    assert one not in connect.reactor.reading
    one.resumeProducing()
    assert one in connect.reactor.reading


class Site:
    """An application whose requests last until the test ends them."""

    def __init__(self):
        self.at_work = 0
        self.end = asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.at_work += 1
        await self.end.wait()


@pytest.mark.parametrize("proxy", [PROXY, f"::ffff:{PROXY}"])
@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_a_client_behind_a_proxy_has_no_more_than_its_connections(settings, kind, proxy):
    settings.TRUSTED_PROXIES, settings.MAX_CONNECTIONS_PER_ADDRESS = ["10.0.0.0/8"], 3
    site, sent = Site(), []
    edge = RealAddress(site)

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    def request(forwarded):
        headers = [(b"x-forwarded-for", forwarded.encode())]
        scope = {"type": kind, "client": [proxy, 1], "headers": headers}
        return asyncio.ensure_future(edge(scope, receive, send))

    flood = [request(f"2001:db8::{number}") for number in range(8)]
    others = [request("203.0.113.7"), request("203.0.113.8")]
    await asyncio.sleep(0.05)
    assert site.at_work == 3 + 2, "one home has three, and others have theirs"
    refusals = [one for one in sent if one.get("status") == 503 or one.get("code") == 4429]
    assert len(refusals) == 5
    if kind == "http":
        body = next(one["body"] for one in sent if one["type"] == "http.response.body")
        assert json.loads(body)["error"]["code"] == "too_many_connections"
    site.end.set()
    await asyncio.gather(*flood, *others)
    assert not edge.open
