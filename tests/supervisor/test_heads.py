"""Forms of HTTP requests that real clients and proxies send, byte for byte against a running Muster."""

import json
import shutil
import socket
import subprocess

import pytest

pytestmark = pytest.mark.live

CHAT = b'{"model": "assistant", "messages": [{"role": "user", "content": "hello"}]}'
CHUNK = b"%x\r\n%s\r\n" % (len(CHAT), CHAT)
END = b"0\r\n\r\n"


@pytest.fixture
def send(live):
    """What comes back for these bytes: (status, body) of the last answer."""

    def send(first_line, *headers, body=b"", then=b""):
        head = [first_line, f"Authorization: Bearer {live.key}", "Content-Type: application/json", *headers]
        if not any(one.lower().startswith("host:") for one in headers):
            head.append(f"Host: 127.0.0.1:{live.port}")
        with socket.create_connection(("127.0.0.1", live.port), timeout=30) as line:
            line.sendall("\r\n".join([*head, "", ""]).encode() + body)
            if then:
                assert line.recv(65_536).startswith(b"HTTP/1.1 100 ")
                line.sendall(then)
            answer = read_to_end(line)
        head, _, content = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), content

    send.port = live.port
    return send


def read_to_end(line):
    answer = b""
    while piece := line.recv(65_536):
        answer += piece
    return answer


@pytest.mark.parametrize(
    "body",
    [
        CHUNK + END,
        b"000%X\r\n%s\r\n000\r\n\r\n" % (len(CHAT), CHAT),
        b'%x;name=value;other="a b;c"\r\n%s\r\n0;last\r\n\r\n' % (len(CHAT), CHAT),
        b"%x ; name = value\r\n%s\r\n0\r\n\r\n" % (len(CHAT), CHAT),
        b"%x  \r\n%s\r\n0 \r\n\r\n" % (len(CHAT), CHAT),
        CHUNK + b"0\r\nX-Checksum: abc\r\nContent-Length: 5\r\n\r\n",
    ],
    ids=["plain", "zeros", "extensions", "spaces before extensions", "padded", "trailers"],
)
@pytest.mark.parametrize("coding", ["chunked", "Chunked"])
def test_every_form_of_chunks_is_read(send, body, coding):
    status, content = send(
        "POST /v1/chat/completions HTTP/1.1", f"Transfer-Encoding: {coding}", "Connection: close", body=body
    )
    assert status == 200 and json.loads(content)["choices"]


def test_a_request_after_chunks_with_trailers_is_the_next_one(send):
    following = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{send.port}\r\nConnection: close\r\n\r\n".encode()
    body = CHUNK + b"0\r\nA: b\r\n\r\n" + following
    _, content = send("POST /v1/chat/completions HTTP/1.1", "Transfer-Encoding: chunked", body=body)
    assert b'{"status": "ok"' in content


def test_chunks_beyond_the_limit_are_refused(send):
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (2_000_000, b"x" * 2_000_000)
    status, content = send("POST /v1/chat/completions HTTP/1.1", "Transfer-Encoding: chunked", body=body)
    assert status == 413 and json.loads(content)["error"]["code"] == "too_large"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (["Transfer-Encoding: chunked", "Content-Length: 5"], CHUNK + END),
        (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], CHUNK + END),
        (["Transfer-Encoding: gzip, chunked"], CHUNK + END),
        (["Transfer-Encoding: chunked"], b"zz\r\nhello"),
        (["Content-Length: +5"], b"hello"),
        (["X A: b"], b""),
    ],
    ids=["two lengths", "chunked twice", "unknown coding", "no size", "signed length", "space in a name"],
)
def test_what_cannot_be_read_gets_an_error_that_says_so(send, headers, body):
    status, content = send("POST /v1/chat/completions HTTP/1.1", *headers, body=body)
    assert status == 400
    assert json.loads(content)["error"]["code"] == "malformed_request"


@pytest.mark.parametrize("size", [16_500, 200_000])
def test_an_address_that_is_too_long_gets_414(send, size):
    status, content = send(f"GET /api/v1/agents/?search={'a' * size} HTTP/1.1")
    assert status == 414 and json.loads(content)["error"]["code"] == "address_too_long"


def test_a_long_address_leaves_room_for_headers(send):
    status, _ = send(
        f"GET /api/v1/agents/?search={'a' * 16_000} HTTP/1.1", "X-Long: " + "a" * 4_000, "Connection: close"
    )
    assert status != 431 and status != 414


