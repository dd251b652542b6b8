"""Connections and streams of the HTTP clients, inside a hub and outside, with TLS and without."""

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from time import monotonic

import httpcore2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from plumbing import waits
from plumbing.http import streams
from plumbing.http.connections import Connections
from tests.plumbing.test_waits import Works

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture(params=[True, False], ids=["in a hub", "on a thread"])
def run(request):
    """Runs a piece of work, in a hub or not."""
    return (lambda work: Works().do(work)) if request.param else (lambda work: work())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A file with key and certificate of 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


class Server:
    """Answers each request on a connection with hello; `closes` after the first."""

    def __init__(self, certificate=None, closes=False):
        self.certificate, self.closes, self.accepted = certificate, closes, 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                one, _ = self.listening.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self.serve, args=(one,), daemon=True).start()

    def serve(self, one):
        try:
            if self.certificate:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.certificate)
                one = context.wrap_socket(one, server_side=True)
            with one:
                while one.recv(100_000):
                    one.sendall(ANSWER)
                    if self.closes:
                        return
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listening.close()


def test_tls_is_negotiated_and_read(run, certificate):
    context = ssl.create_default_context(cafile=certificate)

    def work():
        plain = streams.connect_stream("127.0.0.1", server.port, 20)
        secured = plain.start_tls(context, "127.0.0.1", 20)
        assert secured.get_extra_info("ssl_object") is not None
        secured.write(b"x" * 1000, 20)
        assert secured.read(65536, 20) == ANSWER
        with pytest.raises(httpcore2.ReadTimeout):
            secured.read(65536, 0.05)
        assert not secured.get_extra_info("is_readable")
        secured.close()

    with Server(certificate) as server:
        run(work)


def test_a_certificate_that_is_not_trusted_is_refused(run, certificate):
    def work():
        plain = streams.connect_stream("127.0.0.1", server.port, 20)
        with pytest.raises(httpcore2.ConnectError, match="certificate"):
            plain.start_tls(ssl.create_default_context(), "127.0.0.1", 20)
        assert plain.get_extra_info("socket").fileno() < 0

    with Server(certificate) as server:
        run(work)


def test_a_handshake_that_stands_still_ends_in_its_time(run):
    def work():
        with socket.create_server(("127.0.0.1", 0)) as silent:
            plain = streams.connect_stream("127.0.0.1", silent.getsockname()[1], 20)
            with pytest.raises(httpcore2.ConnectTimeout):
                plain.start_tls(ssl.create_default_context(), "127.0.0.1", 0.1)

    run(work)


def test_a_refused_connection_and_an_unknown_host_are_connect_errors(run, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    monkeypatch.setattr(streams, "resolve", lambda *_, **__: [])

    def work():
        for host in ("127.0.0.1", "nowhere.example"):
            with pytest.raises(httpcore2.ConnectError):
                streams.connect_stream(host, port, 20)

    run(work)


def test_the_second_address_is_tried_when_the_first_refuses(run, monkeypatch):
    monkeypatch.setattr(streams, "resolve", lambda *_, **__: ["127.0.0.2", "127.0.0.1"])

    def work():
        stream = streams.connect_stream("two.example", server.port, 20)
        assert stream.get_extra_info("server_addr") == ("127.0.0.1", server.port)
        stream.close()

    with Server() as server:
        run(work)


def test_a_read_ends_when_it_is_over(run):
    here, there = socket.socketpair()
    is_over = threading.Event()
    threading.Timer(0.2, is_over.set).start()

    def work():
        here.setblocking(False)
        with pytest.raises(httpcore2.ReadTimeout):
            streams.Stream(here).read(100, 60, is_over.is_set)

    began = monotonic()
    run(work)
    here.close(), there.close()
    assert monotonic() - began < 30


def connections(kept=16):
    maker = httpcore2.ConnectionPool(keepalive_expiry=60)
    return Connections(maker, kept=kept)


def ask(pool, port):
    answer = pool.handle_request(httpcore2.Request("GET", f"http://127.0.0.1:{port}/", headers=[("Host", "x")]))
    body = answer.read()
    answer.close()
    answer.close()  # twice gives it back once
    return body


def test_a_connection_is_used_again_and_a_closed_one_is_not():
    with Server() as server, connections() as pool:
        assert [ask(pool, server.port) for _ in range(3)] == [b"hello"] * 3
        assert server.accepted == 1
    with Server(closes=True) as server, connections() as pool:
        assert ask(pool, server.port) == b"hello"
        (idle,) = pool._idle.values()
        waits.for_socket(idle[0]._connection._network_stream.get_extra_info("socket").fileno(), waits.READ, 20)
        assert ask(pool, server.port) == b"hello" and server.accepted == 2


def test_an_answer_that_was_not_read_to_its_end_closes_its_connection():
    with Server() as server, connections() as pool:
        answer = pool.handle_request(
            httpcore2.Request("GET", f"http://127.0.0.1:{server.port}/", headers=[("Host", "x")])
        )
        answer.close()
        assert ask(pool, server.port) == b"hello" and server.accepted == 2


def test_no_more_idle_connections_are_kept_than_wanted():
    with Server() as server, connections(kept=2) as pool:
        request = httpcore2.Request("GET", f"http://127.0.0.1:{server.port}/", headers=[("Host", "x")])
        answers = [pool.handle_request(request) for _ in range(5)]
        for answer in answers:
            answer.read(), answer.close()
        assert [len(idle) for idle in pool._idle.values()] == [2] and server.accepted == 5


def test_a_failed_request_keeps_no_connection():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with connections() as pool, pytest.raises(httpcore2.ConnectError):
        ask(pool, port)
    assert not pool._idle
