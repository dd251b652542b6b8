"""Against an emulator of Google that this project did not write: log in, sync, send, draft, label, search."""

import pytest
from django.utils import timezone

from connectors.models import Connection
from tests.connectors import emulator

pytestmark = pytest.mark.skipif(bool(emulator.why_absent()), reason=emulator.why_absent())

API = "/api/v1/connections"


def test_it_logs_in_syncs_and_writes(alice, google_account, google, use):
    while use(alice, "gmail", "fetch_new", limit=200).value["messages"]:
        pass  # what the emulator holds from the start
    wanted = [google.deliver(google_account.access_token, f"Mail {number}", "Grüße") for number in range(30)]
    got = use(alice, "gmail", "fetch_new", limit=200).value["messages"]
    assert [message["id"] for message in got] == wanted
    assert {message["text"].strip() for message in got} == {"Grüße"}
    assert use(alice, "gmail", "fetch_new").value["messages"] == []
    sent = use(alice, "gmail", "send", to=["bob@example.org"], subject="Hi", text="there").value
    assert use(alice, "gmail", "read", id=sent["id"]).value["subject"] == "Hi"
    reply = use(alice, "gmail", "reply", id=wanted[0], text="Thanks").value
    assert use(alice, "gmail", "read", id=reply["id"]).value["subject"] == "Re: Mail 0"
    assert use(alice, "gmail", "draft", to=["bob@example.org"], subject="Later", text="x").value["id"]
    assert "STARRED" in use(alice, "gmail", "label", id=wanted[1], add=["STARRED"], remove=["INBOX"]).value["labels"]
    assert use(alice, "gmail", "search", query="subject:Mail").value["messages"]
    assert use(alice, "gmail", "labels").value["labels"]


def test_a_token_is_refreshed_and_revoked_there(alice, alice_api, google_account, use):
    Connection.objects.update(token_expires_at=timezone.now())
    assert use(alice, "gmail", "labels").ok
    before, version = google_account.access_token, google_account.token_version
    google_account.refresh_from_db()
    assert google_account.token_version == version + 1 and google_account.access_token != before
    assert alice_api.post(f"{API}/{google_account.pk}/revoke").json() == {"told_service": True}
