import http.server
import threading
from time import monotonic, sleep

import httpx2
import pytest

from plumbing.http import addresses, outbound
from tests.fakes import LoopbackServer


class Answers(http.server.BaseHTTPRequestHandler):
    """/to?url redirects, /drip sends a byte each 50 ms, /big a megabyte, all else says hello."""

    def do_GET(self):
        if self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", self.path[4:])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        if self.path == "/drip":
            self.drip()
        self.wfile.write(b"x" * 1_000_000 if self.path == "/big" else b"hello")

    def drip(self):
        try:
            for _ in range(2400):
                self.wfile.write(b".")
                sleep(0.05)  # the slowness is what is tested
        except OSError:
            pass

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    made = LoopbackServer(Answers)
    threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    made.server_close()


def test_it_refuses_a_private_address(server):
    with outbound.client([]) as client, pytest.raises(outbound.AddressRefused, match="MUSTER_PRIVATE_HOSTS"):
        client.get(server)


@pytest.mark.parametrize("allowed", ["127.0.0.1", "127.0.0.0/8"])
def test_it_goes_to_a_private_address_that_an_administrator_named(server, allowed):
    with outbound.client([allowed]) as client:
        assert client.get(server).text == "hello"


def test_it_checks_a_redirect_as_it_checks_the_first_address(server):
    with outbound.client(["127.0.0.1"], follow_redirects=True) as client, pytest.raises(outbound.AddressRefused):
        client.get(f"{server}/to?http://169.254.169.254/latest/meta-data")


def test_it_connects_to_the_address_that_was_checked_not_to_the_next_one(server, monkeypatch):
    """A name that resolves to a public address first and to a private one a moment later gains nothing."""
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])
    reached = []
    monkeypatch.setattr(outbound, "resolve", lambda host, **_: next(answers))
    backend = outbound.PinnedBackend([])
    monkeypatch.setattr(outbound.streams, "connect_stream", lambda host, *_: reached.append(host))
    backend.connect_tcp("rebinding.example", 80)
    assert reached == ["93.184.216.34"]


def test_it_refuses_a_name_of_which_one_address_is_private(monkeypatch):
    monkeypatch.setattr(outbound, "resolve", lambda host, **_: ["93.184.216.34", "10.0.0.1"])
    with pytest.raises(outbound.AddressRefused):
        outbound.check_host("two-faced.example", [])


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.1.2.3",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "fd00::1",
        "100.64.0.1",
        "224.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::127.0.0.1",
        "fec0::1",
        "240.0.0.1",
    ],
)
def test_it_knows_private_addresses_in_every_dress(address):
    assert not addresses.is_allowed(address, [])


def test_an_exchange_ends_in_its_time_however_slowly_the_other_side_drips(server):
    started = monotonic()
    with outbound.client(["127.0.0.1"]) as client, pytest.raises(httpx2.TimeoutException), outbound.until(0.3):
        client.get(f"{server}/drip")
    assert monotonic() - started < 60  # it would have dripped for two minutes


def test_a_body_larger_than_asked_is_not_read_on(server):
    with outbound.client(["127.0.0.1"]) as client, client.stream("GET", f"{server}/big") as response:
        with pytest.raises(outbound.TooMuch):
            outbound.read_body(response, 10_000)