@pytest.mark.parametrize(
    "headers", [["X-A: " + "a" * 17_000], ["X-A: " + "a" * 1_000] * 40, ["X-A: a"] * 600], ids=["one", "all", "many"]
)
def test_headers_that_are_too_large_get_431(send, headers):
    status, content = send("GET /api/v1/agents/ HTTP/1.1", *headers)
    assert status == 431 and json.loads(content)["error"]["code"] == "headers_too_large"


@pytest.mark.parametrize("scheme", ["http", "HTTPS"])
def test_a_target_in_absolute_form_is_that_path_at_that_host(send, scheme):
    line = f"GET {scheme}://127.0.0.1:{send.port}/api/v1/agents/?limit=1 HTTP/1.1"
    status, content = send(line, "Host: other.example", "Connection: close")
    assert status == 200 and len(json.loads(content)["results"]) == 1

    status, _ = send("GET http://other.example/api/v1/agents/ HTTP/1.1", "Connection: close")
    assert status == 400, "the host of the target counts, not the header"


def test_a_client_that_waits_for_100_continue_is_told_to_go_on(send):
    length = f"Content-Length: {len(CHAT)}"
    status, content = send(
        "POST /v1/chat/completions HTTP/1.1", length, "Connection: close", "Expect: 100-continue", then=CHAT
    )
    assert status == 200 and json.loads(content)["choices"]

    chunked = "Transfer-Encoding: chunked"
    status, _ = send(
        "POST /v1/chat/completions HTTP/1.1", chunked, "Connection: close", "Expect: 100-Continue", then=CHUNK + END
    )
    assert status == 200


@pytest.mark.parametrize("is_stream", [False, True])
def test_http_1_0_is_answered_without_chunks_and_closed(send, is_stream):
    body = CHAT[:-1] + (b', "stream": true}' if is_stream else b"}")
    headers = [f"Content-Length: {len(body)}", "Expect: 100-continue", "Connection: keep-alive"]
    status, content = send("POST /v1/chat/completions HTTP/1.0", *headers, body=body)
    assert status == 200
    assert content.endswith(b"data: [DONE]\n\n") if is_stream else json.loads(content)["choices"]


def test_a_reason_stands_beside_every_status(live):
    with socket.create_connection(("127.0.0.1", live.port), timeout=30) as line:
        head = f"GET /api/v1/agents/?nothing=1 HTTP/1.0\r\nHost: 127.0.0.1:{live.port}\r\n"
        line.sendall(f"{head}Authorization: Bearer {live.key}\r\n\r\n".encode())
        assert read_to_end(line).startswith(b"HTTP/1.0 422 Unprocessable")


NODE = """
import http from 'node:http';
const [url, key, body] = process.argv.slice(1);
const headers = {authorization: 'Bearer ' + key, 'content-type': 'application/json'};
const sent = more => new Promise(done => {
  const request = http.request(url, {method: 'POST', headers: {...headers, ...more}}, answer => {
    answer.resume(); answer.on('end', () => done(answer.statusCode));
  });
  if (more.expect) request.on('continue', () => request.end(body));
  else { request.write(body.slice(0, 9)); request.write(body.slice(9));
         if (more.trailer) request.addTrailers({'x-sum': '1'}); request.end(); }
});
const stream = new ReadableStream({start(c) { c.enqueue(new TextEncoder().encode(body)); c.close(); }});
const fetched = await fetch(url, {method: 'POST', headers, body: stream, duplex: 'half'});
console.log(await sent({}), await sent({trailer: 'x-sum'}), await sent({expect: '100-continue'}), fetched.status);
"""


def test_streams_of_node_arrive(live):
    if not shutil.which("node"):
        pytest.skip("Node.js is not installed")
    command = ["node", "--input-type=module", "-e", NODE, f"{live.url}/v1/chat/completions", live.key, CHAT.decode()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["200"] * 4, done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["-X", "POST", "-T", "-"],
        ["-d", "@-", "-H", "Expect: 100-continue"],
        ["-d", "@-", "-0"],
        ["-d", "@-", "-x", "SELF"],
    ],
    ids=["chunked", "expect", "http 1.0", "as if it were a proxy"],
)
def test_what_curl_sends_arrives(live, options):
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    options = [live.url if one == "SELF" else one for one in options]
    headers = ["-H", f"Authorization: Bearer {live.key}", "-H", "Content-Type: application/json"]
    url = f"{live.url}/v1/chat/completions"
    command = ["curl", "-s", "--noproxy", "", "-o", "-", "-w", " %{http_code}", *options, *headers, url]
    done = subprocess.run(command, input=CHAT, capture_output=True, timeout=120)
    assert done.stdout.endswith(b" 200"), done.stdout
