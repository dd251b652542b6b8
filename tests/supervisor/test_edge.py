"""What real clients send reaches every protocol."""

import json

import pytest

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
