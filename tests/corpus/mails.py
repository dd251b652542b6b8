"""Odd mails: what of each a person sees, and what must be listed as left out.

Each is read as a message of Gmail and as a mail in a collection. They are written after public reports of other
projects: the mails of people are not ours to keep.
"""

from __future__ import annotations

import base64
import quopri
from collections.abc import Callable
from dataclasses import dataclass

HEAD = "From: Dora <dora@example.net>\nTo: me@example.org\nSubject: S\nMIME-Version: 1.0\n"
SECRET = "obeythis"


@dataclass(frozen=True)
class Mail:
    """`texts` stand in the text in this order, `absent` must not; `lost` are words of what is left out, `unlisted` must
    not be in that list. With `is_whole`, nothing is lost.
    """

    name: str
    body: str | bytes | Callable[[], str | bytes]
    texts: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    is_whole: bool = False

    @property
    def content(self) -> bytes:
        # Large ones are made only when their case runs.
        body = self.body() if callable(self.body) else self.body
        if isinstance(body, str):
            body = body.encode()
        return HEAD.encode() + body


def part(kind: str, text: str | bytes, *headers: str, charset: str = "utf-8") -> bytes:
    """A part in base64, with the type and the encoding that it claims."""
    content = text if isinstance(text, bytes) else text.encode(charset)
    is_text = kind.lower().startswith("text")
    if is_text and "charset" not in kind:
        kind = f"{kind}; charset={charset}"
    lines = [f"Content-Type: {kind}", "Content-Transfer-Encoding: base64", *headers]
    head = "\n".join(lines).encode()
    return head + b"\n\n" + base64.encodebytes(content)


def bare(kind: str, text: str, *headers: str) -> bytes:
    """Without a transfer encoding, as messages in messages are sent."""
    head = "\n".join([f"Content-Type: {kind}", *headers])
    return f"{head}\n\n{text}\n".encode()


def multi(kind: str, *parts: bytes, mark: str = "B") -> bytes:
    """Parts with a line of two hyphens and the mark before each, and one behind the last."""
    line = f"--{mark}".encode()
    content = f'Content-Type: multipart/{kind}; boundary="{mark}"\n\n'.encode()
    for one in parts:
        content += line + b"\n" + one + b"\n"
    return content + line + b"--\n"


def plain(text: str) -> bytes:
    return part("text/plain", text)


def page(text: str) -> bytes:
    return part("text/html", text)


def file(name: str, kind: str = "application/pdf", text: str = "x") -> bytes:
    return part(f'{kind}; name="{name}"', text, f'Content-Disposition: attachment; filename="{name}"')


def invitation(method: str = "REQUEST", *lines: str) -> str:
    usual = ("UID:u1@example.net", "SUMMARY:Budget review", "DTSTART:20261201T100000Z", "DTEND:20261201T110000Z")
    return "\r\n".join(
        ["BEGIN:VCALENDAR", f"METHOD:{method}", "BEGIN:VEVENT", *(lines or usual), "END:VEVENT", "END:VCALENDAR"]
    )


def hidden(html: str, *texts: str, name: str = "") -> Mail:
    """HTML with the secret word where no person sees it."""
    return Mail(f"hidden: {name or html[:60]}", page(html), texts or ("seen",), absent=(SECRET,), lost=("hidden",))


def shown(html: str, *texts: str) -> Mail:
    return Mail(f"shown: {html[:60]}", page(html), texts, is_whole=True)


