"""One Muster on several hosts: the database and Valkey on `a`, web servers and workers on the others."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import psycopg
import redis

from supervisor import postgres, processes, valkey
from tests.live import ROOT, plain_environment, wait_for

from .network import NETWORK, OUTSIDE, Host, Network, do

HOSTS_RULES = f"local all all trust\nhost all all {NETWORK}.0/24 trust\nhost replication all {NETWORK}.0/24 trust\n"
NAMESPACE_OF_NETWORK = 0x40000000  # CLONE_NEWNET
CLOCKS = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
PORT = 8000
DISK_MB, LARGE_DISK_MB = 400, 2000  # of PostgreSQL, in memory; 20,000 runs need more than the first


class Program:
    """`manage.py serve --only …` on one host, which starts its program again when that falls."""

    def __init__(self, kind: str, host: Host, log: Path, environment: dict[str, str]) -> None:
        self.kind, self.host, self.log = kind, host, log
        command = host.command(sys.executable, "manage.py", "serve", "--only", kind)
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
            )

    def inner(self) -> psutil.Process | None:
        """The program itself, without what watches it."""
        with suppress(psutil.NoSuchProcess):
            return next(iter(psutil.Process(self.process.pid).children()), None)
        return None

    def everything(self) -> list[psutil.Process]:
        try:
            watcher = psutil.Process(self.process.pid)
            return [watcher, *watcher.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def fall(self) -> None:
        """kill -9 of the program; it is started again."""
        if inner := self.inner():
            with suppress(psutil.NoSuchProcess):
                inner.send_signal(signal.SIGKILL)

    def die(self) -> None:
        """kill -9 of everything, as if the power had failed."""
        for one in self.everything():
            with suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)
        self.process.wait()

    def freeze(self) -> None:
        for one in self.everything():
            one.suspend()

    def thaw(self) -> None:
        for one in self.everything():
            one.resume()

    def stop(self) -> int:
        """SIGTERM: it finishes what it has begun."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(120)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, f"{self.kind} of {self.host.name} ended:\n{self.log.read_text()[-3000:]}"
        return f"muster: {self.kind} is ready" in self.log.read_text()


