"""A body that nobody may send is not read: neither into memory nor onto the disk."""

import json
from types import SimpleNamespace

import pytest
from twisted.internet.testing import StringTransport
from twisted.web import http

from supervisor import bodies

HEAD = "POST {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n"


class Plain(http.Request):
    """Twisted's own request where Daphne's would be: no application is called."""

    answered = None

    def process(self):
        self.answered = len(self.content.read())
        Plain.last = self


class Request(bodies.LimitedRequest, Plain):
    process = Plain.process


@pytest.fixture
def send(monkeypatch, settings):
    """What comes back for a request, and how many bytes of its body were read (None: refused)."""
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576
    monkeypatch.setattr(bodies, "LimitedRequest", Request)
    factory = http.HTTPFactory()
    factory.server = SimpleNamespace(protocol_connected=lambda protocol: None)
    bodies.limit_bodies(factory)

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