STRUCTURE = [
    Mail("plain", plain("Good day."), ("Good day.",), is_whole=True),
    Mail("no content type", "\nGood day.", ("Good day.",), is_whole=True),
    Mail("empty", plain(""), is_whole=True),
    Mail("HTML alone", page("<p>Hello</p>"), ("Hello",), is_whole=True),
    Mail("blank plain beside HTML", multi("alternative", plain(" \r\n\r\n"), page("<p>Invoice 7 is due.</p>")), ("Invoice 7 is due.",)),
    Mail("invisible plain beside HTML", multi("alternative", plain("\u00a0\u200b\ufeff\n"), page("<p>Invoice 7</p>")), ("Invoice 7",)),
    Mail("both say the same", multi("alternative", plain("The race is at 9."), page("<p>The <b>race</b> is at 9.</p>")), ("The race is at 9.",), is_whole=True),
    Mail("plain that only says it is none", multi("alternative", plain("Your mail program shows no HTML."), page("<p>The rent rises to 900 euros.</p>")), ("rises to 900",)),
    Mail("plain that leaves out a number", multi("alternative", plain("Your order of shoes and socks was sent to you today"), page("Your order 4711 of shoes and socks was sent to you today")), ("4711",)),
    Mail("two alternatives that differ", multi("alternative", plain("Alpha beta gamma"), page("<p>delta epsilon zeta</p>")), ("delta epsilon zeta", "Alpha beta gamma")),
    Mail("two HTML alternatives", multi("alternative", page("<p>first words here</p>"), page("<p>other letters there</p>")), ("other letters there", "first words here")),
    Mail("AMP beside HTML", multi("alternative", page("<p>Poll of today</p>"), part("text/x-amp-html", "<p>Poll of today</p>")), ("Poll of today",)),
    Mail("alternative of related", multi("alternative", plain(" "), multi("related", page("<p>Body</p><img src=cid:a alt='Logo'>"), file("a.png", "image/png"), mark="R")), ("Body", "[picture: Logo]")),
    Mail("related with HTML", multi("related", page("<p>Body</p>"), part("image/png", b"x", "Content-ID: <a>")), ("Body",)),
    Mail("HTML body and a plain footer", multi("mixed", page("<p>The meeting moves to Tuesday.</p>"), plain("____\nlist footer")), ("moves to Tuesday", "list footer")),
    Mail("plain body and an HTML footer", multi("mixed", plain("The meeting moves."), page("<p>Sent from my phone</p>")), ("The meeting moves.", "Sent from my phone")),
    Mail("text, picture, HTML", multi("mixed", plain("First."), part("image/png", b"x", 'Content-Disposition: inline; filename="p.png"'), page("<p>Second part.</p>")), ("First.", "Second part.")),
    Mail("three texts", multi("mixed", plain("one"), plain("two"), plain("three")), ("one", "two", "three"), is_whole=True),
    Mail("forwarded HTML", multi("mixed", plain("FYI"), bare("message/rfc822", "From: bob@example.net\nSubject: Deep\nContent-Type: text/html\n\n<b>Inner words</b>")), ("FYI", "Deep", "Inner words")),
    Mail("forwarded alternative", multi("mixed", plain("FYI"), bare("message/rfc822", "Subject: Deep\nContent-Type: multipart/alternative; boundary=C\n\n--C\nContent-Type: text/plain\n\n \n--C\nContent-Type: text/html\n\n<p>Inner</p>\n--C--\n")), ("FYI", "Inner")),
    Mail("forwarded alone", bare("message/rfc822", "Subject: Deep\n\nInner words"), ("Inner words",)),
    Mail("forwarded twice", multi("mixed", plain("FYI"), bare("message/rfc822", "Subject: One\nContent-Type: multipart/mixed; boundary=C\n\n--C\n\nmiddle\n--C\nContent-Type: message/rfc822\n\nSubject: Two\n\ninnermost\n--C--\n")), ("FYI", "middle", "innermost")),
    Mail("digest", multi("digest", b"\nFrom: a@example.net\nSubject: One\n\nfirst letter\n", b"\nSubject: Two\n\nsecond letter\n"), ("first letter", "second letter")),
    Mail("bounce", multi("report", plain("Delivery failed."), bare("message/delivery-status", "Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; a@example.net\nStatus: 5.1.1"), bare("message/rfc822", "Subject: Lost\n\nthe lost letter")), ("Delivery failed.", "5.1.1", "the lost letter")),
    Mail("signed", multi("signed", plain("Signed words"), part("application/pgp-signature", "sig")), ("Signed words",)),
    Mail("encrypted", multi("encrypted", part("application/pgp-encrypted", "Version: 1"), part("application/octet-stream", "xx")), lost=("encrypted",)),
    Mail("S/MIME", part("application/pkcs7-mime; name=smime.p7m", b"xx"), lost=("encrypted",)),
    Mail("signed in one block", part("application/pkcs7-mime; smime-type=signed-data; name=smime.p7m", b"xx"), lost=("signed in one block",)),
    Mail("no line between headers and text", b"Content-Type: text/plain\nThe words follow at once\nand go on\n", ("The words follow at once", "and go on")),
    Mail("Microsoft's warning in a table", page('<table><tr><td style="padding:3.75pt" cellpadding="`&quot;7px&quot;" 5px=""><p>CAUTION: outside</p></td></tr></table><div dir="ltr">test<br></div>'), ("CAUTION: outside", "test")),
    Mail("winmail.dat", multi("mixed", plain("See below."), file("winmail.dat", "application/ms-tnef")), ("See below.",), lost=("winmail",)),
    Mail("upper-case types", multi("ALTERNATIVE", part("TEXT/PLAIN", " "), part("TEXT/HTML", "<p>Upper</p>")), ("Upper",)),
    Mail("a type with odd spaces", "Content-Type:  text/html ;charset = utf-8\n\n<p>Spaced</p>", ("Spaced",)),
    Mail("XHTML", part("application/xhtml+xml", "<html><body><p>Strict</p></body></html>"), ("Strict",)),
    Mail("Markdown", part("text/markdown", "# Title\n\n* item"), ("# Title", "* item"), is_whole=True),
    Mail("x-markdown", part("text/x-markdown", "**bold**"), ("**bold**",), is_whole=True),
    Mail("enriched", part("text/enriched", "<bold>Now</bold> is <<the>\n\ntime <color><param>red</param>red</color>"), ("Now is <the>", "time red"), absent=("param", "bold")),
    Mail("richtext", part("text/richtext", "<bold>Now</bold> is"), ("Now is",)),
    Mail("unknown text", part("text/x-unknown", "still text"), ("still text",), is_whole=True),
    Mail("vCard without a name", multi("mixed", plain("Card:"), part("text/vcard", "BEGIN:VCARD\nFN:Dora\nEND:VCARD")), ("Card:", "FN:Dora")),
    Mail("body with a file name", part('text/plain; name="mail.txt"', "Named body", 'Content-Disposition: inline; filename="mail.txt"'), ("Named body",)),
    Mail("HTML body with a file name", part('text/html; name="mail.html"', "<p>Named page</p>"), ("Named page",)),
    Mail("text that is a file alone", part("text/plain", "Only a file", 'Content-Disposition: attachment; filename="a.txt"'), ("Only a file",)),
    Mail("inline text between", multi("mixed", plain("before"), part("text/plain", "within", 'Content-Disposition: inline; filename="log.txt"'), plain("after")), ("before", "within", "after")),
    Mail("parts without end", b"Content-Type: multipart/mixed; boundary=B\n\n--B\n" + plain("unended"), ("unended",)),
    Mail("no boundary", "Content-Type: multipart/mixed\n\nwords without a boundary", ("words without a boundary",)),
    Mail("a boundary that is not used", "Content-Type: multipart/mixed; boundary=X\n\nwords alone", ("words alone",)),
    Mail("text before the first part", b'Content-Type: multipart/mixed; boundary="B"\n\nThis is a message in MIME format.\n--B\n' + plain("inside") + b"\n--B--\n", ("inside",)),
    Mail("ten levels", lambda: nested(10), ("deepest",)),
    Mail("sixty levels", lambda: nested(60), lost=("deep",)),
    Mail("no parts", b"Content-Type: multipart/mixed; boundary=B\n\n--B--\n"),
    Mail("many parts", lambda: multi("mixed", *(plain(f"n{number}") for number in range(200))), ("n0", "n199")),
]  # fmt: skip


