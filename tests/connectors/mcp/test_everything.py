"""The protocol core against the reference server that uses every feature, over both transports.

It needs Node.js and `npm install @modelcontextprotocol/server-everything` in any folder.
"""

import os
import shutil
from pathlib import Path
from time import monotonic

import httpx2
import pytest

from connectors.mcp import session
from connectors.mcp.exceptions import InputRequired, SessionLost
from connectors.mcp.http import HttpTransport
from connectors.mcp.messages import LEGACY
from connectors.mcp.programs import ProgramTransport
from connectors.mcp.session import Listener, Session
from tests.servers import free_port, served

SERVER = os.environ.get("EVERYTHING_SERVER", "")
pytestmark = pytest.mark.skipif(
    not (SERVER and Path(SERVER).exists() and shutil.which("node")),
    reason="EVERYTHING_SERVER does not name the dist/index.js of an installed @modelcontextprotocol/server-everything",
)


@pytest.fixture(scope="module")
def address():
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    with served(["node", SERVER, "streamableHttp"], url, PORT=str(port)):
        yield url


@pytest.fixture(params=["http", "stdio"])
def opened(request, address):
    make = http(address) if request.param == "http" else lambda: ProgramTransport(["node", SERVER, "stdio"])
    one = session.open_server_session(make, soon())
    yield one
    one.close()


def http(address):
    return lambda: HttpTransport(address, {}, ["127.0.0.1"])


def soon(seconds=30.0):
    return monotonic() + seconds


def text_of(result):
    return "\n".join(part.get("text", "") for part in result["content"])


def test_tools_are_listed_and_called(opened):
    assert opened.era == LEGACY
    assert {"echo", "get-sum", "get-structured-content"} <= {tool["name"] for tool in opened.list_tools(soon())}
    assert text_of(opened.call_tool("echo", {"message": "hi"}, soon())) == "Echo: hi"
    weather = opened.call_tool("get-structured-content", {"location": "Chicago"}, soon())["structuredContent"]
    assert {"temperature", "conditions", "humidity"} <= weather.keys()
    image = opened.call_tool("get-tiny-image", {}, soon())["content"][1]
    assert image["type"] == "image" and image["mimeType"] == "image/png"


def test_a_long_call_reports_its_progress(opened):
    told = []
    listener = Listener(on_progress=told.append)
    opened.call_tool("trigger-long-running-operation", {"duration": 1, "steps": 2}, soon(), listener=listener)
    assert [one["progress"] for one in told] == [1, 2]


def test_a_question_is_answered_by_another_session(address):
    one = session.open_server_session(http(address), soon())
    with pytest.raises(InputRequired) as question:
        one.call_tool("trigger-elicitation-request", {}, soon(), listener=Listener())
    key = next(iter(question.value.requests))
    answer = {"action": "accept", "content": {"name": "Ada", "check": True}}
    result = Session(http(address)(), LEGACY).resume_call(question.value.state, {key: answer}, soon(), Listener())
    assert "Name: Ada" in text_of(result)


def test_over_pipes_a_question_that_cannot_wait_is_cancelled():
    one = session.open_server_session(lambda: ProgramTransport(["node", SERVER, "stdio"]), soon())
    try:
        assert "cancel" in text_of(one.call_tool("trigger-elicitation-request", {}, soon(), listener=Listener()))
    finally:
        one.close()


def test_a_page_to_visit_before_the_call_is_a_question(opened):
    given = {"url": "https://example.com/x", "message": "Visit", "errorPath": True}
    with pytest.raises(InputRequired) as question:
        opened.call_tool("trigger-url-elicitation", given, soon(), listener=Listener())
    request = next(iter(question.value.requests.values()))
    assert request["params"]["mode"] == "url" and question.value.state is None


def test_a_session_that_the_server_has_ended_is_recognised(address):
    one = session.open_server_session(http(address), soon())
    httpx2.delete(address, headers={"Mcp-Session-Id": one.transport.session_id, "MCP-Protocol-Version": LEGACY})
    with pytest.raises(SessionLost):
        one.call_tool("echo", {"message": "hi"}, soon())
