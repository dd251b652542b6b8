from email.header import decode_header, make_header

import pytest

from agents.tools import OutcomeUnknown, RetryTool, ToolFailed
from connectors.accounts import ledger
from connectors.accounts.gmail import Gmail
from connectors.models import Connection, DeliveredItem
from tests.connectors.accounts.results import subjects
from tests.connectors.fake_gmail import coded
from tests.connectors.loopback import Fault


@pytest.fixture
def account(alice, gmail, connect):
    return connect(alice, "gmail")


def fetch(use, alice, **more):
    return use(alice, "gmail", "fetch_new", **more)


def test_the_first_run_looks_back_seven_days_and_no_further(alice, account, gmail, use):
    gmail.deliver("too old", days_ago=8)
    gmail.deliver("older", days_ago=6)
    gmail.deliver("newer")
    assert subjects(fetch(use, alice)) == ["older", "newer"]


def test_the_next_run_gets_only_what_is_new(alice, account, gmail, use):
    gmail.deliver("one")
    assert subjects(fetch(use, alice)) == ["one"]
    gmail.deliver("two")
    assert subjects(fetch(use, alice)) == ["two"]
    assert subjects(fetch(use, alice)) == []
    assert gmail.count("/history") == 2


def test_many_pages_lose_and_double_nothing(alice, account, gmail, use):
    gmail.page_size = 7
    wanted = [gmail.deliver(f"m{number}") for number in range(40)]
    first = fetch(use, alice, limit=25)
    assert first.value["has_more"]
    wanted += [gmail.deliver(f"n{number}") for number in range(30)]
    seen = [message["id"] for message in first.value["messages"]]
    while batch := fetch(use, alice, limit=25).value["messages"]:
        seen += [message["id"] for message in batch]
    assert sorted(seen) == sorted(wanted)


def test_the_same_call_made_again_gets_the_same_messages(alice, account, gmail, use):
    """Its worker died before the answer was written down: the runner repeats it under its id."""
    gmail.deliver("one")
    gmail.deliver("two")
    first = fetch(use, alice, call_id="call-1", limit=1)
    again = fetch(use, alice, call_id="call-1", limit=1)
    assert subjects(first) == subjects(again) == ["one"]
    assert subjects(fetch(use, alice, call_id="call-2")) == ["two"]


def test_a_call_that_broke_in_the_middle_of_a_page_misses_and_doubles_nothing(alice, account, gmail, use):
    gmail.page_size = 5
    for number in range(12):
        gmail.deliver(f"m{number}")
    gmail.faults += [Fault("/messages", cut=True, times=3)]
    with pytest.raises(ToolFailed) as failure:
        fetch(use, alice)
    assert failure.value.code == "service_unavailable"
    assert len(subjects(fetch(use, alice))) == 12
    assert subjects(fetch(use, alice)) == []


def test_a_worker_that_died_with_claimed_messages_does_not_keep_them(alice, account, gmail, use, time_machine):
    gmail.deliver("one")
    connection = Connection.objects.get()
    stream = ledger.build_stream_key({})
    ledger.note_found(connection, stream, ["m1001"])
    assert len(ledger.claim_oldest_items(connection, stream, "dead-call", 10)) == 1
    assert subjects(fetch(use, alice)) == []
    later = DeliveredItem.objects.get().claimed_at + ledger.STALE * 1.1
    assert len(ledger.claim_oldest_items(connection, stream, "next-call", 10, later)) == 1


def test_an_expired_cursor_falls_back_to_a_scan_by_date(alice, account, gmail, use):
    gmail.deliver("one")
    fetch(use, alice)
    gmail.deliver("two")
    gmail.forget_history()
    assert subjects(fetch(use, alice)) == ["two"]
    gmail.deliver("three")
    assert subjects(fetch(use, alice)) == ["three"]


def test_duplicate_ids_in_a_page_come_once(alice, account, gmail, use):
    gmail.deliver("one")
    fetch(use, alice)
    identity = gmail.deliver("two")
    gmail.history += [(gmail.clock, identity)] * 3
    assert subjects(fetch(use, alice)) == ["two"]


