"""Uploads and downloads with the client, without a network."""

import io

import httpx

from tests.client.fakes import URL, Server, client, error

STORED = {"id": "f1", "name": "scan.pdf"}


def test_a_path_is_sent_as_a_form_and_again_from_its_beginning(tmp_path):
    path = tmp_path / "scan.pdf"
    path.write_bytes(b"%PDF-1.7 of several pages")
    server = Server(error(429), httpx.Response(201, json=STORED))

    assert client(server).files.upload(path, untrusted=False)["id"] == "f1"

    first, second = server.requests
    assert str(second.url) == f"{URL}/api/v1/files/"
    assert second.headers["content-type"].startswith("multipart/form-data")
    for request in (first, second):
        assert (
            b'name="file"; filename="scan.pdf"' in request.content and b"%PDF-1.7 of several pages" in request.content
        )
        assert b'name="untrusted"\r\n\r\nfalse' in request.content and b"media_type" not in request.content


def test_bytes_and_open_files_are_sent_too():
    server = Server(httpx.Response(201, json=STORED))
    client(server).files.upload(b"words", name="a.csv", media_type="text/csv")
    client(server).files.upload(io.BytesIO(b"words"))
    assert b'filename="a.csv"' in server.requests[0].content and b"text/csv" in server.requests[0].content
    assert b'filename="file"' in server.requests[1].content and b"words" in server.requests[1].content


def test_a_file_is_downloaded():
    server = Server(httpx.Response(200, content=b"\x00words"))
    assert client(server).files.content("f1") == b"\x00words"
    assert str(server.requests[0].url) == f"{URL}/api/v1/files/f1/content"
