"""Static files are sent compressed to those who can read that."""

import gzip

import pytest

SCRIPT, SMALL = "/static/muster/playground.js", "/static/muster/site.js"


def content(answer):
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


def test_a_text_is_compressed_and_the_same(client):
    plain = client.get(SCRIPT)
    small = client.get(SCRIPT, headers={"Accept-Encoding": "gzip, br"})

    assert "Content-Encoding" not in plain and small["Content-Encoding"] == "gzip"
    assert plain["Vary"] == small["Vary"] == "Accept-Encoding"
    assert small["Content-Type"] == plain["Content-Type"] and small["ETag"] == plain["ETag"]
    assert int(small["Content-Length"]) == len(small.content) < int(plain["Content-Length"]) / 2
    assert gzip.decompress(small.content) == content(plain)


def test_who_has_it_already_gets_nothing(client):
    etag = client.get(SCRIPT)["ETag"]
    answer = client.get(SCRIPT, headers={"Accept-Encoding": "gzip", "If-None-Match": etag})

    assert answer.status_code == 304 and content(answer) == b""


@pytest.mark.parametrize("headers", [{}, {"Accept-Encoding": "gzip;q=0"}, {"Accept-Encoding": "identity"}])
def test_who_cannot_read_it_gets_it_as_it_is(client, headers):
    answer = client.get(SCRIPT, headers=headers)

    assert "Content-Encoding" not in answer and b"import" in content(answer)


def test_a_part_and_a_small_file_are_sent_as_they_are(client):
    part = client.get(SCRIPT, headers={"Accept-Encoding": "gzip", "Range": "bytes=0-9"})
    small = client.get(SMALL, headers={"Accept-Encoding": "gzip"})

    assert part.status_code == 206 and len(content(part)) == 10
    assert "Content-Encoding" not in small