def test_own_sent_mail_and_drafts_are_not_new_mail(alice, account, gmail, use):
    gmail.deliver("draft", labels=("DRAFT",))
    gmail.deliver("mine", labels=("SENT",))
    gmail.deliver("to myself", labels=("SENT", "INBOX"))
    assert subjects(fetch(use, alice)) == ["to myself"]


def test_labels_have_a_cursor_of_their_own(alice, account, gmail, use):
    gmail.deliver("work", labels=("INBOX", "Label_1"))
    gmail.deliver("rest")
    assert subjects(fetch(use, alice, labels=["Label_1"])) == ["work"]
    assert subjects(fetch(use, alice)) == ["rest"]


def test_a_message_that_is_deleted_before_it_is_read_is_left_out(alice, account, gmail, use):
    gone = gmail.deliver("gone")
    gmail.deliver("there")
    gmail.faults += [Fault(f"/messages/{gone}", status=404, body={"error": {"message": "gone"}})]
    result = fetch(use, alice)
    assert subjects(result) == ["there"] and result.value["errors"] == []


def test_a_message_that_cannot_be_read_is_told_of_and_tried_again(alice, account, gmail, use):
    bad = gmail.deliver("bad")
    gmail.deliver("good")
    gmail.faults += [Fault(f"/messages/{bad}", status=400, body={"error": {"message": "odd"}}, times=1)]
    result = fetch(use, alice)
    assert subjects(result) == ["good"]
    assert result.value["errors"][0]["id"] == bad
    assert subjects(fetch(use, alice)) == ["bad"]


def test_a_message_that_never_can_be_read_is_given_up_after_five_times(alice, account, gmail, use):
    bad = gmail.deliver("bad")
    gmail.faults += [Fault(f"/messages/{bad}", status=400, body={"error": {"message": "odd"}}, times=99)]
    for _ in range(6):
        fetch(use, alice)
    item = DeliveredItem.objects.get()
    assert (item.state, item.attempts) == ("failed", 5) and "odd" in item.error


def test_throttling_for_a_minute_frees_the_worker_and_loses_nothing(alice, account, gmail, use):
    gmail.deliver("one")
    gmail.faults += [Fault("/messages/m", status=429, headers={"Retry-After": "60"})]
    with pytest.raises(ToolFailed) as failure:
        fetch(use, alice)
    assert failure.value.code == "rate_limited" and failure.value.details == {"retry_after_s": 60.0}
    assert subjects(fetch(use, alice)) == ["one"]


def test_a_short_throttle_is_waited_out(alice, account, gmail, use):
    gmail.deliver("one")
    gmail.faults += [Fault("/messages/m", status=429, headers={"Retry-After": "0"}), Fault("/messages/m", status=503)]
    assert subjects(fetch(use, alice)) == ["one"]


def test_a_long_text_is_cut_with_a_mark(alice, account, gmail, use):
    gmail.deliver("long", "word " * 1000)
    message = fetch(use, alice, max_chars=100).value["messages"][0]
    assert message["is_cut"] and message["text_length"] == 5000
    assert message["text"].endswith("[cut: 4900 more characters]")


def test_a_message_of_25_mb_is_read_without_its_body(alice, account, gmail, use):
    identity = gmail.deliver("huge", "x" * 25_000_000)
    message = use(alice, "gmail", "read", id=identity).value
    assert message["subject"] == "huge" and message["is_cut"] and message["text"].startswith("xxx")
    assert "[cut:" in message["text"] and message["note"]


