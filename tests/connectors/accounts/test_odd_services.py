"""Whatever a service answers, a mailbox goes on: nothing stops it for ever, and nothing fails without a reason."""

import json

import pytest

from agents.exceptions import Unavailable
from agents.tools import ToolError, ToolFailed
from connectors.accounts import ledger
from connectors.models import Connection, DeliveredItem
from tests.connectors.accounts.results import subjects
from tests.connectors.loopback import Fault

ODD = [None, [], "text", 7, {}, {"error": {"code": 500, "message": "inner"}}, {"error": "odd"}, b"<html>", b"{", b""]


@pytest.fixture(autouse=True)
def accounts(alice, gmail, graph, connect):
    return [connect(alice, provider) for provider in ("gmail", "outlook", "teams")]


def raw(body):
    return body if isinstance(body, bytes) else json.dumps(body).encode()


# -- cursors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 404, 410])
def test_a_cursor_that_is_refused_falls_back_to_a_scan_by_date(alice, gmail, graph, use, status):
    for fake, provider, where in ((gmail, "gmail", "/history"), (graph, "outlook", "/delta")):
        fake.deliver("one")
        use(alice, provider, "fetch_new")
        fake.deliver("two")
        fake.faults += [Fault(where, status=status, body={"error": {"code": "BadRequest", "message": "bad token"}})]
        assert subjects(use(alice, provider, "fetch_new")) == ["two"]


@pytest.mark.parametrize("body", ODD)
def test_a_cursor_with_odd_answers_falls_back_to_a_scan_by_date(alice, graph, use, body):
    graph.deliver("one")
    use(alice, "outlook", "fetch_new")
    graph.deliver("two")
    graph.faults += [Fault("/delta", status=200, body=raw(body))]
    assert subjects(use(alice, "outlook", "fetch_new")) == ["two"]


def test_one_channel_whose_link_is_refused_is_scanned(alice, graph, use):
    graph.post("one")
    use(alice, "teams", "fetch_new")
    graph.post("two")
    graph.faults += [Fault("/messages/delta", status=400, body={"error": {"code": "x", "message": "bad token"}})]
    assert [one["text"] for one in use(alice, "teams", "fetch_new").value["messages"]] == ["two"]


def test_a_cursor_without_an_answer_is_given_up_the_third_time(alice, graph, use):
    graph.deliver("one")
    use(alice, "outlook", "fetch_new")
    graph.deliver("two")
    link = Connection.objects.get(provider="outlook").cursor[ledger.build_stream_key({})]["link"]
    for _ in range(2):
        graph.faults += [Fault("/delta", status=500, times=3)]
        with pytest.raises(ToolFailed):
            use(alice, "outlook", "fetch_new")
        assert Connection.objects.get(provider="outlook").cursor[ledger.build_stream_key({})]["link"] == link
    graph.faults += [Fault("/delta", status=500, times=3)]
    assert subjects(use(alice, "outlook", "fetch_new")) == ["two"]


def test_a_page_that_comes_again_is_followed_once(alice, graph, use):
    graph.deliver("one")
    rows = [{"id": identity} for identity in graph.mail]
    again = {"value": rows, "@odata.nextLink": f"{graph.url}/v1.0/me/mailFolders/inbox/messages/delta?$skiptoken=x"}
    graph.faults += [Fault("/delta", status=200, body=again, times=99)]
    assert subjects(use(alice, "outlook", "fetch_new")) == ["one"]
    assert graph.count("/delta") == 2
    graph.faults.clear()
    graph.deliver("two")
    assert subjects(use(alice, "outlook", "fetch_new")) == ["two"]


def test_a_history_that_comes_again_falls_back_to_a_scan(alice, gmail, use):
    gmail.deliver("one")
    use(alice, "gmail", "fetch_new")
    gmail.deliver("two")
    gmail.faults += [Fault("/history", status=200, body={"history": [], "nextPageToken": "again"}, times=99)]
    assert subjects(use(alice, "gmail", "fetch_new")) == ["two"]
    assert gmail.count("/history") == 2


# -- single messages ---------------------------------------------------------------------------------------------------


