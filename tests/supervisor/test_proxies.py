"""nginx and Caddy as they are shipped: what one caller sends closes the site to nobody, and every refusal is JSON."""

import json
import re
import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

import httpx2
import pytest
from django.conf import settings
from websockets.sync.client import connect

from supervisor.body_limits import ROOM_BYTES
from tests.fakes import LoopbackServer
from tests.live import wait_for
from tests.servers import free_port
from tests.supervisor.proxies import PROXIES, SHIPPED, proxied

pytestmark = pytest.mark.live
JSON = {"Content-Type": "application/json"}
LARGE = b"x" * 8_000_000


@pytest.fixture(scope="module", params=PROXIES)
def web(live, request, tmp_path_factory):
    """A client of a proxy in front of this Muster."""
    with proxied(request.param, live.port, tmp_path_factory.mktemp(request.param)) as url:
        with httpx2.Client(base_url=url, timeout=60) as client:
            yield client


@pytest.fixture
def key(live):
    return {"Authorization": f"Bearer {live.key}"}


def statuses_of_others(web):
    return [web.get("/healthz").status_code for _ in range(6)]


def in_chunks(body):
    for at in range(0, len(body), 65_536):
        yield body[at : at + 65_536]


def send_raw(web, data):
    """The status and content of the answer to these bytes; (0, b"") if the connection is closed by us."""
    place = urlsplit(str(web.base_url))
    with socket.create_connection((place.hostname, place.port), timeout=30) as line:
        line.sendall(data.replace(b"HOST", place.netloc.encode()))
        answer = b""
        while piece := line.recv(65_536):
            answer += piece
    head, _, content = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), content


def break_off(web, data):
    place = urlsplit(str(web.base_url))
    with socket.create_connection((place.hostname, place.port), timeout=30) as line:
        line.sendall(data.replace(b"HOST", place.netloc.encode()))
        time.sleep(0.05)  # the proxy has begun to pass it on


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "in chunks"])
def test_large_bodies_without_a_key_stop_nobody_else(web, chunked):
    body = in_chunks if chunked else bytes
    sent = [web.post("/api/v1/agents/", content=body(LARGE), headers=JSON) for _ in range(6)]

    assert [answer.status_code for answer in sent] == [413] * 6
    assert [answer.json()["error"]["code"] for answer in sent] == ["too_large"] * 6
    assert statuses_of_others(web) == [200] * 6


def test_large_bodies_at_the_same_time_stop_nobody_else(web):
    answers = []

    def send():
        answers.append(web.post("/api/v1/agents/", content=LARGE, headers=JSON).status_code)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    others = statuses_of_others(web)
    for thread in threads:
        thread.join(60)

    assert answers == [413] * 8
    assert others == [200] * 6


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 1000\r\n\r\nabc",
        b"Content-Length: 8000000\r\n\r\n" + b"x" * 100_000,
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
    ids=["short", "large", "half a chunk", "no chunk"],
)
def test_bodies_that_break_off_stop_nobody_else(web, live, rest):
    head = f"POST /api/v1/agents/ HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer {live.key}\r\n".encode()
    for _ in range(8):
        break_off(web, head + rest)

    began = time.monotonic()
    assert statuses_of_others(web) == [200] * 6
    assert time.monotonic() - began < 25  # who waits for the rest of those waits longer


def test_a_body_above_the_proxys_own_limit_is_refused_in_json(web, key):
    sent = web.post("/api/v1/files/", files={"file": ("a.txt", b"x" * 17_000_000)}, headers=key)

    assert sent.status_code == 413
    assert sent.json()["error"]["code"] == "too_large"
    assert statuses_of_others(web) == [200] * 6


def test_the_largest_file_passes_and_the_server_refuses_a_larger_one(web, key):
    taken = web.post("/api/v1/files/", files={"file": ("a.txt", b"x" * settings.FILE_BYTES)}, headers=key)
    refused = web.post("/api/v1/files/", files={"file": ("a.txt", b"x" * (settings.FILE_BYTES + 1))}, headers=key)

    assert taken.status_code == 201, taken.text
    assert refused.status_code == 413
    assert str(settings.FILE_BYTES) in refused.json()["error"]["message"]


