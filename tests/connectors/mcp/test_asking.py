"""What a server asks outside of its answers (over the stream of a GET), against the reference SDK."""

import re
import sys
import threading
from time import monotonic

import pytest

from connectors.mcp import server_stream, session
from connectors.mcp.exceptions import InputRequired, McpFailed
from connectors.mcp.http import HttpTransport
from connectors.mcp.messages import LEGACY
from connectors.mcp.session import Listener, Session
from plumbing.http import outbound
from tests.connectors.fake_mcp import FakeMcp, stream
from tests.connectors.loopback import Answer
from tests.live import wait_for
from tests.servers import free_port, served

MAY_REPEAT = Listener(may_repeat=True)
ADA = {"action": "accept", "content": {"name": "Ada"}}


def run_server(**environment):
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    command = [sys.executable, "-m", "tests.connectors.mcp_asking_server"]
    return url, served(command, url, MCP_TEST_PORT=str(port), **environment)


@pytest.fixture(scope="module")
def address():
    url, running = run_server()
    with running:
        yield url


@pytest.fixture(scope="module")
def lasting():
    """A server whose streams can be continued."""
    url, running = run_server(MCP_TEST_EVENTS="1")
    with running:
        yield url


def transport(address):
    return HttpTransport(address, {}, ["127.0.0.1"])


def soon(seconds=60.0):
    return monotonic() + seconds


@pytest.fixture
def open_session():
    opened = []

    def make(address):
        one = session.open_server_session(lambda: transport(address), soon(), LEGACY)
        opened.append(one)
        return one

    yield make
    for one in opened:
        one.close()


def text_of(result):
    return result["content"][0]["text"]


def test_pings_roots_and_models_are_answered(address, open_session):
    said = text_of(open_session(address).call_tool("look_around", {}, soon(), listener=Listener()))
    assert said.startswith("0 roots; ") and "sampling" in said


def test_a_question_that_nobody_could_wait_for_is_cancelled(address, open_session):
    one = open_session(address)
    assert text_of(one.call_tool("ask", {}, soon(), listener=Listener())) == "cancel"
    assert text_of(one.call_tool("ask", {}, soon(), listener=Listener())) == "cancel"


def test_a_question_is_answered_at_once_where_the_answer_is_known(address, open_session):
    known = Listener(answer=lambda params: ADA, may_repeat=True)
    assert text_of(open_session(address).call_tool("ask", {}, soon(), listener=known)) == "accept Ada"


def test_a_call_that_may_be_repeated_is_stopped_for_the_question(address, open_session):
    with pytest.raises(InputRequired) as question:
        open_session(address).call_tool("ask", {}, soon(), listener=MAY_REPEAT)
    [asked] = question.value.requests.values()
    assert asked["params"]["message"] == "Your name?" and question.value.state is None


def test_a_call_is_left_for_the_question_and_continued_by_another_process(lasting, open_session):
    one = open_session(lasting)
    with pytest.raises(InputRequired) as question:
        one.call_tool("ask", {}, soon(), listener=Listener())
    one.stop_listening()
    state, [key] = question.value.state, question.value.requests
    assert state["session_id"] == one.transport.session_id and state["event_id"]
    other = Session(transport(lasting), LEGACY)
    try:
        assert text_of(other.resume_call(state, {key: ADA}, soon(), Listener())) == "accept Ada"
    finally:
        other.stop_listening()
        other.transport.leave()


def test_a_cancelled_run_still_ends_its_call(address, open_session):
    one = open_session(address)
    cancelled = threading.Event()
    waits = Listener(answer=lambda params: cancelled.wait(60) and None, may_repeat=True)
    threading.Timer(0.3, cancelled.set).start()
    with outbound.unless(cancelled.is_set), pytest.raises((McpFailed, InputRequired)):
        one.call_tool("ask", {}, soon(), listener=waits)


# -- servers that do what no good one does -----------------------------------------------------------------------------


@pytest.fixture
def fake():
    with FakeMcp() as made:
        yield made


def done(message):
    return {"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "done"}]}}


def asking(identity, method="elicitation/create", params=None):
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params or {"message": "?"}}


ODD = [
    Answer(405),
    Answer(404),
    Answer(401),
    Answer(500, {"error": "no"}),
    Answer(200, {"not": "a stream"}),
    Answer(302, None, {"Location": "/elsewhere"}),
    Answer(202),
    stream(),
    stream({"jsonrpc": "2.0", "method": "notifications/message", "params": 7}),
    stream({"jsonrpc": "2.0", "id": 1, "result": {}}, asking(None), asking({"a": 1}), asking("x", "y/z", None)),
    Answer(200, b"data: " + b"x" * 3_000_000 + b"\n\n", {"Content-Type": "text/event-stream"}),
    Answer(200, b"data: [[[[\n\ndata: 7\n\n\xff\xfe\n\n", {"Content-Type": "text/event-stream"}),
]


@pytest.mark.parametrize("answer", ODD, ids=range(len(ODD)))
def test_whatever_the_stream_holds_the_call_is_answered(fake, answer, open_session, monkeypatch):
    monkeypatch.setattr(server_stream, "LEAST_PAUSE_S", 0.0)
    fake.continued = lambda asked: answer
    one = open_session(fake.address)
    assert text_of(one.call_tool("echo", {"text": "x"}, soon(), listener=Listener())) == "x"


def test_a_server_that_does_not_answer_the_get_costs_a_second_once(fake, open_session):
    slow, gets = threading.Event(), []

    def answer_late(asked):
        gets.append(asked)
        slow.wait(120)
        return Answer(405)

    fake.routes.insert(0, ("GET", re.compile("/mcp"), answer_late))
    fake.lock = FreeLock()
    one = open_session(fake.address)
    for _ in range(2):
        one.call_tool("echo", {"text": "x"}, soon(), listener=Listener())
    assert len(gets) == 1 and not slow.is_set()
    slow.set()


class FreeLock:
    """Lets handlers run beside each other."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def test_a_question_outside_of_any_call_is_cancelled(fake, open_session):
    said = threading.Event()
    one = open_session(fake.address)
    fake.continued = lambda asked: stream(asking("q")) if not said.is_set() else Answer(405)
    one.call_tool("echo", {"text": "x"}, soon(), listener=Listener())
    answers = wait_for(
        lambda: [asked.json for asked in fake.asked if asked.method == "POST" and "result" in asked.json]
    )
    said.set()
    assert answers[0] == {"jsonrpc": "2.0", "id": "q", "result": {"action": "cancel"}}


def test_a_session_may_be_closed_while_a_request_of_the_server_is_answered(fake, monkeypatch, caplog):
    asked, closed = threading.Event(), threading.Event()

    def answer_late(method):
        asked.set()
        closed.wait(60)
        return {"result": {}}

    monkeypatch.setattr(session, "build_server_reply", answer_late)
    fake.continued = lambda _: stream(asking("p", "ping")) if not asked.is_set() else Answer(405)
    one = session.open_server_session(lambda: transport(fake.address), soon(), LEGACY)
    one.call_tool("echo", {"text": "x"}, soon(), listener=Listener())
    assert asked.wait(60)
    one.close()
    closed.set()
    for reader in [thread for thread in threading.enumerate() if thread.name == "mcp-server-stream"]:
        reader.join(60)
        assert not reader.is_alive()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