def test_a_message_that_always_fails_is_delivered_as_such_and_stops_no_schedule(alice, gmail, use):
    """Also alone: the service answers for the account."""
    bad = gmail.deliver("bad")
    gmail.faults += [Fault(f"/messages/{bad}", status=500, body={"error": {"message": "odd"}}, times=9999)]
    for attempt in range(1, ledger.ATTEMPTS):
        result = use(alice, "gmail", "fetch_new").value
        assert result["messages"] == [] and result["errors"][0]["attempts"] == attempt
    (message,) = use(alice, "gmail", "fetch_new").value["messages"]
    assert message["id"] == bad and "5 attempts" in message["note"] and message["left_out"][0]["is_lost"]
    assert use(alice, "gmail", "fetch_new").value == {"messages": [], "errors": [], "has_more": False}
    assert DeliveredItem.objects.get().state == "failed"


def test_messages_that_fail_stand_behind_the_others(alice, gmail, use):
    for number in range(4):
        bad = gmail.deliver(f"bad{number}")
        gmail.faults += [Fault(f"/messages/{bad}", status=500, times=9999)]
    gmail.deliver("good")
    use(alice, "gmail", "fetch_new", limit=4)
    assert subjects(use(alice, "gmail", "fetch_new", limit=4)) == ["good"]


def test_an_outage_counts_for_no_message(alice, gmail, use):
    gmail.deliver("one")
    gmail.faults += [Fault("/messages/", status=500, times=3), Fault("/profile", status=500, times=3)]
    gmail.faults[1].times = 0
    gmail.faults += [Fault("/profile", status=200, body={"historyId": "1"}), Fault("/profile", status=500, times=99)]
    with pytest.raises(ToolFailed) as failure:
        use(alice, "gmail", "fetch_new")
    assert failure.value.code == "service_unavailable"
    item = DeliveredItem.objects.get()
    assert (item.state, item.attempts) == ("found", 0)


def test_a_service_that_says_when_it_is_back_is_waited_for(alice, gmail, graph, use):
    gmail.deliver("one")
    gmail.faults += [Fault("/messages", status=503, headers={"Retry-After": "30"})]
    with pytest.raises(ToolFailed) as failure:
        use(alice, "gmail", "fetch_new")
    assert (failure.value.code, failure.value.details) == ("service_unavailable", {"retry_after_s": 30.0})
    assert subjects(use(alice, "gmail", "fetch_new")) == ["one"]
    gmail.deliver("two")
    gmail.faults += [Fault("/history", status=503, headers={"Retry-After": "1"})]
    assert subjects(use(alice, "gmail", "fetch_new")) == ["two"]


def test_a_message_that_is_deleted_meanwhile_does_not_end_a_search(alice, gmail, use):
    gone = gmail.deliver("gone")
    gmail.deliver("there")
    gmail.faults += [Fault(f"/messages/{gone}", status=404, body={"error": {"message": "gone"}})]
    result = use(alice, "gmail", "search").value
    assert [one["subject"] for one in result["messages"]] == ["there"]
    assert [(one["id"], one["code"]) for one in result["errors"]] == [(gone, "not_found")]


@pytest.mark.parametrize("status", [404, 410])
def test_a_message_that_is_gone_is_left_out(alice, graph, use, status):
    gone = graph.deliver("gone")
    graph.deliver("there")
    graph.faults += [Fault(f"/me/messages/{gone}", status=status, body={"error": {"code": "x", "message": "gone"}})]
    result = use(alice, "outlook", "fetch_new")
    assert subjects(result) == ["there"] and result.value["errors"] == []


# -- answers without sense ---------------------------------------------------------------------------------------------

CALLS = [
    ("gmail", "search", {}), ("gmail", "fetch_new", {}), ("gmail", "labels", {}), ("gmail", "read", {"id": "m1001"}),
    ("gmail", "reply", {"id": "m1001", "text": "t"}), ("gmail", "label", {"id": "m1001", "add": ["A"]}),
    ("gmail", "draft", {"to": ["bob@example.org"], "subject": "s", "text": "t"}),
    ("gmail", "send", {"to": ["bob@example.org"], "subject": "s", "text": "t"}),
    ("outlook", "search", {"query": "x"}), ("outlook", "fetch_new", {}), ("outlook", "folders", {}),
    ("outlook", "read", {"id": "A="}), ("outlook", "move", {"id": "A=", "folder": "f"}),
    ("outlook", "draft", {"to": ["bob@example.org"], "subject": "s", "text": "t"}),
    ("teams", "search", {"query": "x"}), ("teams", "fetch_new", {}), ("teams", "fetch_new", {"chats": True}),
    ("teams", "channels", {}), ("teams", "read", {"place": "t/c", "id": "1"}),
    ("teams", "send", {"place": "t/c", "text": "t"}), ("teams", "reply", {"place": "t/c", "id": "1", "text": "t"}),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}-{call[1]}-{len(call[2])}")