def html(source, charset="utf-8"):
    return {
        "mimeType": "text/html",
        "headers": [{"name": "Content-Type", "value": f"text/html; charset={charset}"}],
        "body": {"data": coded(source)},
    }


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (html(b"<style>p{}</style><p>Hello</p><script>x()</script><p>you</p>"), "Hello\n\nyou"),
        (html("<p>caf\u00e9</p>".encode("latin-1"), "latin-1"), "café"),
        (html("<p>caf\u00e9</p>".encode("latin-1"), "klingon"), "café"),
        (html(b"<p>\xff\xfe ok</p>", "utf-8"), "\ufffd\ufffd ok"),
        ({"mimeType": "image/png", "body": {"attachmentId": "a", "size": 9}, "filename": "a.png"}, ""),
        ({"mimeType": "multipart/mixed", "parts": []}, ""),
        ({"mimeType": "text/plain", "body": {"data": "!!! not base64 !!!"}}, ""),
    ],
)
def test_it_reads_what_it_can_of_any_message(alice, account, gmail, use, payload, text):
    identity = gmail.deliver("odd", payload=payload)
    assert use(alice, "gmail", "read", id=identity).value["text"] == text


def test_attachments_are_named_not_sent(alice, account, gmail, use):
    plain = {"mimeType": "text/plain", "body": {"data": coded(b"see below")}}
    bill = {"mimeType": "application/pdf", "filename": "bill.pdf", "body": {"attachmentId": "x", "size": 12345}}
    identity = gmail.deliver("bill", payload={"mimeType": "multipart/mixed", "parts": [plain, bill]})
    message = use(alice, "gmail", "read", id=identity).value
    assert message["text"] == "see below"
    assert message["attachments"] == [{"name": "bill.pdf", "mime_type": "application/pdf", "size": 12345}]


def test_what_it_reads_is_marked_as_written_by_strangers(alice, account, gmail, use):
    identity = gmail.deliver()
    assert use(alice, "gmail", "read", id=identity).untrusted
    assert not use(alice, "gmail", "send", to=["bob@example.org"], subject="Hi", text="there").untrusted


def test_it_sends_a_message(alice, account, gmail, use):
    use(alice, "gmail", "send", to=["bob@example.org"], cc=["eve@example.org"], subject="Grüße", text="Schönen Tag")
    mail, _ = gmail.sent[0]
    assert (mail["To"], mail["Cc"]) == ("bob@example.org", "eve@example.org")
    assert str(make_header(decode_header(mail["Subject"]))) == "Grüße"
    assert mail.get_payload(decode=True).decode().strip() == "Schönen Tag"


def test_a_subject_cannot_smuggle_a_header(alice, account, gmail, use):
    with pytest.raises(RetryTool):
        use(alice, "gmail", "send", to=["bob@example.org"], subject="Hi\r\nBcc: eve@example.org", text="x")
    assert gmail.sent == []


def test_a_reply_stays_in_its_thread(alice, account, gmail, use):
    identity = gmail.deliver("Question")
    use(alice, "gmail", "reply", id=identity, text="Answer")
    mail, thread = gmail.sent[0]
    assert (mail["To"], mail["Subject"]) == ("dora@example.net", "Re: Question")
    assert mail["In-Reply-To"] == f"<{identity}@example.net>" and thread == gmail.messages[identity]["threadId"]


def test_a_send_that_broke_off_is_never_repeated(alice, account, gmail, use):
    gmail.faults += [Fault("/messages/send", hang_up=True)]
    with pytest.raises(OutcomeUnknown):
        use(alice, "gmail", "send", to=["bob@example.org"], subject="Hi", text="x")
    assert gmail.count("/messages/send") == 1


def test_it_searches_labels_drafts_and_moves(alice, account, gmail, use):
    identity = gmail.deliver("Findable")
    assert use(alice, "gmail", "search").value["messages"][0]["subject"] == "Findable"
    assert use(alice, "gmail", "labels").value["labels"][1]["name"] == "Work"
    assert use(alice, "gmail", "draft", to=["bob@example.org"], subject="s", text="t").value["id"] == "d1"
    done = use(alice, "gmail", "label", id=identity, add=["Label_1"], remove=["INBOX"]).value
    assert done["labels"] == ["Label_1"]


@pytest.mark.parametrize("identity", ["../../drafts", "a/b", "..", "x?y=1", "x y"])
def test_an_id_is_one_segment_of_a_path(alice, account, use, identity):
    with pytest.raises(RetryTool):
        use(alice, "gmail", "read", id=identity)


