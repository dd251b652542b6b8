"""Scans the content of a file for malware before it is stored. Without a scanner nothing is scanned.

`FILE_SCANNER` is `clamd://host:port` or `clamd:///path/to/socket` (ClamAV's daemon, command INSTREAM), or a command
line. A command reads the content from its standard input and ends with 0 (clean), 1 (malware) or another number
(could not scan), as `clamscan -` does. A file that could not be scanned is refused.
"""

import logging
import shlex
import socket
import struct
import subprocess
from collections.abc import Iterable
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext_noop as _

from agents.exceptions import Invalid, Unavailable
from plumbing.waits import run_blocking

log = logging.getLogger(__name__)
PIECE = 65_536
# Bytes of clamd's answer that are read.
ANSWER = 4096
PORT = 3310
# Seconds that a scan may take.
SCAN_S = 30.0


class CannotScan(Exception):
    """The scanner gave no verdict."""


def check_malware(name: str, pieces: Iterable[bytes]) -> None:
    """Raises Invalid (file_infected) for malware, and Unavailable (scanner_unavailable) without a verdict."""
    if not settings.FILE_SCANNER:
        return
    try:
        finding = run_blocking(run_scanner, settings.FILE_SCANNER, pieces)
    except (CannotScan, OSError, subprocess.SubprocessError, ValueError) as error:
        log.error("A file was refused because the scanner gave no verdict: %s", error)
        raise Unavailable(
            _("The file could not be scanned, so it was not stored."),
            code="scanner_unavailable",
            hint=_("Try again later. The administrator finds the reason in the log."),
        )
    if finding:
        log.warning("A file was refused: the scanner found %s", finding)
        raise Invalid(
            _("The scanner found malware in “%(name)s”: %(finding)s.") % {"name": name, "finding": finding},
            code="file_infected",
            hint=_("The file was not stored."),
        )


def run_scanner(scanner: str, pieces: Iterable[bytes]) -> str:
    """The name of the malware that the scanner found; empty if the content is clean. Raises CannotScan,
    OSError, SubprocessError.
    """
    if scanner.startswith("clamd://"):
        return by_daemon(scanner, pieces)
    return by_command(scanner, pieces)


def by_daemon(address: str, pieces: Iterable[bytes]) -> str:
    """Sends the content to clamd: each part after its length, and a length of 0 at the end."""
    with connect_scanner(address) as connection:
        connection.sendall(b"zINSTREAM\0")
        for piece in pieces:
            for start in range(0, len(piece), PIECE):
                part = piece[start : start + PIECE]
                connection.sendall(struct.pack("!L", len(part)) + part)
        connection.sendall(struct.pack("!L", 0))
        answer = read_scanner_answer(connection)
    if answer == "stream: OK":
        return ""
    if answer.startswith("stream: ") and answer.endswith(" FOUND"):
        finding = answer.removeprefix("stream: ").removesuffix(" FOUND")
        return finding[:200]
    raise CannotScan(f"clamd answered {answer[:200]!r}")


def connect_scanner(address: str) -> socket.socket:
    parts = urlsplit(address)
    if parts.hostname:
        return socket.create_connection((parts.hostname, parts.port or PORT), SCAN_S)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(SCAN_S)
    try:
        connection.connect(parts.path)
    except OSError:
        connection.close()
        raise
    return connection


def read_scanner_answer(line: socket.socket) -> str:
    """The daemon's answer, which ends with a NUL or with the connection."""
    answer = b""
    while len(answer) < ANSWER and not answer.endswith(b"\0"):
        received = line.recv(ANSWER)
        if not received:
            break
        answer += received
    return answer.rstrip(b"\0\n").decode(errors="replace")


def by_command(command: str, pieces: Iterable[bytes]) -> str:
    # The operator's, from the settings.
    program = shlex.split(command)
    done = subprocess.run(  # noqa: S603
        program, input=b"".join(pieces), capture_output=True, timeout=SCAN_S, check=False
    )
    if done.returncode == 0:
        return ""
    output = (done.stdout or done.stderr).decode(errors="replace").strip()[:200]
    if done.returncode == 1:
        return output or "malware"
    raise CannotScan(f"the command ended with {done.returncode}: {output}")