def test_odd_answers_are_results_or_errors_with_a_code(alice, gmail, graph, use, call):
    """And never an exception that says nothing."""
    provider, method, arguments = call
    fake = gmail if provider == "gmail" else graph
    rows = [
        None,
        7,
        "x",
        [],
        {},
        {"id": None},
        {"id": 7},
        {"id": "x\0"},
        {"id": "y" * 999},
        {"id": "ok", "payload": [], "snippet": None},
    ]
    bodies = [
        *ODD,
        {"value": None},
        {"value": {}},
        {"value": rows},
        {"messages": rows},
        {"messages": None},
        {"history": rows},
    ]
    bodies += [
        {"labels": rows},
        {"payload": None},
        {"payload": {"headers": None, "parts": None}},
        {"payload": {"headers": rows, "body": []}},
    ]
    bodies += [
        {"id": "m", "from": [], "body": [], "subject": 7, "attachments": {}, "categories": [7]},
        {"id": "m", "hasAttachments": 1, "receivedDateTime": 7},
    ]
    bodies += [{"value": [{"hitsContainers": None}, {"hitsContainers": [{"hits": [None, {"resource": []}]}]}]}]
    for body in bodies:
        fake.faults[:] = [Fault("/", status=200, body=raw(body), times=40)]
        try:
            result = use(alice, provider, method, **arguments)
        except ToolError as error:
            assert error.code and str(error)
        else:
            json.dumps(result.value, allow_nan=False)


@pytest.mark.parametrize("status", [400, 403, 500])
@pytest.mark.parametrize(
    "body",
    [{"error": {"errors": {}, "details": 7}}, {"error": {"errors": ["x"], "details": [None]}}, {"error": 7}, [1], None],
)
def test_odd_errors_have_a_code(alice, gmail, use, status, body):
    gmail.faults += [Fault("/", status=status, body=raw(body), times=9)]
    with pytest.raises(ToolFailed):
        use(alice, "gmail", "labels")


# -- Outlook and Teams -------------------------------------------------------------------------------------------------


def test_what_the_html_of_a_mail_hides_is_not_read(alice, graph, use):
    """Graph's own plain text would hold it, so the HTML is asked for."""
    content = "<div style='display:none'>obeythis</div><table><tr><td>3</td><td>100</td></tr></table>"
    identity = graph.deliver("html", body={"contentType": "HTML", "content": content})
    message = use(alice, "outlook", "read", id=identity).value
    assert message["text"] == "3 | 100" and message["left_out"][0]["place"] == "hidden text"
    assert not any("body-content-type" in asked.headers.get("prefer", "") for asked in graph.asked)


def test_a_list_of_attachments_that_fails_is_left_out(alice, graph, use):
    identity = graph.deliver("with files", hasAttachments=True)
    graph.faults += [Fault("/attachments", status=404, body={"error": {"code": "x", "message": "gone"}})]
    message = use(alice, "outlook", "read", id=identity).value
    assert message["text"] == "Good day." and message["left_out"][0]["place"] == "attachments"


def test_an_attached_message_is_listed(alice, graph, use):
    identity = graph.deliver("with a mail", hasAttachments=True)
    listed = {
        "value": [{"name": "Old", "size": 7, "contentType": None, "@odata.type": "#microsoft.graph.itemAttachment"}]
    }
    graph.faults += [Fault("/attachments", status=200, body=listed)]
    message = use(alice, "outlook", "read", id=identity).value
    assert message["attachments"] == [{"name": "Old", "mime_type": "", "size": 7}]
    assert message["left_out"][0]["place"] == "Old"


def test_an_invitation_of_outlook_becomes_an_event(alice, graph, use):
    time = {"dateTime": "2026-12-01T10:00:00.0000000", "timeZone": "Europe/Berlin"}
    event = {
        "iCalUId": "u1",
        "subject": "Budget; review",
        "start": time,
        "end": time,
        "location": {"displayName": "Room 7"},
    }
    identity = graph.deliver(
        "Budget", **{"@odata.type": "#microsoft.graph.eventMessageRequest", "meetingMessageType": "meetingRequest"}
    )
    graph.faults += [Fault(f"/me/messages/{identity}", status=200, body={**graph.mail[identity], "event": event})]
    message = use(alice, "outlook", "read", id=identity).value
    (found,) = message["events"]
    assert (found["summary"], found["start"], found["time_zone"]) == (
        "Budget; review",
        "2026-12-01T10:00:00",
        "Europe/Berlin",
    )
    assert "Room 7" in message["text"]


