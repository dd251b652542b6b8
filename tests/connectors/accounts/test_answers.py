"""Replies, and the addresses that mail is sent to."""

import base64

import pytest

from agents.tools import RetryTool, ToolFailed
from connectors.accounts.addresses import read_recipients
from connectors.accounts.gmail import compose
from connectors.content import sender_text


@pytest.fixture(autouse=True)
def account(alice, gmail, connect):
    return connect(alice, "gmail", account="alice@example.org")


def deliver(gmail, **headers):
    identity = gmail.deliver("Question")
    rows = gmail.messages[identity]["payload"]["headers"]
    for name, value in headers.items():
        name = name.replace("_", "-")
        rows[:] = [row for row in rows if row["name"] != name]
        if value is not None:
            rows.append({"name": name, "value": value})
    return identity


def reply(use, alice, gmail, identity, **more):
    use(alice, "gmail", "reply", id=identity, text="Answer", **more)
    mail, _ = gmail.sent[-1]
    return mail["To"], mail["Cc"]


def test_an_answer_to_all_leaves_oneself_out_and_nobody_twice(alice, gmail, use):
    identity = deliver(
        gmail,
        To="Alice <ALICE@example.org>, bob@example.org, Dora <dora@example.net>",
        Cc="Bob <BOB@example.org>, carol@example.org, alice+list@example.org",
    )
    assert reply(use, alice, gmail, identity, reply_all=True) == (
        "dora@example.net",
        "bob@example.org, carol@example.org",
    )
    assert reply(use, alice, gmail, identity) == ("dora@example.net", None)


def test_what_oneself_wrote_is_answered_to_its_readers(alice, gmail, use):
    identity = deliver(gmail, From="alice@example.org", To="bob@example.org, alice@example.org", Cc="carol@example.org")
    assert reply(use, alice, gmail, identity, reply_all=True) == ("bob@example.org", "carol@example.org")
    assert reply(use, alice, gmail, deliver(gmail, From="alice@example.org", To=None))[0] == "alice@example.org"


@pytest.mark.parametrize(
    "sender", [None, "", "undisclosed-recipients:;", "Nobody", "=?utf-8?q?eve=40example.net?=", "<>"]
)
def test_a_mail_without_a_sender_is_not_answered(alice, gmail, use, sender):
    with pytest.raises(ToolFailed) as failure:
        reply(use, alice, gmail, deliver(gmail, From=sender))
    assert failure.value.code == "no_sender" and gmail.sent == []


def test_reply_to_without_an_address_means_the_sender(alice, gmail, use):
    assert reply(use, alice, gmail, deliver(gmail, Reply_To="nobody"))[0] == "dora@example.net"
    assert reply(use, alice, gmail, deliver(gmail, Reply_To="list@example.net"))[0] == "list@example.net"


def test_a_comma_in_a_decoded_name_divides_nothing(alice, gmail, use):
    identity = deliver(gmail, From="=?utf-8?q?Doe=2C_Dora?= <dora@example.net>")
    sender = use(alice, "gmail", "read", id=identity).value["from"]
    assert sender == '"Doe, Dora" <dora@example.net>'
    assert reply(use, alice, gmail, identity)[0] == "dora@example.net"
    use(alice, "gmail", "send", to=[sender, "Smith, Bob <bob@example.org>"], subject="s", text="t")
    mail, _ = gmail.sent[-1]
    assert mail["To"] == '"Doe, Dora" <dora@example.net>, "Smith, Bob" <bob@example.org>'


def test_message_ids_of_strangers_are_sent_only_if_they_are_ids(alice, gmail, use):
    identity = deliver(gmail, Message_ID="<a@b>\n Bcc: eve@example.net", References="<x@y> junk <z@y>")
    reply(use, alice, gmail, identity)
    mail, _ = gmail.sent[-1]
    assert (mail["In-Reply-To"], mail["References"], mail["Bcc"]) == ("<a@b>", "<x@y> <z@y> <a@b>", None)


def test_an_id_that_is_longer_than_a_line_is_written_as_it_is():
    """Exchange's are. Encoded, as Python writes them, they put a reply under no message."""
    ids = [f"<{letter * 150}@mail.example.org>" for letter in "ABC"]
    thread = {"In-Reply-To": ids[2], "References": " ".join(ids)}
    letter = base64.urlsafe_b64decode(compose(to=["a@example.net"], subject="Re: x", text="y", thread=thread)).decode()
    lines = letter.splitlines()
    place = lines.index(f"In-Reply-To: {ids[2]}")
    assert lines[place + 1 : place + 4] == [f"References: {ids[0]}", f" {ids[1]}", f" {ids[2]}"]


def test_names_and_domains_outside_ascii_are_encoded(alice, gmail, use):
    use(alice, "gmail", "send", to=["Jürgen Groß, Dr. <info@bücher.example>"], subject="s", text="t")
    mail, _ = gmail.sent[-1]
    raw = str(mail["To"])
    assert raw.endswith("<info@xn--bcher-kva.example>") and raw.startswith("=?utf-8?")


@pytest.mark.parametrize(
    "address",
    ["jürgen@example.org", "=?utf-8?q?bob?=@example.org", "bob", "bob@", "@example.org", "a b@example.org", "bob@a..b\u00fc",
     "bob@example.org\r\nBcc: eve@example.net", "bob@exa mple.org", "", "<>", "bob@example.org>", "a@b@c", "bob@\u00fc_.example"],
)  # fmt: skip
def test_what_no_mail_can_be_sent_to_is_refused_by_name(alice, gmail, graph, connect, use, address):
    connect(alice, "outlook")
    for provider in ("gmail", "outlook"):
        for method in ("send", "draft"):
            with pytest.raises(RetryTool):
                use(alice, provider, method, to=[address], subject="s", text="t")
    assert gmail.sent == [] and graph.sent == []


def test_each_recipient_is_written_to_once():
    found = read_recipients(["bob@example.org", "Bob <BOB@example.org>", "a@x.example, b@x.example"])
    assert [one.address for one in found] == ["bob@example.org", "a@x.example", "b@x.example"]
    assert read_recipients(['"Doe, D." <d@x.example>'])[0].name == "Doe, D."


def test_a_name_cannot_look_like_another_address():
    raw = "=?utf-8?q?Boss_=3Cboss=40example.org=3E?= <eve@example.net>"
    assert sender_text(raw) == '"Boss <boss@example.org>" <eve@example.net>'


def test_outlook_sends_names_beside_addresses(alice, graph, connect, use):
    connect(alice, "outlook")
    use(
        alice,
        "outlook",
        "send",
        to=["Dora <dora@bücher.example>"],
        cc=["dora@xn--bcher-kva.example"],
        subject="s",
        text="t",
    )
    message = graph.sent[0]["message"]
    assert message["toRecipients"] == [{"emailAddress": {"address": "dora@xn--bcher-kva.example", "name": "Dora"}}]
    assert message["ccRecipients"] == []
