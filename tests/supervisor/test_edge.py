"""What real clients and proxies send reaches every protocol, and what is refused is answered through a proxy too."""

import json
import os
import re
import shutil
import subprocess

import httpx2
import pytest

from tests.docs.signs import ROOT
from tests.live import free_port, wait_for

pytestmark = pytest.mark.live


def in_chunks(body):
    """A body without a length: httpx2 sends it with Transfer-Encoding: chunked."""
    yield body[:9]
    yield body[9:]


FORM = b'--X\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n--X--\r\n'
MESSAGE = {"message": "hello", "wait": 30}
CHAT = {"model": "assistant", "messages": [{"role": "user", "content": "hello"}]}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/agents/assistant/messages", MESSAGE),
        ("/v1/chat/completions", CHAT),
        ("/v1/responses", {"model": "assistant", "input": "hello"}),
        ("/mcp", INITIALIZE),
        ("/langgraph/threads", {"metadata": {"a": 1}}),
        ("/api/v1/files/", FORM),
    ],
)
def test_a_body_in_chunks_arrives(live, path, body):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "multipart/form-data; boundary=X" if body is FORM else "application/json"
    headers = {"Content-Type": kind, "Accept": "application/json, text/event-stream"}

    answer = live.http.post(path, content=in_chunks(raw), headers=headers)

    assert answer.status_code < 300, answer.text


def test_a_change_in_chunks_is_made(live):
    answer = live.http.post("/api/v1/agents/", json={"name": "chunked", "provider": "offline", "system_prompt": "old"})
    assert answer.status_code == 201, answer.text
    changed = in_chunks(b'{"system_prompt": "new"}')

    live.http.patch("/api/v1/agents/chunked", content=changed, headers={"Content-Type": "application/json"})

    assert live.http.get("/api/v1/agents/chunked").json()["system_prompt"] == "new"


@pytest.fixture
def nginx(live, tmp_path):
    """The address of nginx with the directives that are shipped, without TLS, in front of this Muster."""
    if not shutil.which("nginx"):
        pytest.skip("nginx is not installed")
    port = free_port()
    shipped = (ROOT / "deploy" / "proxy" / "nginx.conf").read_text()
    shipped = shipped.replace("server 127.0.0.1:8001", f"server 127.0.0.1:{live.port}")
    shipped = shipped.replace("server 127.0.0.1:8002", f"server localhost:{live.port}")
    shipped = shipped.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    shipped = re.sub(r"ssl_certificate(_key)? [^;]+;", "", shipped)
    shipped = shipped.replace("Host $host;", f"Host 127.0.0.1:{live.port};")
    user = "user root;" if os.geteuid() == 0 else ""  # who may write to the folders of this test
    folders = " ".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
    settings = f"access_log off; client_body_temp_path {tmp_path}/body; {folders} {shipped}"
    (tmp_path / "nginx.conf").write_text(
        f"{user} pid {tmp_path}/pid; error_log {tmp_path}/error.log; daemon off; events {{}} http {{ {settings} }}"
    )
    process = subprocess.Popen(["nginx", "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "error.log")])
    url = f"http://127.0.0.1:{port}"
    wait_for(lambda: is_served(url))
    yield url
    process.terminate()
    process.wait(30)


def is_served(url):
    try:
        return httpx2.get(f"{url}/healthz").status_code == 200
    except httpx2.HTTPError:
        return False


def test_bodies_that_are_refused_behind_nginx_stop_nobody_else(nginx):
    with httpx2.Client(base_url=nginx, timeout=60) as web:
        sent = [web.post("/api/v1/agents/", content=b"x" * 8_000_000) for _ in range(6)]
        others = [web.get("/healthz").status_code for _ in range(6)]

    assert [answer.status_code for answer in sent] == [413] * 6
    assert [answer.json()["error"]["code"] for answer in sent] == ["too_large"] * 6
    assert others == [200] * 6


def test_what_nginx_refuses_by_itself_has_the_form_of_our_errors(nginx):
    answer = httpx2.post(f"{nginx}/api/v1/agents/", content=b"x" * 17_000_000, timeout=60)

    assert answer.status_code == 413 and answer.json()["error"]["code"] == "too_large"