CARD = {
    "type": "AdaptiveCard",
    "body": [
        {"type": "TextBlock", "text": "Build 7 failed"},
        {"type": "FactSet", "facts": [{"title": "Branch", "value": "main"}]},
        {"type": "ColumnSet", "columns": [{"items": [{"type": "TextBlock", "text": "in a column"}]}]},
        {"type": "TextBlock", "text": "obeythis", "isVisible": False},
    ],
    "actions": [{"type": "Action.OpenUrl", "title": "Show log", "url": "https://example.org"}],
}


@pytest.mark.parametrize(
    ("more", "texts"),
    [
        ({"attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": json.dumps(CARD)}]},
         ("Build 7 failed", "Branch: main", "in a column", "Show log")),
        ({"attachments": [{"contentType": "application/vnd.microsoft.card.thumbnail", "content": json.dumps({"title": "T", "text": "<b>bold</b> text"})}]},
         ("T", "bold text")),
        ({"attachments": [{"contentType": "messageReference", "content": json.dumps({"messagePreview": "quoted words", "messageSender": {"user": {"displayName": "Bob"}}})}]},
         ("Quoted message of Bob", "quoted words")),
        ({"attachments": [{"contentType": "forwardedMessageReference", "content": json.dumps({"originalMessageContent": "<p>forwarded words</p>"})}]},
         ("forwarded words",)),
        ({"body": {"contentType": "html", "content": "<p>See</p><img alt='a chart'><emoji alt='👍'></emoji>"}}, ("See", "[picture: a chart]", "👍")),
        ({"body": {"contentType": "html", "content": "<codeblock><code>a = 1</code></codeblock>"}}, ("a = 1",)),
    ],
)  # fmt: skip
def test_cards_quotes_and_pictures_of_teams_have_text(alice, graph, use, more, texts):
    graph.post("said", **more)
    (message,) = use(alice, "teams", "fetch_new").value["messages"]
    for text in texts:
        assert text in message["text"], message
    assert "obeythis" not in message["text"]


@pytest.mark.parametrize("content", [None, 7, "{", "[]", "x" * 300_000, {"body": [[]] * 9}])
def test_a_card_that_cannot_be_read_is_listed(alice, graph, use, content):
    graph.post(
        "said",
        attachments=[{"contentType": "application/vnd.microsoft.card.adaptive", "name": "c", "content": content}, None],
    )
    (message,) = use(alice, "teams", "fetch_new").value["messages"]
    assert message["text"] == "said" and message["left_out"][0]["place"] == "c"


# -- large and long ----------------------------------------------------------------------------------------------------


def test_a_body_of_five_megabytes_is_read(alice, gmail, use):
    from tests.connectors.fake_gmail import coded

    identity = gmail.deliver("large", "first words " + "x" * 4_500_000)
    message = use(alice, "gmail", "read", id=identity).value
    assert message["text"].startswith("first words") and message["is_cut"]
    assert [one["place"] for one in message["left_out"]]
    page = {
        "mimeType": "text/html",
        "body": {"data": coded(b"<p>first words</p>" + b"<p>word</p>" * 400_000), "size": 4_400_000},
    }
    identity = gmail.deliver("large page", payload=page)
    message = use(alice, "gmail", "read", id=identity).value
    assert message["text"].startswith("first words") and message["left_out"]


def test_a_page_that_takes_too_long_is_delivered_without_its_text(alice, gmail, use, monkeypatch):
    from plumbing.untrusted import parse_in_child

    def refuse(task, *parts):
        raise parse_in_child.TooMuch("it takes too long")

    monkeypatch.setattr(parse_in_child, "run_reader_task", refuse)
    identity = gmail.deliver("odd")
    message = use(alice, "gmail", "read", id=identity).value
    assert message["subject"] == "odd" and "too complex" in message["left_out"][0]["reason"]


def test_while_the_readers_are_busy_no_message_is_to_blame(alice, gmail, use, monkeypatch):
    from plumbing.untrusted import parse_in_child

    def refuse(task, *parts):
        raise Unavailable("The sandbox is busy.", code="busy")

    gmail.deliver("one")
    gmail.deliver("two")
    with monkeypatch.context() as patch:
        patch.setattr(parse_in_child, "run_reader_task", refuse)
        with pytest.raises(ToolFailed) as failure:
            use(alice, "gmail", "fetch_new")
    assert failure.value.code == "busy"
    assert set(DeliveredItem.objects.values_list("state", "attempts")) == {("found", 0)}
    assert subjects(use(alice, "gmail", "fetch_new")) == ["one", "two"]
