import pytest

from agents.tools import RetryTool, ToolFailed
from connectors.models import Connection
from tests.connectors.accounts.results import subjects
from tests.connectors.loopback import Fault

GENERAL = "t1/19:general@thread.tacv2"


@pytest.fixture(autouse=True)
def account(alice, graph, connect):
    connect(alice, "outlook")
    connect(alice, "teams")


def texts(result):
    return [message["text"] for message in result.value["messages"]]


# -- mail ------------------------------------------------------------------------------------------------------------


def test_mail_is_read_through_pages_and_then_by_delta(alice, graph, use):
    graph.deliver("too old", days_ago=8)
    wanted = [f"m{number}" for number in range(25)]
    for subject in wanted:
        graph.deliver(subject)
    assert subjects(use(alice, "outlook", "fetch_new")) == wanted
    assert subjects(use(alice, "outlook", "fetch_new")) == []
    graph.deliver("new")
    assert subjects(use(alice, "outlook", "fetch_new")) == ["new"]


def test_an_old_delta_link_falls_back_to_a_scan_by_date(alice, graph, use):
    graph.deliver("one")
    use(alice, "outlook", "fetch_new")
    graph.deliver("two")
    graph.forget_deltas()
    assert subjects(use(alice, "outlook", "fetch_new")) == ["two"]


def test_a_page_that_breaks_off_moves_no_cursor(alice, graph, use):
    for number in range(15):
        graph.deliver(f"m{number}")
    graph.faults += [Fault("/delta", cut=True, times=3)]
    with pytest.raises(ToolFailed):
        use(alice, "outlook", "fetch_new")
    assert Connection.objects.get(provider="outlook").cursor == {}
    assert len(subjects(use(alice, "outlook", "fetch_new"))) == 15


def test_ids_are_asked_for_that_do_not_change_when_a_message_is_moved(alice, graph, use):
    graph.deliver("one")
    use(alice, "outlook", "fetch_new")
    assert all("ImmutableId" in asked.headers.get("prefer", "") for asked in graph.asked if "messages" in asked.path)


def test_senders_and_words_leave_others_out_for_good(alice, graph, use):
    graph.deliver("bill", "please pay")
    graph.deliver("chat", "how are you")
    assert subjects(use(alice, "outlook", "fetch_new", query="please")) == ["bill"]
    assert subjects(use(alice, "outlook", "fetch_new", query="please")) == []


def test_throttling_is_told_with_its_time(alice, graph, use):
    graph.deliver("one")
    graph.faults += [Fault("/delta", status=429, headers={"Retry-After": "30"})]
    with pytest.raises(ToolFailed) as failure:
        use(alice, "outlook", "fetch_new")
    assert failure.value.code == "rate_limited"
    assert subjects(use(alice, "outlook", "fetch_new")) == ["one"]


def test_a_next_page_on_another_host_gets_no_token(alice, graph, use):
    body = {"value": [], "@odata.nextLink": "https://evil.example/v1.0/me"}
    graph.faults += [Fault("/delta", status=200, body=body)]
    with pytest.raises(ToolFailed) as failure:
        use(alice, "outlook", "fetch_new")
    assert failure.value.code == "bad_answer"


def test_it_reads_html_and_names_attachments(alice, graph, use):
    body = {"contentType": "html", "content": "<p>Hello</p><style>x</style><p>you</p>"}
    identity = graph.deliver("html", body=body, hasAttachments=True)
    message = use(alice, "outlook", "read", id=identity)
    assert message.untrusted and message.value["text"] == "Hello\n\nyou"
    assert message.value["attachments"][0]["name"] == "bill.pdf"
    assert message.value["from"] == "Dora <dora@example.net>"


def test_a_message_without_a_body_is_a_message(alice, graph, use):
    identity = graph.deliver("empty", body={"contentType": "html", "content": None})
    assert use(alice, "outlook", "read", id=identity).value["text"] == ""


