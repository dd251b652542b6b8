"""The protocol core against scripted servers of both eras."""

import re
import threading
from time import monotonic

import pytest

from connectors.mcp import http, session
from connectors.mcp.exceptions import InputRequired, McpFailed, McpRefused, SessionLost
from connectors.mcp.http import HttpTransport
from connectors.mcp.messages import LEGACY, MODERN
from connectors.mcp.session import Listener, Session
from plumbing.http import outbound
from tests.connectors.fake_mcp import ECHO, FakeMcp, ModernMcp, stream
from tests.connectors.loopback import Answer, Fault

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ELICIT = {"message": "Your name?", "requestedSchema": FORM}


@pytest.fixture
def fake():
    with FakeMcp() as made:
        yield made


@pytest.fixture
def modern():
    with ModernMcp() as made:
        yield made


def soon(seconds=10.0):
    return monotonic() + seconds


def transport(server):
    return HttpTransport(server.address, {}, ["127.0.0.1"])


def opened(server, era=""):
    return session.open_server_session(lambda: transport(server), soon(), era)


def call(open_session, seconds=10.0, **more):
    return open_session.call_tool("echo", {"text": "hello"}, soon(seconds), **more)


def done(message, text="done"):
    return {"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": text}]}}


def asked(method, identity="q1", **params):
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


# -- eras ------------------------------------------------------------------------------------------------------------


def test_a_server_with_sessions_is_recognised_and_initialised(fake):
    one = opened(fake)
    assert (one.era, one.transport.version, one.server["name"]) == (LEGACY, LEGACY, "fake")
    assert [len(fake.sent(name)) for name in ("initialize", "notifications/initialized")] == [1, 1]
    assert fake.sent("notifications/initialized")[0].headers["mcp-protocol-version"] == LEGACY


def test_a_server_without_sessions_gets_version_and_capabilities_with_every_request(modern):
    one = opened(modern)
    assert one.era == MODERN and [tool["name"] for tool in one.list_tools(soon())] == ["echo"]
    assert one.list_ttl_s == 600
    call(one)
    meta = modern.calls[0]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == MODERN
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {"elicitation": {"form": {}, "url": {}}}
    assert modern.asked[-1].headers["mcp-name"] == "echo"
    assert not any(asked.json["method"] == "initialize" for asked in modern.asked)


def test_a_known_era_is_not_asked_for_again(fake):
    opened(fake, LEGACY)
    assert fake.sent("server/discover") == []


@pytest.mark.parametrize("versions", [["2099-01-01"], ["1900-01-01", "x"]])
def test_a_server_of_unknown_versions_is_refused(modern, versions):
    modern.versions = versions
    with pytest.raises(McpFailed) as failure:
        opened(modern)
    assert failure.value.code == "unsupported_version"


def test_a_server_that_offers_an_earlier_version_alone_is_initialised(modern):
    modern.versions = [LEGACY]
    with pytest.raises(McpRefused):  # it says so, and then has no sessions after all
        opened(modern)
    assert modern.asked[-1].json["method"] == "initialize"


def test_an_unknown_version_in_the_handshake_is_refused(fake):
    fake.routes.insert(0, ("POST", re.compile("/mcp"), handshake("1999-01-01")))
    with pytest.raises(McpFailed, match="1999"):
        opened(fake, LEGACY)


def handshake(version):
    return lambda asked: {"jsonrpc": "2.0", "id": asked.json["id"], "result": {"protocolVersion": version}}


# -- streams ---------------------------------------------------------------------------------------------------------


def test_a_stream_may_begin_with_an_event_without_data(fake):
    one = opened(fake)
    fake.reply = lambda message: stream(("e1", None), ("e2", done(message)))
    assert call(one)["content"][0]["text"] == "done"


