"""`muster mcp`: messages of stdin as requests of HTTP, and what comes back as lines."""

import json

import httpx
import pytest

from muster_client.cli.mcp import VERSION, Bridge, encode_header_value, serve

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "plain", "arguments": {}}}
RESULT = {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}


def stream(*events):
    text = "".join(f"id: {id}\ndata: {json.dumps(data) if data else ''}\n\n" for id, data in events)
    return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})


@pytest.fixture
def bridge():
    """`bridge(*answers)` → (the bridge, the requests it made, the messages it wrote)."""

    def make(*answers):
        asked, told, rest = [], [], list(answers)

        def answer(request):
            asked.append(request)
            given = rest.pop(0)
            if isinstance(given, Exception):
                raise given
            return given

        http = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://muster")
        return Bridge(http, told.append), asked, told

    return make


def take(made, message):
    if thread := made.take(message):
        thread.join(60)


def test_the_session_of_an_earlier_version_is_kept_and_ended(bridge):
    hello = {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-11-25"}}
    made, asked, told = bridge(
        httpx.Response(200, json=hello, headers={"Mcp-Session-Id": "s1"}), httpx.Response(202), stream(("e1", RESULT)),
        httpx.Response(204),
    )  # fmt: skip
    take(made, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
    take(made, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    take(made, CALL)
    made.close()
    assert told == [hello, RESULT]
    for request in asked[1:]:
        assert (request.headers["mcp-session-id"], request.headers["mcp-protocol-version"]) == ("s1", "2025-11-25")
    assert asked[-1].method == "DELETE"


def test_a_broken_stream_is_continued(bridge):
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
    made, asked, told = bridge(stream(("e1", None), ("e2", progress)), stream(("e3", RESULT)))
    made.session["Mcp-Session-Id"] = "s1"
    take(made, CALL)
    assert told == [progress, RESULT]
    begun = [(request.method, request.headers.get("last-event-id")) for request in asked]
    assert begun == [("POST", None), ("GET", "e2")]


def test_the_headers_of_2026_07_28(bridge):
    made, asked, told = bridge(httpx.Response(200, json=RESULT))
    take(made, {**CALL, "params": {"name": "né", "_meta": {VERSION: "2026-07-28"}}})
    assert asked[0].headers["mcp-protocol-version"] == "2026-07-28"
    assert (asked[0].headers["mcp-method"], asked[0].headers["mcp-name"]) == ("tools/call", "=?base64?bsOp?=")
    assert told == [RESULT] and encode_header_value("plain") == "plain"


def test_every_request_gets_an_answer(bridge):
    refused = {"jsonrpc": "2.0", "error": {"code": -32000, "message": "no"}}
    made, _, told = bridge(httpx.Response(401, json=refused), httpx.ConnectError("down"), stream())
    for id in (1, 2, 3):
        take(made, {**CALL, "id": id, "params": {"_meta": {VERSION: "2026-07-28"}}})
    assert [(message["id"], message["error"]["code"]) for message in told] == [(1, -32000), (2, -32000), (3, -32000)]


def test_lines_that_are_no_messages(bridge):
    made, asked, told = bridge()
    serve(made, ["\n", "{\n", "7\n"])
    assert [message["error"]["code"] for message in told] == [-32700] and asked == []
