"""Google's own Python client and our connector look at one mailbox and see the same (`make emulators` installs both)."""

import base64
import sys
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

import pytest

from tests.connectors import emulator

ABSENT = emulator.why_absent() or emulator.why_no_client()
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=ABSENT)


@pytest.fixture
def theirs(google, google_account, monkeypatch):
    """Google's client for Gmail, signed in to Alice's account."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(emulator.PYTHON)])
    from google.oauth2.credentials import Credentials
    from googleapiclient.discovery import build

    options = {"api_endpoint": google.url}
    made = build("gmail", "v1", credentials=Credentials(google_account.access_token), client_options=options)
    yield made.users()
    made.close()


def mail(subject, text, html="", attachment=b""):
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "Dora <dora@example.net>", "alice@example.org", subject
    made.set_content(text)
    if html:
        made.add_alternative(html, subtype="html")
    if attachment:
        made.add_attachment(attachment, maintype="application", subtype="pdf", filename="bill.pdf")
    return base64.urlsafe_b64encode(made.as_bytes()).decode()


def deliver(theirs, raw):
    body = {"raw": raw, "labelIds": ["INBOX", "UNREAD"]}
    asked = theirs.messages().import_(userId="me", internalDateSource="receivedTime", body=body)
    return asked.execute()["id"]


def parsed(theirs, id):
    raw = theirs.messages().get(userId="me", id=id, format="raw").execute()["raw"]
    return message_from_bytes(base64.urlsafe_b64decode(raw + "=="), policy=default)


def drain(use, alice):
    while use(alice, "gmail", "fetch_new", limit=200).value["messages"]:
        pass


def test_what_google_s_client_delivers_is_fetched_once_and_whole(alice, theirs, use):
    drain(use, alice)
    plain = deliver(theirs, mail("Grüße", "Good day, Älice."))
    rich = deliver(theirs, mail("Bill", "In short.", html="<p>In <b>short</b>.</p>", attachment=b"%PDF-1.7"))
    got = {one["id"]: one for one in use(alice, "gmail", "fetch_new", limit=200).value["messages"]}
    assert set(got) == {plain, rich}
    assert (got[plain]["subject"], got[plain]["text"].strip()) == ("Grüße", "Good day, Älice.")
    assert got[rich]["text"].strip() == "In short." and got[rich]["attachments"][0]["name"] == "bill.pdf"
    assert use(alice, "gmail", "fetch_new", limit=200).value["messages"] == []


def test_both_list_the_same_messages(alice, theirs, use):
    wanted = {deliver(theirs, mail(f"Peas {number}", "x")) for number in range(5)}
    listed, page = set(), None
    while True:  # their paging
        answer = theirs.messages().list(userId="me", q="subject:Peas", maxResults=2, pageToken=page).execute()
        listed |= {row["id"] for row in answer.get("messages", [])}
        if not (page := answer.get("nextPageToken")):
            break
    ours, page = set(), ""
    while True:
        found = use(alice, "gmail", "search", query="subject:Peas", limit=2, **({"page": page} if page else {})).value
        ours |= {one["id"] for one in found["messages"]}
        if not (page := found["next"]):
            break
    assert ours == listed == wanted


def test_google_s_client_reads_what_we_sent_drafted_and_labelled(alice, theirs, use):
    sent = use(alice, "gmail", "send", to=["bob@example.org"], subject="Grüße", text="Älter werden.\n").value
    read = parsed(theirs, sent["id"])
    assert (read["subject"], read["to"], read.get_content().strip()) == ("Grüße", "bob@example.org", "Älter werden.")

    original = deliver(theirs, mail("Question", "Well?"))
    reply = use(alice, "gmail", "reply", id=original, text="Yes.").value
    thread = theirs.messages().get(userId="me", id=original).execute()["threadId"]
    assert reply["id"] in {one["id"] for one in theirs.threads().get(userId="me", id=thread).execute()["messages"]}
    assert parsed(theirs, reply["id"])["subject"] == "Re: Question"

    draft = use(alice, "gmail", "draft", to=["bob@example.org"], subject="Later", text="x").value
    assert theirs.drafts().get(userId="me", id=draft["id"]).execute()["message"]["id"] == draft["message_id"]

    use(alice, "gmail", "label", id=original, add=["STARRED"], remove=["INBOX"])
    labels = set(theirs.messages().get(userId="me", id=original).execute()["labelIds"])
    assert "STARRED" in labels and "INBOX" not in labels


def test_a_name_in_another_alphabet_is_read_and_makes_up_no_address(alice, theirs, use):
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "Dörte Ä <dora@example.net>", "alice@example.org", "Hi"
    made.set_content("x")
    id = deliver(theirs, base64.urlsafe_b64encode(made.as_bytes()).decode())
    assert use(alice, "gmail", "read", id=id).value["from"] == "Dörte Ä <dora@example.net>"