def test_a_scope_that_was_not_given_is_asked_for_before_anything_is_sent(alice, gmail, connect, use):
    connect(alice, "gmail", scopes=["https://www.googleapis.com/auth/gmail.readonly"])
    with pytest.raises(ToolFailed) as failure:
        use(alice, "gmail", "send", to=["bob@example.org"], subject="Hi", text="x")
    assert failure.value.code == "missing_scope" and "access=send" in failure.value.details["reconnect"]
    assert gmail.asked == []


def test_a_scope_that_the_service_misses_is_told_as_such(alice, account, gmail, use):
    body = {"error": {"code": 403, "message": "Request had insufficient authentication scopes."}}
    gmail.faults += [Fault("/messages", status=403, body=body)]
    with pytest.raises(ToolFailed) as failure:
        use(alice, "gmail", "search")
    assert failure.value.code == "missing_scope"


def test_without_an_account_it_says_so(charlie, account, use):
    """Alice's account is no stranger's."""
    with pytest.raises(ToolFailed) as failure:
        use(charlie, "gmail", "search")
    assert failure.value.code == "connection_missing"


def test_one_of_several_accounts_is_chosen_by_name(alice, gmail, connect, use):
    connect(alice, "gmail", name="private")
    connect(alice, "gmail", name="work", account="alice@work.example")
    gmail.deliver()
    assert use(alice, "gmail", "search", account="ALICE@work.example").ok
    with pytest.raises(RetryTool, match="private"):
        use(alice, "gmail", "search", account="nobody")


def html_part(text):
    return {"mimeType": "text/html", "body": {"data": coded(text.encode()), "size": len(text)}}


def test_mails_that_break_a_reader_are_read_and_stop_no_other(alice, account, gmail, use):
    gmail.deliver("before")
    odd = gmail.deliver("odd", payload=html_part("<p>Hello</p><![x and so on"))
    strange = gmail.deliver("=?\u00fc?B?YQ==?=")
    gmail.deliver("after")
    result = fetch(use, alice)
    assert subjects(result) == ["before", "odd", "=?\u00fc?B?YQ==?=", "after"] and result.value["errors"] == []
    assert "Hello" in use(alice, "gmail", "read", id=odd).value["text"]
    assert use(alice, "gmail", "read", id=strange).ok
    assert len(use(alice, "gmail", "search").value["messages"]) == 4


@pytest.mark.parametrize(
    "broken",
    [
        {"parts": "none"},
        {"parts": [7]},
        {"body": {"data": 7}},
        {"filename": 7},
        {"filename": "a", "body": {"size": "x"}},
    ],
)
def test_a_mail_that_nobody_can_read_is_delivered_as_such(alice, account, gmail, use, broken):
    bad = gmail.deliver("bad", payload={**html_part("x"), **broken})
    gmail.deliver("good")
    first, second = fetch(use, alice).value["messages"]
    assert second["subject"] == "good"
    assert (first["id"], first["subject"]) == (bad, "bad") and "cannot be read" in first["note"]
    assert first["headers"]["message-id"] == f"<{bad}@example.net>"
    assert "cannot be read" in use(alice, "gmail", "read", id=bad).value["note"]
    assert subjects(fetch(use, alice)) == []


def test_a_mail_that_its_service_cannot_give_stops_no_other(alice, account, gmail, use):
    """It answers 500 for this one, for ever: the mail is reported, tried five times, and given up."""
    bad = gmail.deliver("bad")
    gmail.deliver("good")
    gmail.faults += [Fault(f"/messages/{bad}", status=500, body={"error": {"message": "odd"}}, times=999)]
    result = fetch(use, alice)
    assert subjects(result) == ["good"]
    assert [(one["id"], one["code"]) for one in result.value["errors"]] == [(bad, "unreadable")]


def test_whatever_breaks_a_call_leaves_no_mail_claimed(alice, account, gmail, use, monkeypatch):
    gmail.deliver("one")
    with monkeypatch.context() as patch:
        patch.setattr(Gmail, "read_each", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fetch(use, alice)
    assert subjects(fetch(use, alice)) == ["one"]