def test_it_sends_replies_drafts_moves_searches_and_lists(alice, graph, use):
    identity = graph.deliver("Question", "find me")
    use(alice, "outlook", "send", to=["bob@example.org"], subject="Hi", text="there")
    use(alice, "outlook", "reply", id=identity, text="Answer")
    assert graph.sent[0]["message"]["toRecipients"] == [{"emailAddress": {"address": "bob@example.org"}}]
    assert graph.sent[1] == (identity, {"comment": "Answer"})
    assert use(alice, "outlook", "draft", to=["b@example.org"], subject="s", text="t").value["id"] == "draft="
    assert use(alice, "outlook", "move", id=identity, folder="archive").value["folder"] == "archive"
    assert use(alice, "outlook", "search", query='find" me').ok
    assert use(alice, "outlook", "folders").value["folders"][0]["name"] == "Inbox"


def test_an_id_is_one_segment_of_a_path(alice, use):
    with pytest.raises(RetryTool):
        use(alice, "outlook", "read", id="../../users")


# -- Teams -----------------------------------------------------------------------------------------------------------


def test_channels_are_read_by_delta_each_with_its_own_link(alice, graph, use):
    graph.channels["t1/19:random@thread.tacv2"] = []
    graph.post("one")
    graph.post("two", place="t1/19:random@thread.tacv2")
    assert sorted(texts(use(alice, "teams", "fetch_new"))) == ["one", "two"]
    graph.post("three")
    assert texts(use(alice, "teams", "fetch_new")) == ["three"]


def test_one_channel_whose_link_expired_is_scanned_the_others_go_on(alice, graph, use):
    graph.post("one")
    use(alice, "teams", "fetch_new")
    graph.post("two")
    graph.forget_deltas()
    assert texts(use(alice, "teams", "fetch_new")) == ["two"]


def test_a_chosen_channel_only(alice, graph, use):
    graph.channels["t1/19:random@thread.tacv2"] = []
    graph.post("here")
    graph.post("there", place="t1/19:random@thread.tacv2")
    assert texts(use(alice, "teams", "fetch_new", channels=[GENERAL])) == ["here"]


def test_chats_come_by_date_and_once(alice, graph, use):
    graph.post("psst", place="19:chat@unq.gbl.spaces")
    assert texts(use(alice, "teams", "fetch_new", chats=True)) == ["psst"]
    graph.post("again", place="19:chat@unq.gbl.spaces")
    assert texts(use(alice, "teams", "fetch_new", chats=True)) == ["again"]


def test_what_the_system_says_and_what_was_deleted_are_no_messages(alice, graph, use):
    graph.post("joined", messageType="systemEventMessage")
    graph.post("gone", deletedDateTime="2026-01-01T00:00:00Z")
    graph.post("real")
    assert texts(use(alice, "teams", "fetch_new")) == ["real"]


def test_it_reads_replies_and_writes(alice, graph, use):
    identity = graph.post("thread")
    message = use(alice, "teams", "read", place=GENERAL, id=identity).value
    assert message["replies"][0]["text"] == "a reply"
    use(alice, "teams", "send", place=GENERAL, text="hello")
    use(alice, "teams", "reply", place=GENERAL, id=identity, text="yes")
    use(alice, "teams", "send", place="19:chat@unq.gbl.spaces", text="psst")
    assert [sent[0] for sent in graph.sent] == [GENERAL, GENERAL, "19:chat@unq.gbl.spaces"]
    assert use(alice, "teams", "search", query="found").value["messages"][0]["id"] == "1"
    assert use(alice, "teams", "channels").value["channels"][0]["channel_id"] == "19:general@thread.tacv2"


def test_a_channel_that_is_not_mine_is_not_there(alice, use):
    with pytest.raises(ToolFailed) as failure:
        use(alice, "teams", "fetch_new", channels=["t9/19:nowhere@thread.tacv2"])
    assert failure.value.code == "not_found"