def test_a_stream_that_ends_early_is_continued_from_its_last_event(fake):
    one = opened(fake)
    kept = {}

    def begun(message):
        kept["message"] = message
        return stream(("e1", None), ("e2", {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))

    fake.reply = begun
    fake.continued = lambda asked: stream(("e3", done(kept["message"], "late")))
    assert call(one)["content"][0]["text"] == "late"
    again = [asked for asked in fake.asked if asked.method == "GET"]
    assert [one.headers["last-event-id"] for one in again] == ["e2"] and again[0].headers["mcp-session-id"] == "s1"
    assert fake.called == 1


def test_a_stream_that_is_cut_in_the_middle_is_continued(fake):
    one = opened(fake)
    kept = {}

    def begun(message):
        kept["message"] = message
        return stream(("e1", None), ("e2", done(message, "x" * 500)))

    fake.reply = begun
    fake.faults.append(Fault("/mcp", cut=True))
    fake.continued = lambda asked: stream(("e2", done(kept["message"], "whole")))
    assert call(one)["content"][0]["text"] == "whole" and fake.called == 1


def test_the_server_says_how_long_to_wait_before_connecting_again(fake):
    one = opened(fake)
    kept = {}

    def begun(message):
        kept["message"] = message
        return stream(("e1", None), retry_ms=300)

    fake.reply = begun
    fake.continued = lambda asked: stream(("e2", done(kept["message"])))
    started = monotonic()
    call(one)
    assert monotonic() - started >= 0.3


def test_a_pause_longer_than_the_call_ends_it(fake):
    one = opened(fake)
    fake.reply = lambda message: stream(("e1", None), retry_ms=60_000)
    with pytest.raises(McpFailed) as failure:
        call(one, seconds=1.0)
    assert failure.value.code == "timeout" and failure.value.was_sent


@pytest.mark.parametrize("answer", [Answer(405), Answer(400, {"jsonrpc": "2.0", "error": {"code": 1}}), Answer(404)])
def test_a_stream_that_cannot_be_continued_leaves_the_call_unknown(fake, answer):
    one = opened(fake)
    fake.reply = lambda message: stream(("e1", None))
    fake.continued = lambda asked: answer
    with pytest.raises(McpFailed) as failure:
        call(one)
    assert failure.value.was_sent and not isinstance(failure.value, SessionLost) and fake.called == 1


def test_a_stream_that_never_brings_news_is_given_up(fake, monkeypatch):
    monkeypatch.setattr(http, "RECONNECTS", 3)
    one = opened(fake)
    fake.reply = lambda message: stream(("e1", None))
    fake.continued = lambda asked: stream(("e1", None))
    with pytest.raises(McpFailed) as failure:
        call(one)
    assert failure.value.code == "server_died"
    assert sum(asked.method == "GET" for asked in fake.asked) == 3


def test_a_stream_without_event_ids_is_not_continued(fake):
    one = opened(fake)
    fake.reply = lambda message: stream({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
    with pytest.raises(McpFailed) as failure:
        call(one)
    assert failure.value.was_sent and not any(asked.method == "GET" for asked in fake.asked)


def test_the_newest_version_does_not_continue_streams(modern):
    one = opened(modern)
    modern.reply = lambda message: stream(("e1", None))
    with pytest.raises(McpFailed) as failure:
        call(one)
    assert failure.value.was_sent and len(modern.calls) == 1


# -- lost sessions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["404", "400"])
def test_a_call_refused_for_its_session_was_not_made(fake, how):
    one = opened(fake)
    fake.open.clear()
    if how == "400":
        error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
        fake.faults.append(Fault("/mcp", status=400, body={"jsonrpc": "2.0", "error": error, "id": None}))
    with pytest.raises(SessionLost) as failure:
        call(one)
    assert not failure.value.was_sent and fake.called == 0


def test_a_session_lost_while_a_call_is_under_way_does_not_mean_that_it_was_not_made(fake):
    one = opened(fake)

    def pinged(message):
        fake.open.clear()
        return stream(asked("ping"), done(message))

    fake.reply = pinged
    with pytest.raises(McpFailed) as failure:
        call(one)
    assert failure.value.was_sent and not isinstance(failure.value, SessionLost)


# -- what servers ask and say ----------------------------------------------------------------------------------------


def answers(fake):
    return [one.json for one in fake.asked if one.method == "POST" and "method" not in one.json]


def test_no_models_and_no_folders_are_given_to_servers(fake):
    one = opened(fake)
    fake.reply = lambda message: stream(
        asked("sampling/createMessage", "a"), asked("roots/list", "b"), asked("x/y", "c"), done(message)
    )
    call(one)
    sampling, roots, other = answers(fake)
    assert "sampling" in sampling["error"]["message"] and roots["result"] == {"roots": []}
    assert other["error"]["code"] == -32601


def test_progress_and_log_messages_reach_the_listener_of_their_call(fake):
    one = opened(fake)
    heard = []

    def reply(message):
        token = message["params"]["_meta"]["progressToken"]
        told = [{"progressToken": token, "progress": 1, "total": 2}, {"progressToken": "other", "progress": 9}]
        said = [{"jsonrpc": "2.0", "method": "notifications/progress", "params": one} for one in told]
        log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        return stream(*said, log, done(message))

    fake.reply = reply
    call(one, listener=Listener(on_progress=heard.append, on_log=heard.append))
    assert [told.get("progress", told.get("data")) for told in heard] == [1, "x"]


def test_lists_of_several_pages_are_read_to_the_end_and_endless_ones_are_not(fake):
    pages = {"": ("one", "c1"), "c1": ("two", "c2"), "c2": ("three", None)}

    def page(asked):
        name, after = pages[asked.json["params"].get("cursor", "")]
        return fake.result(asked.json, {"tools": [{**ECHO, "name": name}], **({"nextCursor": after} if after else {})})

    one = opened(fake)
    fake.routes.insert(0, ("POST", re.compile("/mcp"), page))
    assert [tool["name"] for tool in one.list_tools(soon())] == ["one", "two", "three"]
    pages["c2"] = ("three", "c1")
    with pytest.raises(McpFailed, match="pages"):
        one.list_tools(soon())


def test_a_cancelled_run_ends_the_call_at_once_and_tells_the_server(fake):
    one = opened(fake)
    cancelled = threading.Event()
    fake.reply = lambda message: fake.stuck.wait(300) and None
    threading.Timer(0.3, cancelled.set).start()
    started = monotonic()
    with outbound.unless(cancelled.is_set), pytest.raises(McpFailed) as failure:
        call(one, seconds=300)
    fake.stuck.set()
    assert failure.value.code == "cancelled" and monotonic() - started < 60


# -- questions -------------------------------------------------------------------------------------------------------


def test_a_question_in_the_result_is_asked_and_the_call_continued(modern):
    one = opened(modern)
    wanted = {"who": {"method": "elicitation/create", "params": ELICIT}}
    modern.reply = lambda message: {
        "resultType": "input_required", "inputRequests": wanted, "requestState": "sealed",
    }  # fmt: skip
    with pytest.raises(InputRequired) as question:
        call(one)
    assert question.value.requests == wanted and question.value.state == {"more": {"requestState": "sealed"}}
    modern.reply = lambda message: {"content": [{"type": "text", "text": "thanks"}]}
    answers = {"who": {"action": "accept", "content": {"name": "Ada"}}}
    call(one, more={"inputResponses": answers, **question.value.state["more"]})
    first, second = modern.calls
    assert second["inputResponses"] == answers and second["requestState"] == "sealed"
    assert "requestState" not in first and second["arguments"] == first["arguments"]


def test_a_stream_with_a_question_is_left_and_continued_by_another_session(fake):
    one = opened(fake)
    kept = {}

    def begun(message):
        kept["message"] = message
        return stream(("e1", None), ("e2", asked("elicitation/create", 7, **ELICIT)))

    fake.reply = begun
    with pytest.raises(InputRequired) as question:
        call(one, listener=Listener())
    state = question.value.state
    assert question.value.requests["7"]["params"]["message"] == "Your name?"
    assert (state["session_id"], state["event_id"]) == ("s1", "e2")
    fake.continued = lambda asked: stream(("e3", done(kept["message"], "Ada it is")))
    other = Session(transport(fake), LEGACY)
    answer = {"action": "accept", "content": {"name": "Ada"}}
    result = other.resume_call(state, {"7": answer}, soon(), Listener())
    assert result["content"][0]["text"] == "Ada it is" and fake.called == 1
    assert answers(fake) == [{"jsonrpc": "2.0", "id": 7, "result": answer}]


def test_where_nobody_could_go_on_a_question_is_cancelled(fake):
    one = opened(fake)
    fake.reply = lambda message: stream(asked("elicitation/create", 7, **ELICIT), done(message))
    call(one, listener=Listener())
    assert answers(fake)[0]["result"] == {"action": "cancel"}


def test_a_call_that_may_be_repeated_is_stopped_for_the_question(fake):
    one = opened(fake)
    fake.reply = lambda message: stream(asked("elicitation/create", 7, **ELICIT), done(message))
    with pytest.raises(InputRequired) as question:
        call(one, listener=Listener(may_repeat=True))
    assert question.value.state is None
    assert len(fake.sent("notifications/cancelled")) == 1
    given = {"action": "accept", "content": {"name": "Ada"}}
    call(one, listener=Listener(may_repeat=True, answer=lambda params: given))
    assert answers(fake)[-1]["result"] == given


def test_a_question_during_a_list_is_cancelled(fake):
    one = opened(fake)
    told = []

    def listed(asked_):
        told.append(asked_)
        if asked_.json.get("method") == "tools/list":
            return stream(asked("elicitation/create", 7, **ELICIT), fake.result(asked_.json, {"tools": []}))
        return Answer(202)

    fake.routes.insert(0, ("POST", re.compile("/mcp"), listed))
    assert one.list_tools(soon()) == [] and answers(fake)[0]["result"] == {"action": "cancel"}
