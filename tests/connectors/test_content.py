"""What strangers write becomes text that is what it says it is."""

import pytest

from connectors.content import address_list, decode, header_text, sender_text


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("=?utf-8?q?Gr=C3=BC=C3=9Fe?=", "Grüße"),
        ("Plain", "Plain"),
        ("=?utf-8?q?two=0D=0ABcc:_eve=40example.net?=", "two Bcc: eve@example.net"),  # no second header
        ("=?no-such-charset?q?x?=", "=?no-such-charset?q?x?="),
        ("=?utf-8?b?!!!?=", "=?utf-8?b?!!!?="),
        ("", ""),
    ],
)
def test_encoded_words_are_read_and_broken_ones_left(raw, said):
    assert header_text(raw) == said


def test_a_decoded_name_makes_up_no_address():
    raw = "=?utf-8?q?boss=40example.org=2C?= <eve@example.net>"
    assert sender_text(raw) == '"boss@example.org," <eve@example.net>'
    assert sender_text("=?utf-8?q?D=C3=B6rte?= <dora@example.net>") == "Dörte <dora@example.net>"
    assert sender_text("dora@example.net") == "dora@example.net"


@pytest.mark.parametrize("charset", ["punycode", "zlib", "idna", "no-such-charset", ""])
def test_a_charset_that_is_none_costs_nothing(charset):
    assert decode(b"a-" * 200_000, charset) == "a-" * 200_000
    assert decode("Grüße".encode("latin-1"), "latin1") == "Grüße"


@pytest.mark.parametrize(
    "raw", ["=?\u00fc?B?YQ==?=", "=?utf-8\u20ac?q?x?=", "=?" * 50, "=?utf-8?b?=?=" * 9, "<" * 99, "\x00"]
)
def test_no_header_stops_its_reader(raw):
    assert isinstance(header_text(raw), str)
    assert isinstance(sender_text(raw), str)
    assert isinstance(address_list(raw), list)