def nested(levels: int) -> bytes:
    body = plain("deepest")
    for number in range(levels):
        body = multi("mixed", body, mark=f"B{number}x")
    return body


ENCODINGS = [
    Mail("Latin-1", part("text/plain", "Größe", charset="iso-8859-1"), ("Größe",)),
    Mail("windows-1252 called Latin-1", part("text/plain; charset=iso-8859-1", "“quoted” – 5 €".encode("cp1252")), ("“quoted” – 5 €",)),
    Mail("KOI8-R", part("text/plain", "Привет, мир", charset="koi8-r"), ("Привет, мир",)),
    Mail("ISO-2022-JP", part("text/plain", "お元気ですか", charset="iso-2022-jp"), ("お元気ですか",)),
    Mail("Shift-JIS", part("text/plain", "お元気ですか", charset="shift_jis"), ("お元気ですか",)),
    Mail("GB18030", part("text/plain", "你好，世界", charset="gb18030"), ("你好，世界",)),
    Mail("EUC-KR", part("text/plain", "안녕하세요", charset="euc-kr"), ("안녕하세요",)),
    Mail("UTF-16", part("text/plain", "Größe für alle", charset="utf-16"), ("Größe für alle",)),
    Mail("UTF-8 called Latin-1", part("text/plain; charset=iso-8859-1", "Größe".encode()), ("Größe",)),
    Mail("UTF-8 called ASCII", part("text/plain; charset=us-ascii", "Größe".encode()), ("Größe",)),
    Mail("unknown charset", part("text/plain; charset=klingon", "Größe".encode()), ("Größe",)),
    Mail("a charset that is no ASCII", 'Content-Type: text/plain; charset="ü"\n\nGood day.', ("Good day.",)),
    Mail("a charset of zlib", part("text/plain; charset=zlib", "Good day."), ("Good day.",)),
    Mail("a byte order mark", part("text/plain", "\ufeffMarked"), ("Marked",)),
    Mail("quoted-printable", b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n" + quopri.encodestring("Größe = alles".encode()), ("Größe = alles",)),
    Mail("emoji", plain("Yes 👍🏽 👩‍👩‍👧"), ("Yes 👍🏽",)),
    Mail("right to left", plain("שלום עולם"), ("שלום עולם",), is_whole=True),
    Mail("a zero byte", part("text/plain", "be\0fore after"), ("fore after",)),
    Mail("format=flowed", part("text/plain; charset=utf-8; format=flowed", "A long line that \nwas divided.\n> quoted \n> text\n-- \nDora"), ("A long line that was divided.", "> quoted text", "-- \nDora")),
    Mail("flowed and stuffed", part("text/plain; charset=utf-8; format=flowed", " From here \non"), ("From here on",)),
    Mail("flowed with delsp", part("text/plain; charset=utf-8; format=flowed; delsp=yes", "お元 \n気"), ("お元気",)),
    Mail("letters that no font shows", plain("Hello" + "".join(chr(0xE0000 + ord(one)) for one in SECRET) + " there"), ("Hello there",), lost=("invisible",)),
    Mail("a flag", plain("\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f won"), ("\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f won",), is_whole=True),
]  # fmt: skip

INVITATIONS = [
    Mail("invitation alone", part("text/calendar; method=REQUEST", invitation()), ("Invitation: Budget review", "2026-12-01T10:00:00Z")),
    Mail("invitation of a few lines", part("text/calendar", "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Budget review\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"), ("Budget review",)),
    Mail("invitation that breaks off", part("text/calendar", "BEGIN:VEVENT\r\nSUMMARY:Budget review"), ("Budget review",)),
    Mail("invitation beside text", multi("alternative", plain("Please come."), page("<p>Please come.</p>"), part("text/calendar; method=REQUEST", invitation())), ("Please come.", "Budget review")),
    Mail("cancelled", part("text/calendar", invitation("CANCEL")), ("Cancelled event: Budget review",)),
    Mail("an answer", part("text/calendar", invitation("REPLY", "UID:u", "SUMMARY:Lunch", "ATTENDEE;CN=Dora;PARTSTAT=DECLINED:mailto:dora@example.net")), ("Answer to an invitation: Lunch", "declined")),
    Mail("a time zone and a place", part("text/calendar", invitation("REQUEST", "UID:u", "SUMMARY:Lunch\\, late", 'DTSTART;TZID="Europe/Berlin":20261201T130000', "LOCATION:Room 7\\; left", "RRULE:FREQ=WEEKLY;COUNT=3")), ("Lunch, late", "2026-12-01T13:00:00 (Europe/Berlin)", "FREQ=WEEKLY", "Room 7; left")),
    Mail("a whole day", part("text/calendar", invitation("REQUEST", "UID:u", "SUMMARY:Fair", "DTSTART;VALUE=DATE:20261224")), ("When: 2026-12-24",)),
    Mail("folded lines", part("text/calendar", invitation("REQUEST", "UID:u", "SUMMARY:Bud\r\n get rev\r\n\tiew")), ("Budget review",)),
    Mail("what the organizer wrote", part("text/calendar", invitation("REQUEST", "UID:u", "SUMMARY:Talk", "DESCRIPTION:Bring\\nthe papers")), ("Talk", "Bring\nthe papers")),
    Mail("a task", part("text/calendar", "BEGIN:VTODO\nSUMMARY:Water plants\nDUE:20261201\nEND:VTODO"), ("Task: Water plants",)),
    Mail("two events", part("text/calendar", "BEGIN:VEVENT\nUID:1\nSUMMARY:One\nEND:VEVENT\nBEGIN:VEVENT\nUID:2\nSUMMARY:Two\nEND:VEVENT"), ("One", "Two")),
    Mail("many events", part("text/calendar", "".join(f"BEGIN:VEVENT\nUID:{n}\nSUMMARY:E{n}\nEND:VEVENT\n" for n in range(50))), ("E0", "E19"), lost=("30 more events",)),
    Mail("an alarm in it", part("text/calendar", invitation("REQUEST", "UID:u", "SUMMARY:Talk", "BEGIN:VALARM", "DESCRIPTION:Reminder", "END:VALARM", "LOCATION:Hall")), ("Talk", "Hall"), absent=("Reminder",)),
    Mail("a calendar without an event", part("text/calendar", "BEGIN:VFREEBUSY\nFREEBUSY:20261201T100000Z/PT1H\nEND:VFREEBUSY"), ("FREEBUSY",)),
    Mail("an invitation in a file", multi("mixed", plain("See the file."), part('application/ics; name="invite.ics"', invitation(), 'Content-Disposition: attachment; filename="invite.ics"')), ("See the file.", "Budget review")),
    Mail("the same invitation twice", multi("mixed", multi("alternative", plain("Come."), part("text/calendar", invitation()), mark="C"), part('application/ics; name="invite.ics"', invitation(), 'Content-Disposition: attachment; filename="invite.ics"')), ("Come.", "Budget review")),
]  # fmt: skip

PAGES = [
    Mail("cells", page("<table><tr><td>3</td><td>100</td></tr></table>"), ("3 | 100",), absent=("3100",)),
    Mail("cells without end tags", page("<table><tr><td>3<td>100<tr><td>4<td>200</table>"), ("3 | 100\n4 | 200",)),
    Mail("empty cells", page("<table><tr><th>Name</th><th></th><th>Phone</th></tr></table>"), ("Name |  | Phone",)),
    Mail("an exponent", page("<p>10<sup>3</sup> m</p>"), ("10^3 m",), absent=("103",)),
    Mail("<![", page("<p>Hello</p><![x and so on><p>end</p>"), ("Hello", "end")),
    Mail("<![ at the end", page("<p>Hello</p><![x and so on"), ("Hello",), lost=("does not end",)),
    Mail("a comment that does not end", page(f"<p>Hello</p><!-- {SECRET}"), ("Hello",), absent=(SECRET,), lost=("does not end",)),
    Mail("a tag that does not end", page(f"<p>Hello</p><a href='{SECRET}"), ("Hello",), absent=(SECRET,), lost=("does not end",)),
    Mail("a script that does not end", page(f"<p>Hello</p><script>{SECRET}"), ("Hello",), absent=(SECRET,), lost=("does not end",)),
    Mail("a head that does not end", page("<html><head><style>p{}</style><p>Hello"), ("Hello",), is_whole=True),
    Mail("a title that does not end", page("<title>" + "words " * 100), lost=("hidden",)),
    Mail("HTML of Outlook", page(f"<!--[if mso]>{SECRET}<![endif]--><!--[if !mso]><!--><p>For all</p><!--<![endif]-->"), ("For all",), absent=(SECRET,)),
    Mail("pictures", page("<img src=a alt='Sale: 50 %'><img src=b width=600 height=300>"), ("[picture: Sale: 50 %]",), lost=("Pictures",)),
    Mail("a pixel", page("<p>Hi</p><img src=t width=1 height=1>"), ("Hi",), is_whole=True),
    Mail("links", page("<p>Click <a href='https://example.org/x'>here</a></p>"), ("Click here",), lost=("links",)),
    Mail("a frame", page("<p>Hi</p><iframe src='https://example.org/'></iframe>"), ("Hi",), lost=("iframe",)),
    Mail("a form", page("<form><input value='typed'><textarea>long</textarea><select><option>red<option>blue</select></form>"), ("typed", "long", "red", "blue")),
    Mail("references", page("&lt;b&gt; &amp; &eacute;&#8364;&#x41; &#" + "9" * 5000 + ";"), ("<b> & é€A",)),
    Mail("noscript", page("<noscript><p>No scripts here</p></noscript>"), ("No scripts here",), is_whole=True),
    Mail("code", page("<pre>a\n  b</pre>"), ("a\n  b",)),
    Mail("a deep page", lambda: page("<div>" * 3000 + "deep words" + "</div>" * 3000), ("deep words",)),
    Mail("HTML with a zero byte", page("<p>be\0tter</p>"), ("tter",)),
    Mail("not HTML at all", page("just < words & more > here"), ("just < words & more > here",), is_whole=True),
    shown("<td style='font-size:0'><div style='font-size:14px'>seen</div></td>", "seen"),
    shown("<div style='background:#000'><font color=white>seen</font></div>", "seen"),
    shown("<table bgcolor='#003366'><tr><td style='color:#fff'>seen</td></tr></table>", "seen"),
    shown("<style>@media (max-width:600px){.x{display:none}}</style><p class=x>seen</p>", "seen"),
    shown("<!--[if mso]><style>.x{display:none}</style><![endif]--><p class=x>seen</p>", "seen"),
    shown("<p style='opacity:0.9;max-height:100px;overflow:hidden'>seen</p>", "seen"),
    shown("<details><summary>More</summary>seen</details>", "More", "seen"),
]  # fmt: skip

HIDDEN = [
    hidden(f"<div style='display:none'>{SECRET}</div>seen"),
    hidden(f"<div style='DISPLAY : None !important'>{SECRET}</div>seen"),
    hidden(f"<div style='display/**/:none'>{SECRET}</div>seen"),
    hidden(f"<div style='d\\69splay:none'>{SECRET}</div>seen"),
    hidden(f"<p style='display:none' style='display:block'>{SECRET}</p>seen"),
    hidden(f"<div hidden>{SECRET}</div>seen"),
    hidden(f"<dialog>{SECRET}</dialog>seen"),
    hidden(f"<dialog open hidden>{SECRET}</dialog>seen"),
    hidden(f"<dialog open style='display:none'>{SECRET}</dialog>seen"),
    hidden(f"<div style='visibility:hidden'>{SECRET}<span style='visibility:visible'>seen</span></div>"),
    hidden(f"<div style='opacity:0'>{SECRET}</div>seen"),
    hidden(f"<div style='font-size:0'>{SECRET}</div>seen"),
    hidden(f"<div style='font:1px Arial'>{SECRET}</div>seen"),
    hidden(f"<div style='max-height:0;overflow:hidden'>{SECRET}</div>seen"),
    hidden(f"<div style='height:1px;width:1px;overflow:hidden'>{SECRET}</div>seen"),
    hidden(f"<div style='position:absolute;left:-9999px'>{SECRET}</div>seen"),
    hidden(f"<div style='text-indent:-9999px'>{SECRET}</div>seen"),
    hidden(f"<div style='clip-path:inset(100%)'>{SECRET}</div>seen"),
    hidden(f"<div style='color:transparent'>{SECRET}</div>seen"),
    hidden(f"<font color='#ffffff'>{SECRET}</font>seen"),
    hidden(f"<p style='color:#fefefe'>{SECRET}</p>seen"),
    hidden(f"<div style='background-color:rgb(0, 0, 0)'><span style='color:#000'>{SECRET}</span></div>seen"),
    hidden(f"<style>.x{{display:none}}</style><p class='a x'>{SECRET}</p>seen"),
    hidden(f"<style>div.x, #y {{ visibility: hidden }}</style><p id=y>{SECRET}</p>seen"),
    hidden(f"<p class=x>{SECRET}</p>seen<style>.x{{display:none}}</style>", name="a style sheet behind"),
    hidden(f"<style><!-- .x{{display:none}} --></style><p class=x>{SECRET}</p>seen", name="a style sheet in a comment"),
    hidden(f"<p><b style='display:none'>x</p><p>{SECRET}</b>seen", name="formatting goes on in the next paragraph"),
    hidden(f"<b><div hidden></b>{SECRET}</div>seen", name="a block stays open behind formatting"),
    hidden(f"<span hidden><div></span>{SECRET}</div></span>seen", name="an end tag that ends nothing"),
    hidden(f"<div hidden><table></div>{SECRET}</table></div>seen", name="an end tag out of a table"),
    hidden(f"<li hidden><center><li>{SECRET}</center></li>seen", name="an item in an item"),
    hidden(f"<div hidden><td>{SECRET}</td></div>seen", name="cells without a table"),
    hidden(f"<img hidden alt='{SECRET}'>seen"),
    hidden(f"<template>{SECRET}</template>seen"),
    hidden(f"<video>{SECRET}</video>seen"),
    hidden(f"<body style='color:white'>{SECRET}<p style='color:black'>seen</p></body>"),
]  # fmt: skip

MAILS = [*STRUCTURE, *ENCODINGS, *INVITATIONS, *PAGES, *HIDDEN]
