"""Nothing of an odd mail is lost in silence, in an account or in a collection."""

import base64
import random
from email import message_from_bytes, policy

import pytest

from connectors.accounts.gmail import Gmail
from functions.sandbox.inside.documents import LeftOut, read_content
from functions.sandbox.inside.documents import plain as encodings
from functions.sandbox.inside.documents.pages import read_page
from functions.sandbox.inside.letters.markup import read_markup
from functions.sandbox.inside.letters.reading import read_here
from tests.corpus.mails import MAILS


def gmail_part(part):
    """The part as Gmail gives it: texts as UTF-8 below their old headers."""
    headers = [{"name": name, "value": str(value)} for name, value in part.raw_items()]
    shown = {"mimeType": part.get_content_type(), "headers": headers, "filename": file_name(part), "body": {"size": 0}}
    if part.is_multipart() and part.get_content_type() != "message/delivery-status":
        return {**shown, "parts": [gmail_part(one) for one in part.get_payload()]}
    if part.is_multipart():
        content = "\n".join(map(str, part.get_payload())).encode()
    else:
        content = part.get_payload(decode=True) or b""
    if part.get_content_maintype() == "text":
        charset = part.get_content_charset() if part.get_content_charset() != "ü" else ""
        content = encodings.decode_text(
            content.replace(b"\0", b"" if charset == "utf-8" else b"\0"), LeftOut(), charset or ""
        ).encode()
    return {**shown, "body": {"size": len(content), "data": base64.urlsafe_b64encode(content).decode()}}


def file_name(part):
    try:
        return part.get_filename() or ""
    except (TypeError, ValueError):
        return ""


def read_as_gmail(content):
    payload = gmail_part(message_from_bytes(content, policy=policy.compat32))
    account = Gmail(None, None)
    return account.typed_safely("m1", {"id": "m1", "payload": payload}, 100_000)


def read_as_document(content):
    left_out = LeftOut()
    parts = list(read_content(content, "mail.eml", left_out))
    return {"text": "\n".join(part["text"] for part in parts), "left_out": left_out.entries()}


@pytest.mark.parametrize("read", [read_as_gmail, read_as_document])
@pytest.mark.parametrize("mail", MAILS, ids=lambda mail: mail.name)
def test_nothing_of_an_odd_mail_is_lost_in_silence(mail, read):
    message = read(mail.content)
    text = message["text"]
    listed = str(message["left_out"])
    assert "headers" not in message, message
    at = 0
    for word in mail.texts:
        at = text.find(word, at)
        assert at >= 0, (word, text, listed)
    for word in mail.absent:
        assert word not in text, text
    for word in mail.lost:
        assert word in listed, (word, listed)
    if mail.is_whole:
        assert not [one for one in message["left_out"] if one["is_lost"]]


def test_there_are_enough_odd_mails():
    assert len(MAILS) >= 100 and len({mail.name for mail in MAILS}) == len(MAILS)


def test_an_invitation_becomes_an_event():
    mail = next(mail for mail in MAILS if mail.name == "the same invitation twice")
    (event,) = read_as_gmail(mail.content)["events"]
    assert (event["method"], event["summary"]) == ("REQUEST", "Budget review")
    assert (event["start"], event["end"]) == ("2026-12-01T10:00:00Z", "2026-12-01T11:00:00Z")


PIECES = [
    "<", "!", "[", "]", ">", "--", "CDATA[", "<![", "<!", "if", "&#", "&#x", "1" * 10, "9" * 500, ";", "<p>", "</p>",
    "<script>", "</script", "<a a='", "x", " ", "\n", "<?", "?>", "/", "=", '"', "'", "&amp", "&", "\ud800", "\x00", "é",
    "<!DOCTYPE", "ELEMENT", "(", "%", "<textarea>", "</title>", "<plaintext>", "<table>", "<td hidden>", "<body>", "<head>",
    "<b style='display:none'>", "</b>", "<style>", ".a{display:none}", "</style>", "<p class=a", "BEGIN:VEVENT\n",
    "SUMMARY;A=B:", "END:VEVENT\n", "DTSTART:2026", "\\", "<param>", "\U000e0041", "> ", "-- \n", "\r",
]  # fmt: skip
KINDS = [
    "text/html",
    "text/plain",
    "text/calendar",
    "text/enriched",
    "multipart/alternative",
    "multipart/mixed",
    "message/rfc822",
    "x",
    "",
]


def random_tree(chance, depth=0):
    text = "".join(chance.choice(PIECES) for _ in range(chance.randint(0, 14)))
    tree = {
        "kind": chance.choice(KINDS),
        "text": text,
        "is_flowed": chance.random() < 0.3,
        "joins": chance.random() < 0.3,
    }
    tree["name"], tree["disposition"] = chance.choice(["", "a.ics", "b"]), chance.choice(["", "inline", "attachment"])
    if depth < 3 and chance.random() < 0.5:
        tree["parts"] = [random_tree(chance, depth + 1) for _ in range(chance.randint(0, 3))]
    return tree


@pytest.mark.parametrize("seed", range(4))
def test_no_mail_stops_its_reader(seed):
    chance = random.Random(seed)
    for _ in range(250):
        tree = random_tree(chance)
        assert isinstance(read_here(tree, 1000)["text"], str), tree
        source = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 14)))
        assert isinstance(read_markup(source, LeftOut()), str), source
        assert isinstance(read_page(source, LeftOut()), list), source


@pytest.mark.parametrize("seed", range(2))
def test_no_bytes_stop_the_reader_of_mails_in_collections(seed):
    chance = random.Random(seed)
    for _ in range(150):
        content = bytearray(chance.choice(MAILS).content)
        for _ in range(chance.randint(1, 8)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        assert isinstance(read_as_document(bytes(content))["text"], str)


@pytest.mark.parametrize(
    "read", [lambda text: read_markup(text, LeftOut()), lambda text: str(read_page(text, LeftOut()))]
)
def test_what_is_around_an_unknown_declaration_is_read(read):
    text = read("<p>Hello</p><![x and so on><p>the end &#" + "9" * 5000 + ";</p>")
    assert "Hello" in text and "the end" in text and "and so on" not in text
    assert "Hello" in read("<p>Hello</p><![x and so on")