class Server:
    """PostgreSQL or Valkey on one host, which may be killed and started again."""

    def __init__(self, host: Host, log: Path, become: Callable[[], None], answers: Callable[[], bool]) -> None:
        self.host, self.log, self.become, self.answers = host, log, become, answers
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.pid = processes.fork(self.work, output=output.fileno())
        wait_for(self.answers, 60, lambda: self.log.read_text()[-2000:])

    def work(self) -> None:
        enter(self.host)
        self.become()

    def is_alive(self) -> bool:
        return os.waitpid(self.pid, os.WNOHANG) == (0, 0)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def enter(host: Host) -> None:
    """This process moves to the network of that host."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{host.holder.pid}/ns/net") as namespace:
        if libc.setns(namespace.fileno(), NAMESPACE_OF_NETWORK):
            raise OSError(ctypes.get_errno(), "setns")


class Site:
    """`lease_s` is short, so that what is lost is found soon. Each program keeps its own data directory."""

    def __init__(self, scratch: Path, network: Network, lease_s: int, *, is_large: bool = False) -> None:
        self.scratch, self.network, self.lease_s = scratch, network, lease_s
        self.a, self.b, self.c = (network.add(name) for name in "abc")
        self.programs: list[Program] = []
        (scratch / "valkey").mkdir()
        self.database_host = self.a
        self.disk = scratch / "postgresql"  # its own, which can be filled
        self.disk.mkdir()
        size = LARGE_DISK_MB if is_large else DISK_MB
        do("mount", "-t", "tmpfs", "-o", f"size={size}m,mode=755", "tmpfs", str(self.disk))
        self.postgres = self.start_postgres(self.a, self.disk)
        self.valkey = self.start_valkey(self.a)
        self.prepare()

    # servers

    def start_postgres(self, host: Host, home: Path, **options: str) -> Server:
        cluster = postgres.prepare_cluster(
            home, listen_addresses=host.address, fsync="off", shared_buffers="64MB", max_connections="300", **options
        )
        (cluster.data / "pg_hba.conf").write_text(HOSTS_RULES)
        log = self.scratch / f"postgres-{host.name}.log"

        serve = postgres.command(cluster)

        def become() -> None:
            postgres.wait_for_earlier(cluster)
            serve()

        made = Server(host, log, become, lambda: postgres.is_ready(cluster))
        postgres.make_database(cluster.sockets)
        return made

    def start_valkey(self, host: Host) -> Server:
        settings = self.scratch / "valkey.conf"
        settings.write_text(
            f"port 6379\nbind {host.address}\nprotected-mode no\ndir {self.scratch}/valkey\nsave ''\nappendonly yes\n"
        )
        binary = str(valkey.find_binary())
        return Server(
            host, self.scratch / "valkey.log", lambda: os.execv(binary, [binary, str(settings)]), self.valkey_answers
        )

    def redis(self) -> redis.Redis:
        return redis.Redis(host=self.a.address, socket_timeout=5)

    def valkey_answers(self) -> bool:
        with suppress(redis.RedisError):
            return bool(self.redis().ping())
        return False

    def fill_disk(self) -> None:
        """Nothing more can be written where PostgreSQL keeps its data."""
        with (self.disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(bytes(4096))

    def make_room(self) -> None:
        (self.disk / "ballast").unlink()
        if not self.postgres.is_alive():
            self.postgres.start()

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """As PostgreSQL's owner."""
        address = f"host={self.database_host.address} user=muster dbname=muster connect_timeout=5"
        with psycopg.connect(address, autocommit=True) as line:
            done = line.execute(statement, values or None)
            return done.fetchall() if done.description else []

    # programs

    def environment(self, host: Host, ahead_s: float = 0.0, **more: str) -> dict[str, str]:
        shared = f"redis://{self.a.address}:6379"
        clock = {
            "LD_PRELOAD": str(CLOCKS[-1]), "FAKETIME": f"{ahead_s:+}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "PYTHONPATH": str(Path(__file__).parent / "clock"),
        } if ahead_s else {}  # fmt: skip
        return (
            plain_environment()
            | {
                "SECRET_KEY": "k" * 50,
                "MUSTER_FIELD_KEYS": "f" * 50,
                "ALLOWED_HOSTS": "*",
                "DATABASE_URL": f"postgres://muster@{self.database_host.address}:5432/muster",
                "BROKER_URL": f"{shared}/0",
                "CHANNEL_URL": f"{shared}/1",
                "CACHE_URL": f"{shared}/2",
                "MUSTER_HOST": host.address,
                "MUSTER_PORT": str(PORT),
                "MUSTER_DATA_DIR": str(self.scratch / f"data-{host.name}"),
                "MUSTER_FILES_DIR": str(self.scratch / "files"),
                "MUSTER_PRIVATE_HOSTS": OUTSIDE,
                "MUSTER_LEASE": str(self.lease_s),
                "MUSTER_DRAIN": "20",
            }
            | clock
            | more
        )

    def manage(self, *words: str, reads: str = "") -> str:
        """What the command prints. Its input is `reads`, since an argument may have 128 kB at most."""
        command = self.b.command(sys.executable, "manage.py", *words)
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment(self.b), input=reads, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def prepare(self) -> None:
        """Without starters, which would take longest."""
        self.manage("migrate", "--verbosity", "0")
        self.key = self.manage("create_key", "admin").split()[-1]
        self.rows("UPDATE agents_user SET is_superuser = true, is_staff = true")

    def start(self, kind: str, host: Host, *, ahead_s: float = 0.0, **more: str) -> Program:
        """Started; `ready` waits for it. `ahead_s`: its clock is ahead of the others by so many seconds."""
        log = self.scratch / f"{kind}-{host.name}-{len(self.programs)}.log"
        self.programs.append(Program(kind, host, log, self.environment(host, ahead_s, **more)))
        return self.programs[-1]

    def ready(self, *programs: Program) -> None:
        for program in programs:
            wait_for(program.is_ready, 120, lambda program=program: program.log.read_text()[-3000:])

    def of(self, kind: str, host: Host) -> Program:
        """The latest of this kind on this host."""
        return [one for one in self.programs if (one.kind, one.host) == (kind, host)][-1]

    def without(self, kind: str) -> None:
        """End all of this kind."""
        ending = [one for one in self.programs if one.kind == kind and one.process.poll() is None]
        for program in ending:
            program.process.terminate()
        for program in ending:
            program.stop()

    def client(self, host: Host) -> httpx2.Client:
        return httpx2.Client(
            base_url=f"http://{host.address}:{PORT}", headers={"Authorization": f"Bearer {self.key}"}, timeout=30
        )

    def stop(self) -> None:
        self.network.heal()
        for program in self.programs:
            if program.process.poll() is None:
                program.die()
        for server in (self.postgres, self.valkey):
            with suppress(OSError):  # it had ended
                server.kill()
        do("umount", "--lazy", str(self.disk))

    def last_words(self) -> str:
        """The end of every log."""
        logs = sorted(self.scratch.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text()[-800:]}" for log in logs if log.stat().st_size)
