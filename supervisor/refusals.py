"""Reasons not to start, each one sentence that says what to do."""

import fcntl
import ipaddress
import os
import platform
import resource
import shutil
import socket
import time
from pathlib import Path

from plumbing.broker.servers import is_clustered

BACKLOG = 1024
NEEDED_MB = 100
DESCRIPTORS = 65_536
REAL_SETTINGS = ("SECRET_KEY", "MUSTER_FIELD_KEYS", "ALLOWED_HOSTS")


class Refusal(Exception):
    """Do not start. The message says why, and what to do."""


def check_machine() -> None:
    if platform.system() != "Linux":
        raise Refusal(f"Muster runs on Linux and this is {platform.system()}: use a Linux machine, container or VM.")


def check_host(host: str) -> None:
    """Beyond loopback anyone on the network can connect: keys must then be set explicitly, not
    generated.
    """
    if is_loopback(host):
        return
    missing = [name for name in REAL_SETTINGS if not os.environ.get(name)]
    if missing:
        raise Refusal(
            f"{host} can be reached from other machines: set {', '.join(missing)} first "
            "(docs/howto/production.md), or serve on 127.0.0.1."
        )


def check_external(*, embedded: bool) -> None:
    """One program alone starts no servers: several such programs share them."""
    if embedded:
        raise Refusal("With --only, set DATABASE_URL, BROKER_URL, CHANNEL_URL and CACHE_URL to running servers.")


def check_clusters(**urls: str) -> None:
    """A server of a Redis Cluster needs an address with cluster://. One that does not answer may come later."""
    if names := [name for name, url in urls.items() if is_clustered(url)]:
        raise Refusal(
            f"{' and '.join(names)}: this server belongs to a Redis Cluster; write cluster://host1:6379,host2:6379 "
            "with some of its servers (docs/howto/production.md)."
        )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_data_dir(directory: Path, *, for_nobody: bool = False) -> None:
    """`for_nobody`: PostgreSQL runs as that user and must be able to enter its own directory in this one."""
    os.umask(0o077)  # of everything that is served from here, and of what its children write
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        close_to_others(directory, 0o711 if for_nobody else 0o700)
    except OSError as error:
        raise Refusal(
            f"The data directory {directory} cannot be created ({error.strerror}): choose another with --data-dir."
        )
    if not os.access(directory, os.W_OK | os.X_OK):
        raise Refusal(f"The data directory {directory} is not writable: choose another with --data-dir.")
    if shutil.disk_usage(directory).free < NEEDED_MB * 1024 * 1024:
        raise Refusal(f"The disk with {directory} has less than {NEEDED_MB} MB free: make room and start again.")


def close_to_others(directory: Path, mode: int) -> None:
    """Database, logs and secrets are their owner's, also those that an earlier version left readable."""
    if directory.stat().st_uid != os.geteuid():
        return
    directory.chmod(mode)
    for path in [*directory.iterdir(), *(directory / "logs").glob("*")]:
        if path.is_file() and not path.is_symlink():
            path.chmod(0o600)


def raise_descriptor_limit() -> None:
    """Each caller, run and sandboxed process takes some; the usual soft limit of 1,024 is soon reached."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    limit = DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    if soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def lock_data_directory(directory: Path, address: str) -> int:
    """Lock this data directory against other `serve` processes; the descriptor holds the lock until
    every process that has it exits.
    """
    descriptor = os.open(directory / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + 1.0  # children of a killed supervisor may need a moment to exit
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
                os.close(descriptor)
                raise Refusal(f"{directory} is already in use by {holder}: stop it, or choose another --data-dir.")
            time.sleep(0.02)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} at {address}\n".encode(), 0)
    return descriptor


def listen(host: str, port: int) -> socket.socket:
    """The listening socket. The supervisor owns it: while the web server restarts, clients wait
    instead of failing.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    line = socket.socket(family, socket.SOCK_STREAM)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        line.bind((host, port))
        line.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        line.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise Refusal(f"Port {port} of {host} cannot be used ({reason}): choose another with --port or MUSTER_PORT.")
    line.setblocking(False)
    return line