def test_a_body_in_chunks_arrives(web, key):
    body = json.dumps({"message": "What is 6 * 7?", "wait": 30}).encode()

    answer = web.post("/api/v1/agents/helper/messages", content=in_chunks(body), headers=key | JSON)

    assert "42" in answer.json()["reply"]["text"], answer.text


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("/api/v1/agents/?q=" + "a" * 17_000, {}, 414, "address_too_long"),
        ("/api/v1/agents/", {"X-Long": "a" * 17_000}, 431, "headers_too_large"),
        ("/api/v1/agents/", {f"X-{number}": "a" * 1000 for number in range(40)}, 431, "headers_too_large"),
        ("/metrics", {}, 404, "not_found"),
        ("/api/v1/agents/", {}, 401, "not_authenticated"),
    ],
    ids=["address", "header", "headers", "metrics", "no key"],
)
def test_refusals_are_json_whoever_refuses(web, path, headers, status, code):
    answer = web.get(path, headers=headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_long_addresses_and_headers_that_the_server_takes_pass(web, key):
    assert web.get("/api/v1/agents/", headers=key | {"X-Long": "a" * 15_000}).status_code == 200
    refused_by_us = web.get("/api/v1/agents/?q=" + "a" * 15_000, headers=key)
    assert refused_by_us.json()["error"]["code"] == "unknown_parameter"


@pytest.mark.parametrize("line", [b"GARBAGE", b"GET /%zz HTTP/1.1", b"TRACE / HTTP/1.1"])
def test_what_nginx_cannot_read_is_refused_in_json(web, line, request):
    if "caddy" in request.node.name:
        pytest.skip("Go answers such requests before Caddy sees them")
    status, content = send_raw(web, line + b"\r\nHost: HOST\r\nConnection: close\r\n\r\n")

    assert status in (400, 405)
    assert json.loads(content)["error"]["code"] in ("malformed_request", "method_not_allowed")


def test_nobody_says_which_part_of_an_address_is_a_prefix(web, key):
    """Daphne takes it from a header, which would hide the address from rules about addresses."""
    header = key | {"Daphne-Root-Path": "/hidden"}

    assert web.get("/hidden/api/v1/agents/", headers=header).status_code == 404
    assert web.get("/api/v1/agents/", headers=key | {"Daphne-Root-Path": b"\xff\xfe"}).status_code == 200


def test_a_stream_passes(web, key):
    headers = key | {"Accept": "text/event-stream"}
    said = web.post("/api/v1/agents/helper/messages", json={"message": "What is 2 * 21?"}, headers=headers)

    assert said.headers["content-type"].startswith("text/event-stream")
    assert "event: run.finished" in said.text


def test_a_socket_passes(web, live, key):
    run = web.post("/api/v1/agents/helper/messages", json={"message": "What is 3 * 5?", "wait": 30}, headers=key)
    address = f"ws{str(web.base_url)[4:]}/ws/runs/{run.json()['run']['id']}/?after=0".replace("//ws/", "/ws/")

    with connect(address, additional_headers=key) as line:
        types = [json.loads(text).get("type") for text in line]

    assert "run.finished" in types


class Scripted(BaseHTTPRequestHandler):
    """An upstream that answers with the status in the address, and at /stream with two events, the second of which
    waits until the client has the first.
    """

    has_arrived = threading.Event()

    def do_GET(self):
        if self.path == "/stream":
            self.send_events()
            return
        number = self.path.strip("/")
        status = int(number) if number.isdecimal() else 200
        body = json.dumps({"error": {"code": f"from_upstream_{status}"}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Retry-After", "7")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"data: first\n\n")
        self.wfile.flush()
        self.has_arrived.wait(50)  # less than the client waits
        self.wfile.write(b"data: second\n\n" if self.has_arrived.is_set() else b"data: too late\n\n")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module", params=PROXIES)
def scripted(request, tmp_path_factory):
    server = LoopbackServer(Scripted)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with proxied(request.param, server.server_port, tmp_path_factory.mktemp(f"scripted-{request.param}")) as url:
        with httpx2.Client(base_url=url, timeout=60) as client:
            yield client
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("status", [400, 404, 413, 429, 500, 502, 503, 504])
def test_answers_of_the_server_pass_unchanged_and_stop_nobody_else(scripted, status):
    sent = [scripted.get(f"/{status}") for _ in range(8)]

    assert [answer.status_code for answer in sent] == [status] * 8
    assert {answer.json()["error"]["code"] for answer in sent} == {f"from_upstream_{status}"}
    assert {answer.headers["Retry-After"] for answer in sent} == {"7"}
    assert statuses_of_others(scripted) == [200] * 6


def test_events_are_passed_on_at_once(scripted):
    Scripted.has_arrived.clear()
    with scripted.stream("GET", "/stream") as answer:
        parts = answer.iter_raw()
        first = next(parts)
        Scripted.has_arrived.set()
        assert (first, b"".join(parts)) == (b"data: first\n\n", b"data: second\n\n")


@pytest.mark.parametrize("name", PROXIES)
def test_without_a_web_server_the_answer_says_when_to_come_back(name, tmp_path):
    with proxied(name, free_port(), tmp_path) as url:
        answer = httpx2.get(f"{url}/api/v1/agents/", timeout=30)

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert answer.headers["Retry-After"] == "3"


@pytest.mark.parametrize("name", PROXIES)
def test_a_web_server_that_is_killed_is_back_for_all(name, own_live, tmp_path):
    with proxied(name, own_live.port, tmp_path) as url, httpx2.Client(base_url=url, timeout=60) as web:
        assert web.get("/healthz").status_code == 200
        killed = own_live.programs()["web"]
        killed.send_signal(signal.SIGKILL)
        wait_for(lambda: own_live.programs().get("web", killed).pid != killed.pid)

        first = web.get("/healthz").status_code
        assert first in (200, 503)  # its connection may have been the killed one's
        if first == 503:  # or the proxy looked at the web server while it started: it looks again every five seconds
            wait_for(lambda: web.get("/healthz").status_code == 200)
        assert statuses_of_others(web) == [200] * 6


def test_the_limits_of_the_proxies_are_the_servers():
    limit = settings.FILE_BYTES + ROOM_BYTES
    nginx = re.search(r"client_max_body_size (\d+)k;", (SHIPPED / "nginx.conf").read_text())
    caddy = re.search(r"max_size (\d+)KiB", (SHIPPED / "Caddyfile").read_text())
    chart = (SHIPPED.parent / "helm" / "muster" / "templates" / "ingress.yaml").read_text()
    ingress = re.search(r"proxy-body-size: (\d+)k", chart)

    assert {int(found.group(1)) << 10 for found in (nginx, caddy, ingress)} == {limit}
