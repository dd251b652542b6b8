"""The scanner of files: what it finds is refused, and so is a file without a verdict."""

import shlex
import socketserver
import struct
import sys
import threading
from pathlib import Path

import pytest

from agents import scanning, storage
from agents.exceptions import Invalid, Unavailable
from agents.models import StoredFile

pytestmark = pytest.mark.django_db
FILES = "/api/v1/files/"
VIRUS = b"X5O!-a-test-virus"


class Clamd(socketserver.BaseRequestHandler):
    """ClamAV's INSTREAM: pieces with their length before them, an empty one at the end."""

    def handle(self):
        stream = self.request.makefile("rb")
        assert stream.read(10) == b"zINSTREAM\0"
        content = b""
        while length := struct.unpack("!L", stream.read(4))[0]:
            content += stream.read(length)
        self.server.seen.append(content)
        self.request.sendall(self.server.answer or (b"stream: Eicar FOUND\0" if VIRUS in content else b"stream: OK\0"))


@pytest.fixture
def clamd(settings, tmp_path):
    with socketserver.ThreadingUnixStreamServer(str(tmp_path / "clamd"), Clamd) as server:
        server.seen, server.answer = [], b""
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        settings.FILE_SCANNER = f"clamd://{tmp_path / 'clamd'}"
        yield server
        server.shutdown()


def test_a_clean_file_is_scanned_whole_and_stored(alice, clamd):
    content = b"All is well." * 20_000
    assert storage.read_stored_file(storage.save_file(alice.pk, "a.txt", content)) == content
    assert clamd.seen == [content]


def test_malware_is_refused_and_nothing_of_it_is_stored(alice_api, clamd, settings):
    refused = alice_api.post(FILES, {"name": "bad.txt", "text": f"before {VIRUS.decode()} after"})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (422, "file_infected")
    assert "Eicar" in error["message"] and "bad.txt" in error["message"]
    assert not StoredFile.objects.exists() and not any(
        VIRUS in one.read_bytes() for one in Path(settings.FILES_DIR).rglob("*.*")
    )


@pytest.mark.parametrize("answer", [b"INSTREAM size limit exceeded. ERROR\0", b"stream: ", b"OK\0", b"\0"])
def test_any_other_answer_is_no_verdict(alice, clamd, answer):
    clamd.answer = answer
    with pytest.raises(Unavailable) as refused:
        storage.save_file(alice.pk, "a.txt", b"words")
    assert refused.value.code == "scanner_unavailable" and not StoredFile.objects.exists()


@pytest.mark.parametrize(
    "scanner", ["clamd:///nowhere/clamd", "clamd://127.0.0.1:1", "clamd://", "/nowhere/clamscan -", "'unclosed"]
)
def test_without_its_scanner_a_site_takes_no_files(alice_api, settings, scanner):
    settings.FILE_SCANNER = scanner
    refused = alice_api.post(FILES, {"name": "a.txt", "text": "words"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "scanner_unavailable")
    assert not StoredFile.objects.exists()


def program(line):
    return f"{sys.executable} -c {shlex.quote('import sys; found = sys.stdin.buffer.read(); ' + line)}"


def test_a_command_reads_the_file_and_its_exit_code_is_the_verdict(alice, settings):
    settings.FILE_SCANNER = program("print('Eicar'); sys.exit(b'virus' in found)")
    assert storage.save_file(alice.pk, "a.txt", b"words").size == 5
    with pytest.raises(Invalid, match="Eicar"):
        storage.save_file(alice.pk, "a.txt", VIRUS)


def test_a_command_that_fails_or_takes_too_long_gives_no_verdict(settings, monkeypatch):
    settings.FILE_SCANNER = program("sys.exit(2)")
    with pytest.raises(Unavailable):
        scanning.check_malware("a.txt", [b"words"])
    settings.FILE_SCANNER = program("import time; time.sleep(300)")
    monkeypatch.setattr(scanning, "SCAN_S", 0.2)
    with pytest.raises(Unavailable):
        scanning.check_malware("a.txt", [b"words"])
