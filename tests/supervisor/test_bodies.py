"""A body that nobody may send is not read: neither into memory nor onto the disk."""

import json
import time
from types import SimpleNamespace

import pytest
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.web import http

from supervisor import body_limits

HEAD = "POST {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n"


class Plain(http.Request):
    """Twisted's own request where Daphne's would be: no application is called."""

    answered = None

    def process(self):
        self.answered = len(self.content.read())
        Plain.last = self


class Request(body_limits.LimitedRequest, Plain):
    process = Plain.process


@pytest.fixture
def send(monkeypatch, settings):
    """What comes back for a request, and how many bytes of its body were read (None: refused)."""
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576
    monkeypatch.setattr(body_limits, "LimitedRequest", Request)
    clock = Clock()
    factory = http.HTTPFactory(reactor=clock)
    factory.server = SimpleNamespace(protocol_connected=lambda protocol: None)
    body_limits.limit_bodies(factory, clock)

    def send(size, *headers, path="/api/v1/agents/", is_chunked=False):
        Plain.last = None
        protocol, transport = factory.buildProtocol(None), StringTransport()
        protocol.makeConnection(transport)
        length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {size}"
        head = HEAD.format(path=path, headers="".join(f"{one}\r\n" for one in [*headers, length]))
        protocol.dataReceived(head.encode())
        for _ in range(0, size, 16_384):
            if transport.disconnecting:
                break
            piece = b"x" * min(16_384, size)
            protocol.dataReceived(b"%x\r\n%s\r\n" % (len(piece), piece) if is_chunked else piece)
        if is_chunked and not transport.disconnecting:
            protocol.dataReceived(b"0\r\n\r\n")
        return transport.value(), Plain.last and Plain.last.answered

    send.factory, send.clock = factory, clock
    return send


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(("size", "headers"), [(131_072, []), (4_194_304, ["Authorization: Bearer mk_1.2"])])
def test_a_body_that_is_too_large_is_refused_before_it_is_read(send, size, headers, is_chunked):
    answer, read = send(size, *headers, is_chunked=is_chunked)
    assert answer.startswith(b"HTTP/1.1 413 ") and read is None
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert error["code"] == "too_large" and f"{error['details'][0]['limit']} bytes" in error["message"]


@pytest.mark.parametrize(("given", "is_taken"), [("order-0042", True), ("a\tb", False), (None, False)])
def test_a_refusal_names_its_request(send, given, is_taken):
    answer, _ = send(131_072, *([f"X-Request-ID: {given}"] if given else []))
    head, _, body = answer.partition(b"\r\n\r\n")
    request_id = json.loads(body)["error"]["request_id"]
    assert f"X-Request-ID: {request_id}".encode() in head.split(b"\r\n")
    assert request_id == given if is_taken else len(request_id) == 32


@pytest.mark.parametrize(
    ("size", "headers", "path"),
    [
        (16_384, [], "/login/"),
        (1_048_576, ["Authorization: Bearer mk_1.2"], "/api/v1/agents/"),
        (1_048_576, ["Cookie: sessionid=abc"], "/api/v1/agents/"),
        (1_048_576, [], "/api/v1/hooks/deploy"),
    ],
)
def test_a_body_within_the_limits_is_read_whole(send, size, headers, path):
    assert send(size, *headers, path=path)[1] == size


def test_a_form_with_a_file_may_be_as_large_as_a_file(send, settings):
    settings.FILE_BYTES = 2_097_152
    form = "Content-Type: multipart/form-data; boundary=x"
    assert send(2_097_152, "Authorization: Bearer mk_1.2", form)[1] == 2_097_152
    assert send(2_200_000, "Authorization: Bearer mk_1.2", form)[1] is None
    assert send(131_072, form)[1] is None, "a stranger has no more room for a form"


def connect(send, head=b""):
    Plain.last = None
    protocol, transport = send.factory.buildProtocol(None), StringTransport()
    protocol.makeConnection(transport)
    protocol.dataReceived(head)
    return protocol, transport


def error_in(answer):
    return json.loads(answer.partition(b"\r\n\r\n")[2].partition(b"HTTP/1.1")[0])["error"]


LARGE = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n"


def test_a_refused_body_is_read_to_its_end_so_that_its_sender_hears_the_answer(send):
    protocol, transport = connect(send, LARGE + b"\r\n")
    assert transport.value().startswith(b"HTTP/1.1 413 ") and not transport.disconnecting
    for _ in range(8):
        protocol.dataReceived(b"x" * 999_999)
    assert not transport.disconnecting
    protocol.dataReceived(b"x" * 8)
    assert transport.disconnecting and Plain.last is None


def test_a_refused_body_is_not_read_for_ever(send, monkeypatch):
    _, transport = connect(send, LARGE + b"\r\n")
    send.clock.advance(body_limits.LINGER_S + 1)
    assert transport.disconnecting, "the time is over"

    monkeypatch.setattr(body_limits, "LINGER_BYTES", 1_000_000)
    protocol, transport = connect(send, LARGE + b"\r\n")
    protocol.dataReceived(b"x" * 1_000_001)
    assert transport.disconnecting, "enough was thrown away"


def test_nobody_is_asked_to_go_on_with_a_body_that_is_refused(send):
    _, transport = connect(send, LARGE + b"Expect: 100-continue\r\n\r\n")
    assert transport.value().count(b"HTTP/1.1") == 1


CHUNKED = b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(("credential", "size"), [(b"", 1), (b"", 40), (b"Authorization: Bearer mk_1.2\r\n", 1)])
def test_a_body_in_many_tiny_pieces_is_refused_soon(send, credential, size):
    protocol, transport = connect(send, CHUNKED + credential + b"\r\n")
    protocol.dataReceived((b"%x\r\n%s\r\n" % (size, b"x" * size)) * 1000)
    assert transport.value().startswith(b"HTTP/1.1 400 ") and transport.disconnecting
    assert error_in(transport.value())["code"] == "too_many_pieces"


def test_a_table_that_is_sent_line_by_line_is_read(send):
    protocol, transport = connect(send, CHUNKED + b"Authorization: Bearer mk_1.2\r\n\r\n")
    protocol.dataReceived(b"14\r\n%s\r\n" % (b"x" * 20) * 2000 + b"0\r\n\r\n")
    assert Plain.last.answered == 40_000


@pytest.mark.parametrize(
    "sent",
    [b"G", b"GET /x HTTP/1.1\r\nHost:", LARGE.replace(b"8000000", b"8000") + b"\r\nx"],
    ids=["word", "head", "body"],
)
def test_what_is_sent_a_byte_at_a_time_ends(send, monkeypatch, sent):
    now = time.monotonic()
    monkeypatch.setattr(body_limits.time, "monotonic", lambda: now)
    protocol, transport = connect(send, sent)
    for _ in range(9):
        now += body_limits.LOOK_EVERY_S
        send.clock.advance(body_limits.LOOK_EVERY_S)
        if not transport.disconnecting:
            protocol.dataReceived(b"x")
    assert transport.disconnecting
    assert sent == b"G" or error_in(transport.value())["code"] == "request_too_slow"


@pytest.mark.parametrize(
    "head",
    [
        b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n",
        CHUNKED + b"\r\nzz\r\n",
        CHUNKED + b"\r\n-1\r\n",
    ],
    ids=["two lengths", "unknown coding", "no size", "negative size"],
)
def test_a_body_whose_end_is_unclear_is_refused(send, head):
    _, transport = connect(send, head)
    assert transport.value().startswith(b"HTTP/1.1 400 ") and transport.disconnecting and Plain.last is None
